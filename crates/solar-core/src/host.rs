//! Hosts of registries in one normal form.

use std::net::Ipv6Addr;

/// Docker Hub, under whichever of its names.
pub const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_ALIASES: [&str; 5] =
    ["docker.io", "index.docker.io", "registry-1.docker.io", "index.docker.io/v1", "index.docker.io/v2"];

const SCHEMES: [&str; 3] = ["oci://", "https://", "http://"];
/// Ports that are left out: HTTPS, and HTTP for registries that speak it.
const DEFAULT_PORTS: [&str; 2] = ["443", "80"];

/// What is wrong with a registry's hostname.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing is there.
    #[error("the hostname is empty")]
    Empty,
    /// A scheme other than `oci`, `https` and `http`, or one in the middle.
    #[error("the hostname {host:?} holds a scheme: give host and port only")]
    Scheme {
        /// The text.
        host: String,
    },
    /// Something behind a slash.
    #[error("the hostname {host:?} holds a path: give host and port only")]
    Path {
        /// The text.
        host: String,
    },
    /// A space or another character that no host has.
    #[error("the hostname {host:?} holds white space")]
    WhiteSpace {
        /// The text.
        host: String,
    },
    /// A user or password, which is not repeated here.
    #[error("the hostname holds a user or password in front of an @: give host and port only")]
    UserInfo,
    /// A port that is no number from 1 to 65535.
    #[error("the hostname {host:?} has no valid port behind its last colon")]
    Port {
        /// The text.
        host: String,
    },
    /// Any other text that is no host.
    #[error("the hostname {host:?} is neither a domain name nor an IP address")]
    Syntax {
        /// The text.
        host: String,
    },
}

/// The normal form of a registry's host, in which hosts are compared, named and asked for credentials.
///
/// Scheme (`oci`, `https`, `http`) and trailing slashes are off, letters are lower case, ports 443 and 80 are off, an
/// IPv6 address is in brackets and in its shortest form, and the names of Docker Hub are one. Which of HTTP and HTTPS a
/// registry speaks is not part of its host, therefore both default ports go. A host without a dot is taken literally.
///
/// Total and idempotent: text that is no host comes out lower-cased, for [`is_valid`] to refuse.
pub fn normalise(host: &str) -> String {
    let lower = undecorated(host).to_lowercase();
    let host = undecorated(&lower);
    if DOCKER_HUB_ALIASES.contains(&host) {
        return DOCKER_HUB.to_owned();
    }
    if host.contains('/') {
        return host.to_owned();
    }
    let (name, port) = split_port(host);
    let name = normal_name(name);
    match port.filter(|port| !DEFAULT_PORTS.contains(port)) {
        None if DOCKER_HUB_ALIASES.contains(&name.as_str()) => DOCKER_HUB.to_owned(),
        None => name,
        Some(port) => format!("{name}:{port}"),
    }
}

/// The host of an OCI repository in its normal form, and what stands behind it.
///
/// `oci://` and trailing slashes are taken off. The text up to the first slash is the host, also without a dot or port;
/// a text without a slash is a host with nothing behind it.
pub fn split_repository(repository: &str) -> (String, String) {
    let bare = undecorated(repository);
    let (host, rest) = bare.split_once('/').unwrap_or((bare, ""));
    (normalise(host), rest.trim_matches('/').to_owned())
}

/// Whether `host` is a host with an optional port, once what [`normalise`] takes off is off.
pub fn is_valid(host: &str) -> Result<(), HostError> {
    let bare = undecorated(host);
    let text = || bare.to_owned();
    if bare.is_empty() {
        return Err(HostError::Empty);
    }
    if bare.contains('@') {
        return Err(HostError::UserInfo);
    }
    if bare.contains("://") {
        return Err(HostError::Scheme { host: text() });
    }
    if bare.contains(char::is_whitespace) {
        return Err(HostError::WhiteSpace { host: text() });
    }
    if bare.contains('/') && !DOCKER_HUB_ALIASES.contains(&bare.to_lowercase().as_str()) {
        return Err(HostError::Path { host: text() });
    }
    check_authority(bare.split('/').next().unwrap_or(bare)).map_err(|fault| match fault {
        Fault::Port => HostError::Port { host: text() },
        Fault::Name => HostError::Syntax { host: text() },
    })
}

enum Fault {
    Port,
    Name,
}

fn check_authority(authority: &str) -> Result<(), Fault> {
    let (name, port) = split_port(authority);
    if let Some(port) = port {
        let number = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse::<u16>().ok()).flatten();
        number.filter(|number| *number > 0).ok_or(Fault::Port)?;
    }
    if name.parse::<Ipv6Addr>().is_ok() {
        return Ok(());
    }
    match url::Host::parse(name) {
        Ok(url::Host::Domain(domain)) if domain.is_empty() => Err(Fault::Name),
        Ok(_) => Ok(()),
        Err(_) => Err(Fault::Name),
    }
}

/// Without surrounding white space, schemes and trailing slashes, however many there are.
fn undecorated(text: &str) -> &str {
    let mut text = text;
    loop {
        let bare = text.trim();
        let rest = SCHEMES.iter().find_map(|scheme| strip_prefix_ignoring_case(bare, scheme));
        let rest = rest.unwrap_or_else(|| bare.trim_end_matches('/'));
        if rest.len() == text.len() {
            return text;
        }
        text = rest;
    }
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// Name and port. More than one colon outside brackets is an IPv6 address without a port.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    if let Some(close) = authority.rfind(']') {
        let (name, rest) = authority.split_at(close + 1);
        return match rest.strip_prefix(':') {
            Some(port) => (name, Some(port)),
            None if rest.is_empty() => (name, None),
            None => (authority, None),
        };
    }
    match authority.split_once(':') {
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        _ => (authority, None),
    }
}

/// A host's name as a URL library would send it, or as it is when it is none.
fn normal_name(name: &str) -> String {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return format!("[{address}]");
    }
    match url::Host::parse(name) {
        Ok(host) => host.to_string(),
        Err(_) => name.to_owned(),
    }
}
