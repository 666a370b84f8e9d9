//! The hosts a capsule may send HTTP requests to.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::name::shown;

/// One scheme, one exact host, one port: where outgoing HTTP may go.
///
/// Two spellings of the same place are equal: letters are small, the scheme's own port is filled in and IP literals are
/// canonical. There are no wildcards, and a name is not resolved: `localhost` is not `127.0.0.1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("https") {
            Some(Self::Https)
        } else if text.eq_ignore_ascii_case("http") {
            Some(Self::Http)
        } else {
            None
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A text that names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a host like `https://api.example.com` or `http://127.0.0.1:8080`: {why}")]
pub struct BadHost {
    shown: String,
    why: &'static str,
}

impl FromStr for Host {
    type Err = BadHost;

    fn from_str(text: &str) -> Result<Self, BadHost> {
        let bad = |why| BadHost { shown: shown(text), why };
        let (scheme, authority) = text.split_once("://").ok_or_else(|| bad("it needs a scheme"))?;
        if authority.contains(['/', '?', '#', '\\']) {
            return Err(bad("it may have no path"));
        }
        Self::new(scheme, authority).map_err(bad)
    }
}

impl Host {
    fn new(scheme: &str, authority: &str) -> Result<Self, &'static str> {
        let scheme = Scheme::parse(scheme).ok_or("the scheme must be http or https")?;
        if authority.contains('@') {
            return Err("it may have no user name");
        }
        let (host, port) = match authority.rfind(':') {
            // The colons of an IPv6 address stand inside its brackets.
            Some(colon) if !authority[colon..].contains(']') => (&authority[..colon], Some(&authority[colon + 1..])),
            _ => (authority, None),
        };
        let port = match port {
            None => scheme.port(),
            Some(digits) => port_number(digits).ok_or("the port must be a number from 1 to 65535")?,
        };
        Ok(Self { scheme, host: canonical_host(host)?, port })
    }

    /// Whether a request to this scheme, host and port goes here. No port means the scheme's own.
    pub fn allows(&self, scheme: &str, host: &str, port: Option<u16>) -> bool {
        let Some(scheme) = Scheme::parse(scheme) else { return false };
        self.scheme == scheme
            && self.port == port.unwrap_or(scheme.port())
            && canonical_host(host).is_ok_and(|host| host == self.host)
    }

    /// The host an absolute URL goes to. Its path and query do not matter; a user name in it is refused.
    pub fn of_url(url: &str) -> Result<Self, BadHost> {
        let bad = |why| BadHost { shown: shown(url), why };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it needs a scheme"))?;
        // A backslash ends the host for some readers of URLs and not for others.
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        Self::new(scheme, authority).map_err(bad)
    }
}

fn port_number(digits: &str) -> Option<u16> {
    // `parse` alone would take `+80`.
    let plain = digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|port| plain && *port != 0)
}

fn canonical_host(host: &str) -> Result<String, &'static str> {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or("an IPv6 address must be closed with `]`")?;
        return inner.parse::<Ipv6Addr>().map(|ip| format!("[{ip}]")).map_err(|_| "not an IPv6 address");
    }
    if host.is_empty() || host.len() > 253 {
        return Err("a host name has 1 to 253 characters");
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if host.contains('*') {
        return Err("there are no wildcards; list each host");
    }
    if !host.split('.').all(label) {
        return Err("a host name is letters, digits and `-`, with dots between (write other scripts as `xn--…`)");
    }
    // `127.1`, `0x7f.1` and `2130706433` are all 127.0.0.1 to some resolvers; only the usual spelling is taken.
    let last = host.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X");
    if numeric && host.parse::<Ipv4Addr>().is_err() {
        return Err("not an IPv4 address in its usual spelling");
    }
    Ok(host.to_ascii_lowercase())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == self.scheme.port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[test]
    fn spellings_of_one_place_are_equal() {
        assert_eq!(host("HTTPS://Api.Example.COM"), host("https://api.example.com:443"));
        assert_eq!(host("http://[::0:1]:80").to_string(), "http://[::1]");
        assert_eq!(host("http://127.0.0.1:8080").to_string(), "http://127.0.0.1:8080");
        assert_ne!(host("http://a"), host("https://a"));
        assert_ne!(host("http://a"), host("http://a:81"));
    }

    #[test]
    fn what_is_no_exact_host_is_refused() {
        let bad = [
            "",
            "a",
            "ftp://a",
            "https://",
            "https://a/",
            "https://a/b",
            "https://a?b",
            "https://u@a",
            "https://u:p@a",
            "https://*.a",
            "https://a:",
            "https://a:0",
            "https://a:65536",
            "https://a:+80",
            "https://a:8x",
            "https://a b",
            "https://a.",
            "https://.a",
            "https://a..b",
            "https://-a",
            "https://127.1",
            "https://0x7f.1",
            "https://1.2.3.256",
            "https://2130706433",
            "https://01.2.3.4",
            "https://[::1",
            "https://::1",
            "https://[a]",
            "https://bücher.de",
            "https://a\\b",
            "https://a%2e",
            "https://a\0",
            "//a",
            "https:a",
        ];
        for text in bad {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
        assert!("https://".to_owned().parse::<Host>().is_err());
        assert!(format!("https://{}", "a".repeat(300)).parse::<Host>().is_err());
    }

    #[test]
    fn only_the_exact_place_is_allowed() {
        let api = host("https://api.example.com");
        assert!(api.allows("https", "API.example.com", None));
        assert!(api.allows("HTTPS", "api.example.com", Some(443)));
        for (scheme, name, port) in [
            ("http", "api.example.com", None),
            ("https", "api.example.com", Some(444)),
            ("https", "example.com", None),
            ("https", "evil-api.example.com", None),
            ("https", "api.example.com.", None),
            ("https", "api.example.com.evil.org", None),
            ("wss", "api.example.com", None),
        ] {
            assert!(!api.allows(scheme, name, port), "{scheme} {name} {port:?}");
        }
        assert!(host("http://[::1]:9").allows("http", "[0::1]", Some(9)));
    }

    #[test]
    fn a_url_goes_where_its_authority_says() {
        assert_eq!(Host::of_url("https://a.example/x?y=https://b.example#z").unwrap(), host("https://a.example"));
        assert_eq!(Host::of_url("http://a?@b").unwrap(), host("http://a"));
        for url in ["https://a@b/", "https://a:b@c/", "a/b", "/x", "file:///etc/passwd", "https://a\\@b"] {
            let reached = Host::of_url(url);
            assert!(reached.is_err() || reached == Ok(host("https://a")), "{url}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_reads_back(text in "(https?://)?[a-zA-Z0-9.:\\[\\]@/*%-]{0,24}|\\PC{0,24}") {
            if let Ok(host) = text.parse::<Host>() {
                prop_assert_eq!(host.to_string().parse::<Host>().unwrap(), host);
            }
        }
    }
}
