#!/usr/bin/env bash
# Builds the real parts that the tests run against, once, into a cache folder.
#
#   build.sh          build what is not there yet
#   build.sh where    print the folders that hold the programs, one a line, whether built or not
#   build.sh missing  print one line that names what is not there; exit 1 if CI=true and something is missing
#
# SOLAR_TOOLS_DIR   the cache folder (default: solar-controller/tools in the user's cache folder)
# KUBE_VERSION      another Kubernetes version than the one in kubernetes/go.mod, such as 1.35.4
# KUBEBUILDER_ASSETS  a folder with kube-apiserver, etcd and kubectl; those of them that it has are not built
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Each module has one folder, named after its go.mod; a program that is in it is complete.
MODULES=(etcd kubernetes registry flux crds)
# Without HOME the shell asks who runs it; Go wants the variable as well.
[ -n "${HOME:-}" ] || { unset HOME && export HOME=~; }
cache=${SOLAR_TOOLS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/solar-controller/tools}
# Part of every folder's name: count up when the way of building changes.
RECIPE=1

pinned=$(sed -n 's/^require k8s.io\/kubernetes v//p' kubernetes/go.mod)
kube_version=${KUBE_VERSION:-$pinned}
kube_version=${kube_version#v}

folder_of() { # module
    local version=
    [ "$1" != kubernetes ] || version=$kube_version
    local hash
    hash=$({ cat "$1/go.mod"; echo "$RECIPE $version"; } | sha256sum)
    echo "$cache/$1-${hash:0:16}"
}

# Those of the programs that the folder KUBEBUILDER_ASSETS does not have.
unless_given() { # program...
    local program
    for program in "$@"; do
        [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$program" ] || echo "$program"
    done
}

# What is to be in a module's folder.
parts_of() { # module
    case $1 in
    etcd) unless_given etcd ;;
    kubernetes) unless_given kube-apiserver kubectl kube-controller-manager ;;
    registry) echo helm registry ;;
    flux) echo source-controller source-controller-crds ;;
    crds) echo helm-controller-crds ;;
    esac
}

missing_of() { # module
    local folder part
    folder=$(folder_of "$1")
    for part in $(parts_of "$1"); do
        [ -e "$folder/$part" ] || echo "$part"
    done
}

go_build() { # target package [linker flags]
    go build -mod=readonly -trimpath -ldflags="-s -w ${3:-}" -o "$1" "$2"
}

# The folder of a Go module's source, downloaded if need be.
source_of() { # module path
    go mod download "$1"
    go list -mod=readonly -m -f '{{.Dir}}' "$1"
}

# Makes a go.mod for a Kubernetes version: its own one refers to the staging folders of its repository.
kubernetes_module() { # folder
    local kubernetes=k8s.io/kubernetes source module program
    (
        cd "$1"
        export GOFLAGS=-mod=mod
        go mod init solar-tools/kubernetes
        go mod edit -require "$kubernetes@v$kube_version"
        source=$(go mod download -json "$kubernetes@v$kube_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
        for module in $(sed -n 's/^\t*\(k8s.io\/[a-z0-9-]*\) => .\/staging.*/\1/p' "$source/go.mod"); do
            go mod edit -replace "$module=$module@v0.${kube_version#*.}"
        done
        for program in kube-apiserver kube-controller-manager kubectl; do
            go get -tool "$kubernetes/cmd/$program@v$kube_version"
        done
    )
}

make_part() { # part target
    case $1 in
    etcd) go_build "$2" go.etcd.io/etcd/server/v3 ;;
    kube-apiserver | kubectl | kube-controller-manager)
        local version=k8s.io/component-base/version minor=${kube_version#*.}
        go_build "$2" "k8s.io/kubernetes/cmd/$1" "-X $version.gitVersion=v$kube_version \
            -X $version.gitMajor=${kube_version%%.*} -X $version.gitMinor=${minor%%.*}"
        ;;
    helm) go_build "$2" helm.sh/helm/v3/cmd/helm ;;
    registry) go_build "$2" github.com/distribution/distribution/v3/cmd/registry ;;
    source-controller) go_build "$2" github.com/fluxcd/source-controller ;;
    source-controller-crds)
        local source
        source=$(source_of github.com/fluxcd/source-controller)
        mkdir "$2" && cp "$source"/config/crd/bases/*.yaml "$2" && chmod -R u+w "$2"
        ;;
    helm-controller-crds)
        # Only its types come as a module of their own; the definition is made from them.
        mkdir "$2" && go tool controller-gen crd:maxDescLen=0 \
            paths=github.com/fluxcd/helm-controller/api/v2 "output:crd:dir=$2"
        ;;
    esac
}

build() { # module
    local missing folder started part
    missing=$(missing_of "$1")
    [ -n "$missing" ] || return 0
    folder=$(folder_of "$1")
    mkdir -p "$folder"
    work=$(mktemp -d "$cache/tmp.XXXXXX")
    if [ "$1" = kubernetes ] && [ "$kube_version" != "$pinned" ]; then
        mkdir "$work/module"
        kubernetes_module "$work/module"
        pushd "$work/module" >/dev/null
    else
        pushd "$1" >/dev/null
    fi
    for part in $missing; do
        started=$SECONDS
        echo "building $part"
        make_part "$part" "$work/$part"
        mv -T "$work/$part" "$folder/$part"
        echo "built $part in $((SECONDS - started)) s"
    done
    popd >/dev/null
    rm -rf "$work"
    work=
}

find_go() {
    # An installation by Go's own instructions is not on every PATH.
    command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
    if ! command -v go >/dev/null; then
        echo "Go is missing: install it (https://go.dev/doc/install)" >&2
        exit 1
    fi
    # No cgo and the same flags for all, so that they share what is built; no other Go is downloaded.
    export CGO_ENABLED=0 GOTOOLCHAIN=local GOWORK=off GOFLAGS=
}

all_missing() {
    local module
    for module in "${MODULES[@]}"; do missing_of "$module"; done
}

case ${1:-build} in
where)
    for module in "${MODULES[@]}"; do folder_of "$module"; done
    ;;
missing)
    left_out=$(all_missing | paste -sd ' ')
    for program in docker-registry promtool curl; do
        command -v $program >/dev/null || debian="${debian:+$debian }$program"
    done
    message=
    [ -z "$left_out" ] || message="$left_out ('make tools' builds them, with Go)"
    [ -z "${debian:-}" ] || message="${message:+$message and}$debian (from the Debian packages docker-registry, prometheus and curl)"
    [ -z "$message" ] || { echo "Left out were the tests with $message" && [ "${CI:-}" != true ]; }
    ;;
build)
    [ -n "$(all_missing)" ] || exit 0
    find_go
    mkdir -p "$cache"
    # One build at a time; the lock ends with the process. What an interrupted one left behind is removed.
    exec 9>"$cache/lock"
    if command -v flock >/dev/null; then
        flock -n 9 || { echo "waiting for another build" && flock 9; }
        rm -rf "$cache"/tmp.*
    fi
    work=
    trap 'rm -rf "${work:-}"' EXIT
    trap 'exit 130' INT TERM
    for module in "${MODULES[@]}"; do build "$module"; done
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$(basename "$0")" >&2
    exit 2
    ;;
esac
