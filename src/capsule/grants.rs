//! What a capsule may touch. Nothing is granted that is not named.

use std::collections::BTreeSet;

use serde::Serialize;

use super::host::Host;

/// What a capsule may do. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Grants {
    /// Directories its sessions must be lent to read, by the capsule's own names for them.
    pub read: BTreeSet<String>,
    /// Directories its sessions must be lent to read and write.
    pub write: BTreeSet<String>,
    /// Environment variables it sees.
    pub env: BTreeSet<String>,
    /// Hosts it may send HTTP requests to.
    pub network: BTreeSet<Host>,
    /// Capsules it may delegate to, itself included only where named.
    pub delegate: BTreeSet<String>,
}

/// A child's grant that its parent does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is wider than what its delegator `{parent}` holds")]
pub struct Wider {
    /// The manifest key (`grants.network`).
    pub key: &'static str,
    /// The value under that key that the parent does not hold.
    pub value: String,
    /// Whose grants it is compared with; filled in by whoever knows their name.
    pub parent: String,
}

impl Grants {
    /// Whether everything granted here is also granted to `parent`. The first value that is not is named; nothing is
    /// ever narrowed.
    ///
    /// A directory's name is the capsule's own, so the names of two capsules say nothing of each other: what is compared
    /// here is that whoever reads has a delegator that can lend something to read, and whoever writes one that can lend
    /// something to write. *Which* directory is lent, and how, is decided when it is: [`check_lend`](super::check_lend).
    pub fn within(&self, parent: &Self) -> Result<(), Wider> {
        let wider = |key, value: String| Err(Wider { key, value, parent: String::new() });
        if let Some(name) = self.read.first()
            && parent.read.is_empty()
            && parent.write.is_empty()
        {
            return wider("grants.read", name.clone());
        }
        if let Some(name) = self.write.first()
            && parent.write.is_empty()
        {
            return wider("grants.write", name.clone());
        }
        if let Some(name) = self.env.difference(&parent.env).next() {
            return wider("grants.env", name.clone());
        }
        if let Some(host) = self.network.difference(&parent.network).next() {
            return wider("grants.network", host.to_string());
        }
        if let Some(name) = self.delegate.difference(&parent.delegate).next() {
            return wider("grants.delegate", name.clone());
        }
        Ok(())
    }

    /// Whether an HTTP request to this absolute URL may go out.
    pub fn allows_url(&self, url: &str) -> bool {
        Host::of_url(url).is_ok_and(|host| self.network.contains(&host))
    }

    /// Whether these grants alone let a session change something outside treeward.
    pub fn change_the_world(&self) -> bool {
        !self.write.is_empty() || !self.network.is_empty()
    }
}

/// Whether `name` can be the name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn some(of: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<String>> {
        btree_set(select(of).prop_map(str::to_owned), 0..3)
    }

    pub(crate) fn any_grants() -> impl Strategy<Value = Grants> {
        let hosts = btree_set(select(&["https://a", "http://a", "https://b:8"][..]), 0..3)
            .prop_map(|hosts| hosts.iter().map(|host| host.parse().unwrap()).collect());
        (some(&["input", "docs"]), some(&["work", "out"]), some(&["LANG", "TZ"]), hosts, some(&["leaf", "mid"]))
            .prop_map(|(read, write, env, network, delegate)| Grants { read, write, env, network, delegate })
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn each_axis_refuses_with_its_key() {
        let cases = [
            (Grants { read: set(&["input"]), ..Grants::default() }, "grants.read", "input"),
            (Grants { write: set(&["work"]), ..Grants::default() }, "grants.write", "work"),
            (Grants { env: set(&["HOME"]), ..Grants::default() }, "grants.env", "HOME"),
            (
                Grants { network: ["https://a".parse().unwrap()].into(), ..Grants::default() },
                "grants.network",
                "https://a",
            ),
            (Grants { delegate: set(&["leaf"]), ..Grants::default() }, "grants.delegate", "leaf"),
        ];
        for (child, key, value) in cases {
            let wider = child.within(&Grants::default()).unwrap_err();
            assert_eq!((wider.key, wider.value.as_str()), (key, value));
            assert_eq!(child.within(&child), Ok(()));
        }
    }

    #[test]
    fn whoever_writes_can_lend_to_read_but_not_the_other_way() {
        let reads = Grants { read: set(&["input"]), ..Grants::default() };
        let writes = Grants { write: set(&["work"]), ..Grants::default() };
        assert_eq!(reads.within(&writes), Ok(()));
        assert_eq!(writes.within(&reads).unwrap_err().key, "grants.write");
    }

    #[test]
    fn a_url_is_allowed_by_its_exact_host_only() {
        let grants = Grants { network: ["https://api.example.com".parse().unwrap()].into(), ..Grants::default() };
        assert!(grants.allows_url("https://API.example.com:443/v1?q#f"));
        for url in ["http://api.example.com/", "https://api.example.com:444/", "https://api.example.com@evil/", "x", ""]
        {
            assert!(!grants.allows_url(url), "{url}");
        }
    }

    proptest! {
        #[test]
        fn within_is_a_preorder(a in any_grants(), b in any_grants(), c in any_grants()) {
            prop_assert_eq!(a.within(&a), Ok(()));
            prop_assert_eq!(Grants::default().within(&a), Ok(()));
            if a.within(&b).is_ok() && b.within(&c).is_ok() {
                prop_assert_eq!(a.within(&c), Ok(()));
            }
        }

        #[test]
        fn nothing_is_within_what_cannot_do_it(a in any_grants(), b in any_grants()) {
            if a.within(&b).is_ok() {
                prop_assert!(a.env.is_subset(&b.env) && a.network.is_subset(&b.network));
                prop_assert!(a.delegate.is_subset(&b.delegate));
                prop_assert!(b.change_the_world() || !a.change_the_world());
            }
        }
    }
}
