//! The names of things: a session's path in its tree, the strands of its doing, ids and digests.
//!
//! Paths and strands are deterministic and stand in record bodies. Ids (`tree_…`, `ses_…`) are drawn from
//! [`Env`](crate::env::Env) and stand in envelopes only.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Where a session stands in its tree: `0` is the root, `0.2` its third delegation's child.
///
/// Ordered component by component, a parent before its children. Cloning is one atomic increment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionPath(Arc<[u32]>);

impl Ord for SessionPath {
    /// Sessions a thousand levels deep mostly have long beginnings in common: those are skipped in blocks.
    fn cmp(&self, other: &Self) -> Ordering {
        const BLOCK: usize = 16;
        let common = self.0.chunks_exact(BLOCK).zip(other.0.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count();
        self.0[common * BLOCK..].cmp(&other.0[common * BLOCK..])
    }
}

impl PartialOrd for SessionPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl SessionPath {
    /// The root of every tree, `0`.
    pub fn root() -> Self {
        Self(Arc::from([0].as_slice()))
    }

    /// The path of the child made by the delegation with this index.
    pub fn child(&self, index: u32) -> Self {
        Self(self.0.iter().copied().chain([index]).collect())
    }

    /// The session that made this one; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        (self.0.len() > 1).then(|| Self(Arc::from(&self.0[..self.0.len() - 1])))
    }

    /// Which of its parent's delegations made this session; 0 for the root.
    pub fn index(&self) -> u32 {
        self.0[self.0.len() - 1]
    }

    /// How many delegations lie above: 0 for the root.
    pub fn depth(&self) -> u32 {
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX)
    }

    /// Whether `other` is this session or lies below it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for SessionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every record has a path in it: the digits are put together here, and handed over once.
        let mut text = String::with_capacity(self.0.len() * 2);
        for (i, &part) in self.0.iter().enumerate() {
            if i > 0 {
                text.push('.');
            }
            match u8::try_from(part) {
                Ok(digit @ 0..=9) => text.push(char::from(b'0' + digit)),
                _ => text.push_str(&part.to_string()),
            }
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for SessionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that does not name what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct BadName {
    text: String,
    what: &'static str,
}

impl BadName {
    fn new(text: &str, what: &'static str) -> Self {
        Self { text: text.chars().take(64).collect(), what }
    }
}

impl FromStr for SessionPath {
    type Err = BadName;

    fn from_str(s: &str) -> Result<Self, BadName> {
        let bad = || BadName::new(s, "a session path like `0` or `0.2.1`");
        let parts: Result<Vec<u32>, _> = s.split('.').map(str::parse).collect();
        let parts = parts.map_err(|_| bad())?;
        if parts[0] != 0 {
            return Err(bad());
        }
        let path = Self(parts.into());
        // `0.01` and `+1` parse as numbers; only the canonical spelling is a name.
        if path.to_string() != s { Err(bad()) } else { Ok(path) }
    }
}

/// One line of a session's doing. Within a strand records are numbered 1, 2, 3, …
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strand {
    /// The tree itself: its start and its end.
    Tree,
    /// The session's main line.
    Main,
    /// One gated call, numbered within the session.
    Call(u32),
    /// One delegation, by its index within the session.
    Delegation(u32),
}

impl fmt::Display for Strand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree => f.write_str("tree"),
            Self::Main => f.write_str("main"),
            Self::Call(n) => write!(f, "call.{n}"),
            Self::Delegation(n) => write!(f, "delegation.{n}"),
        }
    }
}

impl FromStr for Strand {
    type Err = BadName;

    fn from_str(s: &str) -> Result<Self, BadName> {
        let number = |n: &str| n.parse().map_err(|_| BadName::new(s, "a strand"));
        match s.split_once('.') {
            None if s == "tree" => Ok(Self::Tree),
            None if s == "main" => Ok(Self::Main),
            Some(("call", n)) => Ok(Self::Call(number(n)?)),
            Some(("delegation", n)) => Ok(Self::Delegation(number(n)?)),
            _ => Err(BadName::new(s, "a strand")),
        }
    }
}

/// SHA-256 of some bytes: the name of a blob, a component or a capsule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// From the raw 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Digest {
    type Err = BadName;

    fn from_str(s: &str) -> Result<Self, BadName> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(s, &mut bytes).map_err(|_| BadName::new(s, "a SHA-256 digest in hexadecimal"))?;
        Ok(Self(bytes))
    }
}

/// An id is a prefix and a UUID, written `tree_6f1c…` (32 hexadecimal digits).
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(uuid::Uuid);

        impl $name {
            /// From a UUID that [`Env`](crate::env::Env) drew.
            pub fn new(uuid: uuid::Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(s: &str) -> Result<Self, BadName> {
                s.strip_prefix(concat!($prefix, "_"))
                    .filter(|rest| rest.len() == 32)
                    .and_then(|rest| uuid::Uuid::try_parse(rest).ok())
                    .map(Self)
                    .ok_or_else(|| BadName::new(s, concat!("an id like ", $prefix, "_…")))
            }
        }

        text_serde!($name);
    };
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

text_serde!(SessionPath);
text_serde!(Strand);
text_serde!(Digest);
id!(
    /// One tree: a root session and everything delegated below it.
    TreeId, "tree"
);

impl TreeId {
    /// No tree: what a root that holds many has in place of its own.
    pub(crate) fn nobody() -> Self {
        Self(uuid::Uuid::nil())
    }
}

id!(
    /// One session, the same over all its attempts.
    SessionId, "ses"
);
id!(
    /// One run of a harness's process: what its tag is made of.
    RunId, "run"
);

impl RunId {
    /// Its 16 bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }
}

id!(
    /// One delegation.
    DelegationId, "dlg"
);
id!(
    /// One task a session was given.
    TaskId, "tsk"
);

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn paths_are_ordered_component_by_component(
            a in proptest::collection::vec(0_u32..3, 0..40),
            b in proptest::collection::vec(0_u32..3, 0..40),
            shared in 0_usize..40,
        ) {
            let path = |rest: &[u32]| {
                let start = SessionPath(vec![0; shared + 1].into());
                rest.iter().fold(start, |path, &part| path.child(part))
            };
            proptest::prop_assert_eq!(path(&a).cmp(&path(&b)), a.cmp(&b));
            proptest::prop_assert_eq!(path(&a).to_string().parse(), Ok(path(&a)));
        }
    }

    #[test]
    fn a_path_reads_back_as_written_and_only_in_its_one_spelling() {
        for good in ["0", "0.0", "0.2.1", "0.4294967295"] {
            assert_eq!(good.parse::<SessionPath>().unwrap().to_string(), good);
        }
        for bad in ["", "1", "0.", ".0", "0.01", "0.+1", "0.4294967296", "0..1", "0.a", "-0"] {
            assert!(bad.parse::<SessionPath>().is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_order_by_number_with_a_parent_before_its_children() {
        let mut paths: Vec<SessionPath> = ["0.10", "0.2", "0", "0.2.1"].iter().map(|p| p.parse().unwrap()).collect();
        paths.sort();
        assert_eq!(paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0", "0.2", "0.2.1", "0.10"]);
    }

    #[test]
    fn a_path_contains_itself_and_what_is_below_and_no_namesake() {
        let path = |p: &str| p.parse::<SessionPath>().unwrap();
        assert!(path("0.1").contains(&path("0.1")));
        assert!(path("0.1").contains(&path("0.1.5")));
        assert!(!path("0.1").contains(&path("0.10")));
        assert!(!path("0.1").contains(&path("0")));
        assert_eq!(path("0.1.5").parent(), Some(path("0.1")));
        assert_eq!(path("0").parent(), None);
        assert_eq!((path("0.1.5").index(), path("0.1.5").depth()), (5, 2));
    }

    #[test]
    fn strands_and_ids_read_back_as_written() {
        for s in [Strand::Tree, Strand::Main, Strand::Call(3), Strand::Delegation(0)] {
            assert_eq!(s.to_string().parse::<Strand>().unwrap(), s);
        }
        let id = TreeId::new(uuid::Uuid::max());
        assert_eq!(id.to_string().parse::<TreeId>().unwrap(), id);
        assert!("ses_00000000000000000000000000000007".parse::<TreeId>().is_err());
    }
}
