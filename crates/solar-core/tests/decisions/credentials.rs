use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;
use serde_json::json;
use solar_core::credential::{Credential, CredentialError, Fault, of_secret};

fn secret(type_: &str, data: &[(&str, &[u8])]) -> Secret {
    let data: BTreeMap<String, ByteString> =
        data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
    Secret { type_: Some(type_.into()), data: Some(data), ..Default::default() }
}

fn docker(config: &str) -> Secret {
    secret("kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", config.as_bytes())])
}

fn basic(username: &str, password: &str) -> Credential {
    Credential::Basic { username: username.into(), password: password.into() }
}

#[test]
fn docker_entries_are_found_under_every_form_of_their_host() {
    for (key, host, repository) in [
        ("ghcr.io", "ghcr.io", "acme/web"),
        ("https://ghcr.io", "ghcr.io", "acme/web"),
        ("https://ghcr.io/", "ghcr.io", "acme/web"),
        ("https://ghcr.io/v2/", "ghcr.io", "acme/web"),
        ("GHCR.io:443", "ghcr.io", ""),
        ("registry.example.com:5000", "registry.example.com:5000", "a"),
        ("http://registry.example.com:5000/v1/", "registry.example.com:5000", "a"),
        ("https://index.docker.io/v1/", "docker.io", "library/nginx"),
        ("HTTPS://GHCR.IO", "ghcr.io", "acme/web"),
        ("https://ghcr.io/v1/", "ghcr.io", "acme/web"),
        ("ghcr.io/", "ghcr.io", "acme/web"),
        (" ghcr.io ", "ghcr.io", "acme/web"),
        ("http://ghcr.io:80/", "ghcr.io", "acme/web"),
        ("https://registry.example.com:5000/v2/", "registry.example.com:5000", "a"),
        ("index.docker.io", "docker.io", "library/nginx"),
        ("https://registry-1.docker.io/v2/", "docker.io", "library/nginx"),
        ("docker.io/library", "docker.io", "library/nginx"),
        ("[::1]:5000", "[::1]:5000", "a"),
        ("[0:0:0:0:0:0:0:1]:5000", "[::1]:5000", "a"),
        ("https://[2001:DB8::1]:443/", "[2001:db8::1]", "a"),
        ("192.0.2.7:5000", "192.0.2.7:5000", "a"),
        ("ghcr.io/acme", "ghcr.io", "acme/web"),
        ("ghcr.io/acme/web", "ghcr.io", "acme/web"),
        ("*.example.com", "eu.example.com", "a"),
        ("eu-*.example.com:5000", "eu-1.example.com:5000", "a"),
    ] {
        let config = json!({"auths": {key: {"username": "u", "password": "p"}}});
        assert_eq!(of_secret(&docker(&config.to_string()), host, repository), Ok(basic("u", "p")), "{key}");
    }
}

#[test]
fn docker_entries_of_other_hosts_and_paths_do_not_serve() {
    for (key, host, repository) in [
        ("ghcr.io", "quay.io", "acme/web"),
        ("ghcr.io:5000", "ghcr.io", "acme/web"),
        ("ghcr.io/acme", "ghcr.io", "acmeco/web"),
        ("ghcr.io/acme", "ghcr.io", ""),
        ("*.example.com", "a.b.example.com", "a"),
        ("*.example.com", "example.com", "a"),
        ("*.example.com", "eu.example.com:5000", "a"),
        ("io", "ghcr.io", "a"),
        ("", "ghcr.io", "a"),
        ("/", "ghcr.io", "a"),
        ("*", "ghcr.io", "a"),
        ("ghcr.io", "ghcr.io:5000", "a"),
        ("[::1]:5000", "[::1]", "a"),
        ("https://index.docker.io/v1/", "ghcr.io", "a"),
        ("ghcr.io.attacker.example", "ghcr.io", "a"),
        ("ghcr.io@attacker.example", "ghcr.io", "a"),
        ("ghcr.io/v1/acme", "ghcr.io", "other/web"),
    ] {
        let config = json!({"auths": {key: {"username": "u", "password": "p"}}});
        let error = CredentialError::NoEntry { key: ".dockerconfigjson", host: host.into() };
        assert_eq!(of_secret(&docker(&config.to_string()), host, repository), Err(error), "{key}");
    }
}

#[test]
fn the_longest_path_wins_and_a_plain_host_wins_over_a_pattern() {
    let entry = |name: &str| json!({"username": name, "password": "p"});
    let config = json!({"auths": {
        "*.io": entry("pattern"),
        "ghcr.io": entry("host"),
        "ghcr.io/acme": entry("org"),
        "ghcr.io/acme/web": entry("repository"),
    }});
    let secret = docker(&config.to_string());
    for (repository, name) in
        [("other/x", "host"), ("acme/db", "org"), ("acme/web", "repository"), ("acme/web/x", "repository")]
    {
        assert_eq!(of_secret(&secret, "ghcr.io", repository), Ok(basic(name, "p")), "{repository}");
    }
    assert_eq!(of_secret(&secret, "quay.io", "x"), Ok(basic("pattern", "p")));
}

/// Of keys that fit alike the smallest wins, in whatever order they stand: the choice is the same on each day.
#[test]
fn of_two_forms_of_one_key_the_smallest_wins() {
    let entry = |name: &str| format!(r#"{{"username":"{name}","password":"p"}}"#);
    for keys in [["ghcr.io", "https://ghcr.io"], ["https://ghcr.io", "ghcr.io"]] {
        let entries: Vec<String> =
            keys.iter().map(|key| format!("\"{key}\":{}", entry(&key.len().to_string()))).collect();
        let config = format!(r#"{{"auths":{{{}}}}}"#, entries.join(","));
        assert_eq!(of_secret(&docker(&config), "ghcr.io", "a"), Ok(basic("7", "p")), "{config}");
    }
}

/// The best key decides, though another that fits holds more: who narrowed the place meant it.
#[test]
fn an_entry_without_credentials_does_not_yield_to_another_that_fits_less() {
    let config = json!({"auths": {"ghcr.io": {"auth": "dTpw"}, "ghcr.io/acme": {}}}).to_string();
    let error = CredentialError::Malformed { key: ".dockerconfigjson", fault: Fault::NoCredential };
    assert_eq!(of_secret(&docker(&config), "ghcr.io", "acme/web"), Err(error));
    assert_eq!(of_secret(&docker(&config), "ghcr.io", "other"), Ok(basic("u", "p")));
}

#[test]
fn an_entry_may_hold_auth_or_a_name_or_a_token() {
    for (entry, credential) in [
        (json!({"auth": "dTpwOnE="}), basic("u", "p:q")),
        (json!({"auth": "dTpwcA"}), basic("u", "pp")),
        (json!({"auth": "dTpw\n"}), basic("u", "p")),
        (json!({"auth": "dTpw", "username": "x", "password": "y"}), basic("u", "p")),
        (json!({"auth": "", "username": "x", "password": "y"}), basic("x", "y")),
        (json!({"auth": "dTpwAAA="}), basic("u", "p")),
        (
            json!({"auth": "PHRva2VuPjo=", "identitytoken": "t"}),
            Credential::IdentityToken { token: "t".into() },
        ),
        (json!({"auth": "dTo="}), basic("u", "")),
        (json!({"auth": "dTpwcB"}), basic("u", "pp")),
        (json!({"auth": " dTpw\t"}), basic("u", "p")),
        (json!({"auth": "ZHR\nvcDpx\r\nMTI="}), basic("dtop", "q12")),
        (json!({"auth": "asO8cmdlbjpww6RzcyDwn5SR"}), basic("jürgen", "päss 🔑")),
        (json!({"username": "u", "password": "p:q"}), basic("u", "p:q")),
        (json!({"username": "jürgen", "password": "päss 🔑"}), basic("jürgen", "päss 🔑")),
        (json!({"username": "u", "password": ""}), basic("u", "")),
        (json!({"auth": null, "username": "u", "password": "p", "email": "a@b.example"}), basic("u", "p")),
        (json!({"identitytoken": "", "auth": "dTpw"}), basic("u", "p")),
        (
            json!({"identitytoken": "t", "username": "00000000-0000-0000-0000-000000000000"}),
            Credential::IdentityToken { token: "t".into() },
        ),
    ] {
        let config = json!({"auths": {"ghcr.io": entry}});
        assert_eq!(of_secret(&docker(&config.to_string()), "ghcr.io", "a"), Ok(credential), "{config}");
    }
}

#[test]
fn a_malformed_secret_names_its_key_and_fault_and_nothing_of_its_content() {
    let host = |entry: &str| format!(r#"{{"auths":{{"ghcr.io":{entry}}}}}"#);
    for (config, fault) in [
        ("hunter2".to_owned(), Fault::Json),
        (r#"{"auths":"hunter2"}"#.to_owned(), Fault::Auths),
        (r#"["hunter2"]"#.to_owned(), Fault::Auths),
        (host("\"hunter2\""), Fault::Entry),
        (host(r#"{"auth":["hunter2"]}"#), Fault::Entry),
        (host(r#"{"auth":"hunter2%"}"#), Fault::Base64),
        (host(r#"{"auth":"aHVudGVyMg=="}"#), Fault::Colon),
        (host(r#"{"auth":"Omh1bnRlcjI="}"#), Fault::Colon),
        (host(r#"{"auth":"/zr/"}"#), Fault::AuthUtf8),
        (host(r#"{"auth":"hunter2"}"#), Fault::AuthUtf8),
        (host(r#"{"auth":"="}"#), Fault::Base64),
        (host(r#"{"auth":{"hunter2":1}}"#), Fault::Entry),
        (host(r#"{"auth":7}"#), Fault::Entry),
        (host(r#"{"username":7,"password":"hunter2"}"#), Fault::Entry),
        (host(r#"{"username":"u","password":["hunter2"]}"#), Fault::Entry),
        (host(r#"{"identitytoken":["hunter2"]}"#), Fault::Entry),
        (host("null"), Fault::Entry),
        (host(r#"["hunter2"]"#), Fault::Entry),
        (host(r#"{"auth":""}"#), Fault::NoCredential),
        (host(r#"{"username":"","password":"hunter2"}"#), Fault::NoCredential),
        (host(r#"{"username":"hunter2"}"#), Fault::NoCredential),
        (host(r#"{"registrytoken":"hunter2"}"#), Fault::NoCredential),
        ("{}".to_owned(), Fault::Auths),
        ("null".to_owned(), Fault::Auths),
        (r#"{"ghcr.io":{"auth":"hunter2"}}"#.to_owned(), Fault::Auths),
        (r#"{"auths":null,"hunter2":""}"#.to_owned(), Fault::Auths),
        (r#"{"credHelpers":{"ghcr.io":"hunter2"}}"#.to_owned(), Fault::Helper),
        (r#"{"credsStore":"hunter2"}"#.to_owned(), Fault::Helper),
        (r#"{"auths":{"ghcr.io":{}},"credsStore":"hunter2"}"#.to_owned(), Fault::Helper),
        (r#"{"auths":{},"credHelpers":{"https://ghcr.io":"hunter2"}}"#.to_owned(), Fault::Helper),
        (host(r#"{"password":"hunter2"}"#), Fault::NoCredential),
        (host("{}"), Fault::NoCredential),
    ] {
        let error = of_secret(&docker(&config), "ghcr.io", "a").unwrap_err();
        assert_eq!(error, CredentialError::Malformed { key: ".dockerconfigjson", fault }, "{config}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    // A helper of another host, or beside a full entry, is nobody's business.
    let other = r#"{"auths":{},"credHelpers":{"quay.io":"hunter2"}}"#;
    let error = CredentialError::NoEntry { key: ".dockerconfigjson", host: "ghcr.io".into() };
    assert_eq!(of_secret(&docker(other), "ghcr.io", "a"), Err(error));
    let full = r#"{"auths":{"ghcr.io":{"auth":"dTpw"}},"credsStore":"desktop"}"#;
    assert_eq!(of_secret(&docker(full), "ghcr.io", "a"), Ok(basic("u", "p")));
    let not_utf8 = secret("kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", b"\xff")]);
    let error = CredentialError::Malformed { key: ".dockerconfigjson", fault: Fault::Utf8 };
    assert_eq!(of_secret(&not_utf8, "ghcr.io", "a"), Err(error));
}

#[test]
fn basic_auth_needs_both_keys() {
    let type_ = "kubernetes.io/basic-auth";
    let both = secret(type_, &[("username", b"u"), ("password", b"p")]);
    assert_eq!(of_secret(&both, "any.example.com", ""), Ok(basic("u", "p")));
    let error = of_secret(&secret(type_, &[("username", b"u")]), "h", "").unwrap_err();
    assert_eq!(error, CredentialError::NoKey { key: "password" });
    let literal = secret(type_, &[("username", b"u:v"), ("password", "p:q 🔑\n".as_bytes())]);
    assert_eq!(of_secret(&literal, "h", ""), Ok(basic("u:v", "p:q 🔑\n")), "nothing is guessed");
    let error = of_secret(&secret(type_, &[("username", b"u"), ("password", b"")]), "h", "").unwrap_err();
    assert_eq!(error, CredentialError::NoKey { key: "password" });
    let error = of_secret(&secret(type_, &[("username", b"u"), ("password", b"\xff")]), "h", "").unwrap_err();
    assert_eq!(error, CredentialError::Malformed { key: "password", fault: Fault::Utf8 });
    let error = of_secret(&secret(type_, &[("username", b""), ("password", b"p")]), "h", "").unwrap_err();
    assert_eq!(error, CredentialError::NoKey { key: "username" });
}

#[test]
fn other_types_of_secret_are_refused() {
    let opaque = secret("Opaque", &[("username", b"u"), ("password", b"p")]);
    assert_eq!(of_secret(&opaque, "h", ""), Err(CredentialError::Type { found: "Opaque".into() }));
    assert_eq!(of_secret(&Secret::default(), "h", ""), Err(CredentialError::Type { found: String::new() }));
    for type_ in ["kubernetes.io/dockercfg", "kubernetes.io/tls", "kubernetes.io/BASIC-AUTH"] {
        let found = CredentialError::Type { found: type_.into() };
        let secret = secret(type_, &[(".dockercfg", b"{}"), ("username", b"u"), ("password", b"p")]);
        assert_eq!(of_secret(&secret, "h", ""), Err(found));
    }
    let empty = secret("kubernetes.io/dockerconfigjson", &[]);
    assert_eq!(of_secret(&empty, "h", ""), Err(CredentialError::NoKey { key: ".dockerconfigjson" }));
}

/// Where a person reads it: the key, what is wrong, and for a helper the mend.
#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    let said = |config: &str| of_secret(&docker(config), "ghcr.io", "a").unwrap_err().to_string();
    for (config, sentence) in [
        (
            r#"{"auths":{"ghcr.io":{"auth":"hunter2"}}}"#,
            "the Secret's key \".dockerconfigjson\" is malformed: \"auth\" of the host's entry does not stand for text \
             in UTF-8",
        ),
        (
            r#"{"credsStore":"desktop"}"#,
            "the Secret's key \".dockerconfigjson\" is malformed: it leaves the host to a credential helper \
             (\"credHelpers\" or \"credsStore\"), which nothing can ask here: put \"auth\" into the host's entry in \
             \"auths\"",
        ),
        (r#"{"auths":{}}"#, "the Secret's key \".dockerconfigjson\" has no entry for ghcr.io"),
    ] {
        assert_eq!(said(config), sentence);
    }
}

#[test]
fn credentials_are_not_shown() {
    let token = Credential::IdentityToken { token: "hunter2".into() };
    assert_eq!(
        format!("{:?} {token:?}", basic("hunter1", "hunter2")),
        "Basic(redacted) IdentityToken(redacted)"
    );
    assert_eq!(format!("{:?}", Credential::Anonymous), "Anonymous");
}

proptest! {
    #[test]
    fn no_docker_config_makes_it_panic(key in "\\PC{0,20}", auth in "\\PC{0,20}", host in "[a-z.*:0-9\\[\\]/]{0,12}") {
        let config = json!({"auths": {key: {"auth": auth}}});
        let _ = of_secret(&docker(&config.to_string()), &host, "a/b");
    }
}
