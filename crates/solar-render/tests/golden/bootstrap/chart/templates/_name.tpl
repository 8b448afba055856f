{{- /*
Name of an object: the Helm release and a part, as `<release>-<part>`. Helm and Flux allow 53 characters for a release
name; a longer one keeps its first 42 and ends in 10 hex digits of the SHA-256 of the whole. Dots and dashes at the cut
go, so that the result is a DNS name whatever the parts.
Argument: list of the Helm release's name and the part.
*/ -}}
{{- define "solar.name" -}}
{{- $full := printf "%s-%s" (index . 0) (index . 1) -}}
{{- if gt (len $full) 53 -}}
{{- printf "%s-%s" ($full | trunc 42 | trimAll "-.") ($full | sha256sum | trunc 10) -}}
{{- else -}}
{{- $full -}}
{{- end -}}
{{- end -}}
