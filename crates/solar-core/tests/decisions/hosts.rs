use proptest::prelude::*;
use solar_core::host::{HostError, is_valid, normalise, split_repository};

#[test]
fn one_host_has_one_form() {
    for (host, form) in [
        ("registry.example.com", "registry.example.com"),
        ("Registry.Example.COM", "registry.example.com"),
        ("oci://registry.example.com/", "registry.example.com"),
        ("HTTPS://registry.example.com", "registry.example.com"),
        ("http://registry.example.com:80/", "registry.example.com"),
        ("registry.example.com:443", "registry.example.com"),
        ("registry.example.com:5000", "registry.example.com:5000"),
        (" registry.example.com ", "registry.example.com"),
        ("localhost", "localhost"),
        ("LOCALHOST:5000//", "localhost:5000"),
        ("127.0.0.1:5000", "127.0.0.1:5000"),
        ("[::1]:5000", "[::1]:5000"),
        ("[::1]:443", "[::1]"),
        ("::1", "[::1]"),
        ("2001:DB8:0:0:0:0:0:1", "[2001:db8::1]"),
        ("[2001:DB8::1]", "[2001:db8::1]"),
        ("docker.io", "docker.io"),
        ("index.docker.io", "docker.io"),
        ("registry-1.docker.io:443", "docker.io"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("", ""),
    ] {
        assert_eq!(normalise(host), form, "{host:?}");
    }
}

#[test]
fn a_repository_is_split_behind_its_host() {
    for (repository, host, rest) in [
        ("ghcr.io/acme/web", "ghcr.io", "acme/web"),
        ("oci://GHCR.io/acme/web/", "ghcr.io", "acme/web"),
        ("registry:5000/acme/web", "registry:5000", "acme/web"),
        ("registry/acme", "registry", "acme"),
        ("[::1]:5000/acme/web", "[::1]:5000", "acme/web"),
        ("docker.io/library/nginx", "docker.io", "library/nginx"),
        ("index.docker.io/library/nginx", "docker.io", "library/nginx"),
        ("ghcr.io", "ghcr.io", ""),
        ("ghcr.io//web", "ghcr.io", "web"),
        ("", "", ""),
    ] {
        assert_eq!(split_repository(repository), (host.to_owned(), rest.to_owned()), "{repository:?}");
    }
}

#[test]
fn a_hostname_that_is_none_is_refused_with_what_is_wrong() {
    for host in [
        "registry.example.com",
        "oci://r.example.com/",
        "localhost:5000",
        "[::1]:5000",
        "::1",
        "https://index.docker.io/v1/",
    ] {
        assert_eq!(is_valid(host), Ok(()), "{host:?}");
    }
    let host = |text: &str| text.to_owned();
    for (text, error) in [
        ("", HostError::Empty),
        ("https://", HostError::Empty),
        ("ftp://r.example.com", HostError::Scheme { host: host("ftp://r.example.com") }),
        ("r.example.com/path", HostError::Path { host: host("r.example.com/path") }),
        ("r example.com", HostError::WhiteSpace { host: host("r example.com") }),
        ("user:pass@r.example.com", HostError::UserInfo),
        ("r.example.com:", HostError::Port { host: host("r.example.com:") }),
        ("r.example.com:0", HostError::Port { host: host("r.example.com:0") }),
        ("r.example.com:65536", HostError::Port { host: host("r.example.com:65536") }),
        ("r.example.com:+5", HostError::Port { host: host("r.example.com:+5") }),
        ("r<example", HostError::Syntax { host: host("r<example") }),
        (":5000", HostError::Syntax { host: host(":5000") }),
        ("[::1", HostError::Syntax { host: host("[::1") }),
    ] {
        assert_eq!(is_valid(text), Err(error), "{text:?}");
    }
    let error = is_valid("user:hunter2@r.example.com").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn the_normal_form_of_a_normal_form_is_itself(host in "\\PC{0,40}") {
        let once = normalise(&host);
        prop_assert_eq!(normalise(&once), once);
    }

    #[test]
    fn the_normal_form_of_anything_like_a_host_is_stable(host in "(oci://|HTTP://)?[a-zA-Z0-9:.\\[\\]%*/-]{0,20}(:443|:80)?/?") {
        let once = normalise(&host);
        prop_assert_eq!(normalise(&once), once);
        let _ = is_valid(&host);
        let _ = split_repository(&host);
    }
}
