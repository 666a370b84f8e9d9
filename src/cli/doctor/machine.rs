//! What this machine has for a process, beside what the defaults ask for.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use treeward::guest::{Sizing, free_maps, max_map_count};
use treeward::limits::Limits;

use crate::cli::view::{Line, Style, grouped, time};

/// One thing the machine has, and whether it is enough.
pub struct Finding {
    what: &'static str,
    /// What there is.
    has: String,
    /// The same as a number, where it is one.
    number: Option<u64>,
    /// Why it is not enough for the defaults, and what to do.
    lacks: Option<String>,
}

impl Finding {
    fn new(what: &'static str, has: String, number: Option<u64>, lacks: Option<String>) -> Self {
        Self { what, has, number, lacks }
    }

    /// As lines for people.
    pub fn lines(&self) -> Vec<Line> {
        let mark = if self.lacks.is_some() { "! " } else { "  " };
        let style = if self.lacks.is_some() { Style::Warn } else { Style::Plain };
        let mut lines = vec![Line::new().with(style, &format!("{mark}{:<20} {}", self.what, self.has))];
        lines.extend(self.lacks.iter().map(|lacks| Line::new().with(Style::Dim, &format!("{:23}{lacks}", ""))));
        lines
    }

    /// As JSON.
    pub fn json(&self) -> Json {
        json!({
            "name": self.what,
            "text": self.has,
            "value": self.number,
            "enough": self.lacks.is_none(),
            "help": self.lacks,
        })
    }
}

/// Resident bytes of a waiting guest session, roughly.
const SESSION: u64 = 64 << 10;
/// Descriptors of a process that runs no programs, with room to spare.
const DESCRIPTORS: u64 = 256;

/// Looks at everything.
pub fn findings(limits: &Limits, journal: &Path) -> Vec<Finding> {
    vec![
        cores(),
        guests(limits.live_sessions, free_maps(), max_map_count()),
        descriptors(),
        memory(limits),
        disk(journal),
    ]
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    Finding::new("cores", cores.to_string(), Some(cores), None)
}

/// Live guests: what the kernel's ceiling on memory maps allows, which is reached long before memory is.
fn guests(wanted: u32, free: u64, ceiling: u64) -> Finding {
    let live = Sizing::plan(wanted, free).live;
    let most = Sizing::plan(u32::MAX, free).live;
    let has = format!("{} live at once (vm.max_map_count {})", grouped(most.into()), grouped(ceiling));
    let lacks = (live < wanted).then(|| {
        // Six maps a guest with its image, and the rest of the process.
        let needed = u64::from(wanted) * 6 + 8192;
        let wanted = grouped(wanted.into());
        format!(
            "limits.live_sessions is {wanted}: sysctl -w vm.max_map_count={needed}; until then guests beyond are `busy`"
        )
    });
    Finding::new("guests", has, Some(most.into()), lacks)
}

fn descriptors() -> Finding {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
    let has = format!("{} (at most {})", grouped(soft), grouped(hard));
    let lacks =
        (soft < DESCRIPTORS).then(|| format!("too few for a journal, sockets and programs: ulimit -n {DESCRIPTORS}"));
    Finding::new("descriptors", has, Some(soft), lacks)
}

fn memory(limits: &Limits) -> Finding {
    let available = meminfo("MemAvailable:").unwrap_or(0);
    let ceiling = control_group();
    let room = ceiling.map_or(available, |ceiling| ceiling.min(available));
    let mib = |bytes: u64| format!("{} MiB", grouped(bytes >> 20));
    let mut has = format!("{} available", mib(available));
    if let Some(ceiling) = ceiling {
        has.push_str(&format!(", {} allowed by the control group", mib(ceiling)));
    }
    let needed = u64::from(limits.live_sessions) * SESSION;
    let lacks = (room < needed).then(|| {
        let sessions = grouped(limits.live_sessions.into());
        format!("{sessions} waiting sessions need some {}: lower limits.live_sessions, or give it more", mib(needed))
    });
    Finding::new("memory", has, Some(room), lacks)
}

/// A line of /proc/meminfo, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok()?.checked_mul(1024)
}

/// What the control group allows: the least of its own ceiling and those above it. Version 1 and 2.
fn control_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (base, group, file) = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        match (parts.next()?, parts.next()?) {
            ("", group) => Some(("/sys/fs/cgroup", group, "memory.max")),
            (kinds, group) if kinds.split(',').any(|kind| kind == "memory") => {
                Some(("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    })?;
    let base = Path::new(base);
    let inside = base.join(group.trim_start_matches('/'));
    let ceilings = inside
        .ancestors()
        .take_while(|directory| directory.starts_with(base))
        .filter_map(|directory| fs::read_to_string(directory.join(file)).ok()?.trim().parse::<u64>().ok());
    // Version 1 says "none" as the largest number of pages.
    ceilings.filter(|&bytes| bytes < 1 << 60).min()
}

/// Syncs tried.
const SYNCS: usize = 20;
/// A sync slower than this makes everything the outside waits for slow.
const SLOW: Duration = Duration::from_millis(20);

/// What a commit costs: the median of some syncs where the journal is, or will be.
fn disk(journal: &Path) -> Finding {
    let directory = existing(journal);
    let place = directory.display();
    match syncs(&directory) {
        Ok(median) => {
            let micros = u64::try_from(median.as_micros()).unwrap_or(u64::MAX);
            let cost = if median < Duration::from_millis(10) { format!("{micros} µs") } else { time(median) };
            let slow = || "slow: put the journal on another disk, or run with --durability os".to_owned();
            Finding::new("sync", format!("{cost} a commit in {place}"), Some(micros), (median > SLOW).then(slow))
        }
        Err(error) => {
            let help = "a journal cannot be kept there: --journal FILE names another place".to_owned();
            Finding::new("sync", format!("{place}: {error}"), None, Some(help))
        }
    }
}

/// The directory the journal is in, or would be made in.
fn existing(journal: &Path) -> PathBuf {
    let here = Path::new(".");
    let above = journal.ancestors().skip(1).find(|path| path.is_dir()).unwrap_or(here);
    if above.as_os_str().is_empty() { here.to_owned() } else { above.to_owned() }
}

fn syncs(directory: &Path) -> std::io::Result<Duration> {
    let path = directory.join(format!(".treeward-doctor-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    // Gone from the directory at once, whatever happens; the file itself is until it is closed.
    fs::remove_file(&path)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[0; 512])?;
        let start = Instant::now();
        file.sync_data()?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    Ok(took[SYNCS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_of_the_default_is_said_with_what_to_do() {
        let enough = guests(10_000, 65_000, 65_530);
        assert!(enough.lacks.is_none() && enough.number >= Some(10_000));
        let lacks = guests(100_000, 65_000, 65_530);
        let text: Vec<String> = lacks.lines().iter().map(|line| line.show(None, false)).collect();
        assert!(text[0].starts_with("! guests") && text[1].contains("vm.max_map_count=608192"), "{text:?}");
        // What it says to do is enough.
        assert!(guests(100_000, 608_192, 608_192).lacks.is_none());
        assert_eq!(lacks.json()["enough"], false);
    }

    #[test]
    fn a_disk_is_tried_and_nothing_is_left_on_it() {
        let place = tempfile::tempdir().unwrap();
        let found = disk(&place.path().join("deep/down/journal.db"));
        assert!(found.number.is_some(), "{}", found.has);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        assert_eq!(existing(Path::new("journal.db")), Path::new("."));
        assert!(disk(Path::new("/proc/journal.db")).lacks.is_some());
    }

    #[test]
    fn this_machine_has_memory_and_descriptors() {
        assert!(memory(&Limits::default()).number > Some(1 << 20));
        assert!(descriptors().number > Some(8));
    }
}
