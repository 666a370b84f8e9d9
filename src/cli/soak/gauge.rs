//! What the process holds: read before and after, the same numbers must come out.

use std::fs;
use std::path::Path;

use treeward::Runtime;

/// Memory may have grown by this much, or by a quarter of the base: an allocator keeps what it once needed.
const SLACK: u64 = 24 << 20;

/// What is held at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes resident.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Tasks of the tokio runtime.
    pub tasks: u64,
    /// Places for live sessions that are taken.
    pub places: u64,
    /// Files in the soak's own directory.
    pub files: u64,
}

/// One line of the comparison.
pub struct Compared {
    pub what: &'static str,
    pub base: u64,
    pub peak: u64,
    pub end: u64,
    pub good: bool,
}

impl Held {
    /// What is held now. `places` is how many the runtime had when nothing ran.
    pub fn now(runtime: &Runtime, places: usize, directory: &Path) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            memory: field(&status, "VmRSS:") << 10,
            // The one that lists them is open while they are listed.
            descriptors: entries(Path::new("/proc/self/fd")).saturating_sub(1),
            threads: field(&status, "Threads:"),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks() as u64,
            places: places.saturating_sub(runtime.free_places()) as u64,
            files: entries(directory),
        }
    }

    /// The most of each.
    pub fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            tasks: self.tasks.max(other.tasks),
            places: self.places.max(other.places),
            files: self.files.max(other.files),
        }
    }

    /// `end` beside this base.
    pub fn compare(self, peak: Self, end: Self) -> [Compared; 6] {
        let line = |what, base, peak, end, slack| Compared { what, base, peak, end, good: end <= base + slack };
        [
            line("memory", self.memory, peak.memory, end.memory, SLACK.max(self.memory / 4)),
            line("descriptors", self.descriptors, peak.descriptors, end.descriptors, 0),
            line("threads", self.threads, peak.threads, end.threads, 0),
            line("tasks", self.tasks, peak.tasks, end.tasks, 0),
            line("places", self.places, peak.places, end.places, 0),
            line("files", self.files, peak.files, end.files, 0),
        ]
    }

    /// Whether `self` is back at `base`.
    pub fn is_back(self, base: Self) -> bool {
        base.compare(self, self).iter().all(|line| line.good)
    }
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn entries(directory: &Path) -> u64 {
    fs::read_dir(directory).map_or(0, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_left_over_is_not_back() {
        let base = Held { memory: 40 << 20, descriptors: 9, threads: 4, tasks: 3, places: 0, files: 2 };
        assert!(base.is_back(base));
        assert!(Held { memory: 60 << 20, descriptors: 8, ..base }.is_back(base));
        assert!(!Held { memory: 70 << 20, ..base }.is_back(base));
        assert!(!Held { descriptors: 10, ..base }.is_back(base));
        assert!(!Held { threads: 5, ..base }.is_back(base));
        assert!(!Held { tasks: 4, ..base }.is_back(base));
        assert!(!Held { places: 1, ..base }.is_back(base));
        assert!(!Held { files: 3, ..base }.is_back(base));
    }

    #[test]
    fn the_kernels_table_is_read() {
        assert_eq!(field("Name:\tx\nThreads:\t12\nVmRSS:\t  2048 kB\n", "VmRSS:"), 2048);
        assert_eq!(field("Name:\tx\n", "Threads:"), 0);
    }
}
