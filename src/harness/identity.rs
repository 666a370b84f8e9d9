//! Who a process is: never a bare pid, which the kernel gives to somebody else sooner or later.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// The environment variable that every descendant of a run inherits.
pub(super) const TAG_VARIABLE: &str = "TREEWARD_RUN";

/// One process, and no other that ever had or will have its pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The pid, as treeward's own PID namespace numbers it.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Which boot that was; the kernel draws it at random.
    pub boot_id: Arc<str>,
}

impl Identity {
    /// The process that has this pid now; `None` when there is none, or when `/proc` cannot be read.
    pub fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, start_ticks: start_ticks(pid)?, boot_id: boot_id().clone() })
    }

    /// Of this process itself.
    ///
    /// # Panics
    /// Where no `/proc` is mounted: nothing here works there, and [`Warden::start`](super::Warden::start) says so first.
    pub(super) fn own() -> &'static Self {
        static OWN: OnceLock<Identity> = OnceLock::new();
        OWN.get_or_init(|| Self::of(nix::unistd::getpid().as_raw()).unwrap_or_else(Self::unreadable))
    }

    fn unreadable() -> Self {
        Self { pid: nix::unistd::getpid().as_raw(), start_ticks: 0, boot_id: boot_id().clone() }
    }

    /// Whether that very process still has its pid. One that has ended but was not reaped yet still has it.
    pub fn holds(&self) -> bool {
        self.boot_id == *boot_id() && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} (started at tick {})", self.pid, self.start_ticks)
    }
}

/// The kernel's name for this boot; empty where `/proc` cannot be read.
pub(super) fn boot_id() -> &'static Arc<str> {
    static BOOT: OnceLock<Arc<str>> = OnceLock::new();
    BOOT.get_or_init(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into())
}

/// When the process with this pid started, in clock ticks since boot.
pub(super) fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&stat).map(|stat| stat.start_ticks)
}

/// What is read of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) state: char,
    pub(super) start_ticks: u64,
}

/// The second field is the program's name in parentheses, which may itself hold blanks and parentheses: fields are
/// counted from the last one.
pub(super) fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_ticks })
}

/// What marks every process of one run: `TREEWARD_RUN` in its environment, inherited by all its descendants.
///
/// It names the treeward process the run belongs to, so that a later one can tell what nobody owns any more. Chosen and
/// recorded before the spawn.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunTag {
    text: Arc<str>,
    owner: Owner,
}

/// The treeward process a tag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner {
    /// The PID namespace in which the pid means something.
    pub(super) namespace: u64,
    pub(super) pid: i32,
    pub(super) start_ticks: u64,
}

impl Owner {
    /// This process.
    pub(super) fn own() -> Self {
        let own = Identity::own();
        Self { namespace: pid_namespace(), pid: own.pid, start_ticks: own.start_ticks }
    }

    /// Whether it can be said from here that it is gone. Of another PID namespace nothing can be said.
    pub(super) fn is_dead(self) -> bool {
        self.namespace == pid_namespace() && start_ticks(self.pid) != Some(self.start_ticks)
    }
}

/// The PID namespace of this process: an inode number; 0 where `/proc` cannot be read.
fn pid_namespace() -> u64 {
    static NAMESPACE: OnceLock<u64> = OnceLock::new();
    *NAMESPACE.get_or_init(|| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
    })
}

impl RunTag {
    const PREFIX: &str = "treeward-1";

    /// A tag for a run of this process. `unique` (16 random bytes, from [`Env`](crate::env::Env)) tells it from every
    /// other.
    pub fn new(unique: [u8; 16]) -> Self {
        Self::of(Owner::own(), unique)
    }

    fn of(owner: Owner, unique: [u8; 16]) -> Self {
        let Owner { namespace, pid, start_ticks } = owner;
        let text = format!("{}:{namespace}:{pid}:{start_ticks}:{}", Self::PREFIX, hex::encode(unique));
        Self { text: text.into(), owner }
    }

    /// As it stands in the environment.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// The one under which a warden itself is started.
    pub(super) fn of_a_warden() -> Self {
        Self::new([0; 16])
    }

    pub(super) fn is_of_a_warden(&self) -> bool {
        *self == Self::of(self.owner, [0; 16])
    }
}

impl fmt::Display for RunTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for RunTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text that is not the tag of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the tag of a run, like treeward-1:4026531836:812:90311:00112233445566778899aabbccddeeff")]
pub struct BadTag(String);

impl FromStr for RunTag {
    type Err = BadTag;

    fn from_str(s: &str) -> Result<Self, BadTag> {
        let bad = || BadTag(s.chars().take(96).collect());
        let fields: Vec<&str> = s.splitn(6, ':').collect();
        let [Self::PREFIX, namespace, pid, start_ticks, unique] = fields[..] else { return Err(bad()) };
        let owner = Owner {
            namespace: namespace.parse().map_err(|_| bad())?,
            pid: pid.parse().map_err(|_| bad())?,
            start_ticks: start_ticks.parse().map_err(|_| bad())?,
        };
        let mut bytes = [0; 16];
        hex::decode_to_slice(unique, &mut bytes).map_err(|_| bad())?;
        let tag = Self::of(owner, bytes);
        // `+1`, `01` and capital digits parse too; only the canonical spelling is a tag.
        if tag.as_str() == s { Ok(tag) } else { Err(bad()) }
    }
}

impl Serialize for RunTag {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for RunTag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_process_is_itself_and_not_one_that_started_a_tick_later() {
        let own = Identity::of(nix::unistd::getpid().as_raw()).unwrap();
        assert!(own.holds());
        assert!(!Identity { start_ticks: own.start_ticks + 1, ..own.clone() }.holds());
        assert!(!Identity { boot_id: "another".into(), ..own }.holds());
        assert_eq!(Identity::of(i32::MAX), None);
    }

    #[test]
    fn a_name_full_of_parentheses_moves_no_field() {
        let fields = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20";
        for name in ["sh", "a) R 1 1", "((", "))", "", "a b c", "x\n)"] {
            let stat = format!("77 ({name}) S {fields}");
            assert_eq!(parse_stat(&stat), Some(Stat { state: 'S', start_ticks: 19 }), "{name}");
        }
        for bad in ["", "77", "77 (sh)", "77 (sh) S 1 2 3", "77 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x"]
        {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_owner_is_dead_only_where_that_can_be_known() {
        let own = Owner::own();
        assert!(!own.is_dead());
        assert!(Owner { start_ticks: own.start_ticks + 1, ..own }.is_dead());
        assert!(!Owner { namespace: own.namespace + 1, pid: i32::MAX, ..own }.is_dead());
    }

    proptest! {
        #[test]
        fn a_tag_reads_back_as_written(namespace: u64, pid: i32, start_ticks: u64, unique: [u8; 16]) {
            let tag = RunTag::of(Owner { namespace, pid, start_ticks }, unique);
            prop_assert_eq!(tag.as_str().parse::<RunTag>().unwrap(), tag);
        }

        #[test]
        fn nothing_else_is_a_tag(text in "(treeward-1)?[:0-9a-fA-F+ -]{0,60}") {
            if let Ok(tag) = text.parse::<RunTag>() {
                prop_assert_eq!(tag.as_str(), text);
            }
        }
    }
}
