//! The metrics, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::journal::Counter;
use crate::tree::remote::Remote;
use crate::tree::{Sessions, Standing};

/// The upper bounds of a latency's buckets, in microseconds.
const BUCKETS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// How long something took, in buckets. Any number may observe at once; nobody waits.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    nanos: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // A bound belongs to its bucket, so what has begun the next microsecond is above it.
        let above = !took.as_nanos().is_multiple_of(1_000);
        let bucket = BUCKETS.partition_point(|&bound| bound < micros.saturating_add(u64::from(above)));
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    fn write(&self, text: &mut Text, name: &str, help: &str) {
        text.head(name, "histogram", help);
        let mut total = 0;
        for (bound, bucket) in BUCKETS.iter().zip(&self.buckets) {
            total += bucket.load(Ordering::Relaxed);
            let seconds = *bound as f64 / 1e6;
            text.line(&format!("{name}_bucket"), &format!("le=\"{seconds}\""), &total.to_string());
        }
        total += self.buckets[BUCKETS.len()].load(Ordering::Relaxed);
        text.line(&format!("{name}_bucket"), "le=\"+Inf\"", &total.to_string());
        text.line(&format!("{name}_sum"), "", &(self.nanos.load(Ordering::Relaxed) as f64 / 1e9).to_string());
        text.line(&format!("{name}_count"), "", &total.to_string());
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _infallible = write!(self.0, "# HELP treeward_{name} {help}\n# TYPE treeward_{name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: &str) {
        let _infallible = match labels {
            "" => writeln!(self.0, "treeward_{name} {value}"),
            labels => writeln!(self.0, "treeward_{name}{{{labels}}} {value}"),
        };
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl ToString) {
        self.head(name, kind, help);
        self.line(name, "", &value.to_string());
    }
}

/// Everything, with the sessions as far as they answer within `within`.
pub(crate) async fn text(remote: &Remote, within: Duration) -> String {
    let seen = remote.sessions(None, within).await;
    let mut text = Text::default();
    sessions(&mut text, &seen);
    counters(&mut text, remote);
    let shared = remote.shared();
    text.one("live_sessions", "gauge", "Sessions that hold a place of limits.live_sessions.", {
        shared.places.total().saturating_sub(shared.places.free())
    });
    text.one("live_sessions_limit", "gauge", "limits.live_sessions.", shared.limits.live_sessions);
    shared.gate_took.write(&mut text, "gate_seconds", "How long the gate took to decide a call.");
    process(&mut text);
    text.0
}

fn sessions(text: &mut Text, seen: &Sessions) {
    let mut states: BTreeMap<&str, u64> =
        ["queued", "starting", "running", "stopping", "restarting", "ended"].map(|state| (state, 0)).into();
    let (mut calls, mut behind) = (0_u64, 0);
    for session in &seen.sessions {
        let state = match session.state {
            Standing::Queued => "queued",
            Standing::Starting => "starting",
            Standing::Running => "running",
            Standing::Stopping => "stopping",
            Standing::Restarting => "restarting",
            Standing::Ended(_) => "ended",
        };
        *states.entry(state).or_default() += 1;
        if let Some(doing) = session.doing {
            calls += u64::from(doing.calls);
            behind = behind.max(doing.behind_ms);
        }
    }
    text.head("sessions", "gauge", "Sessions by where they stand; `ended` until their completion is taken.");
    for (state, n) in states {
        text.line("sessions", &format!("state=\"{state}\""), &n.to_string());
    }
    let partial = u8::from(seen.partial || seen.left_out > 0);
    text.one("sessions_partial", "gauge", "1 where some sessions did not answer in time or were too many.", partial);
    text.one("calls_running", "gauge", "Tool calls and HTTP requests that run.", calls);
    let longest = behind as f64 / 1e3;
    text.one("mailbox_seconds_max", "gauge", "The longest a question waited in a session's mailbox.", longest);
}

fn counters(text: &mut Text, remote: &Remote) {
    let get = |counter| remote.journal().count(counter);
    let one = |text: &mut Text, name: &str, help: &str, counter| text.one(name, "counter", help, get(counter));
    let many = |text: &mut Text, name: &str, help: &str, label: &str, values: &[(&str, Counter)]| {
        text.head(name, "counter", help);
        for (value, counter) in values {
            text.line(name, &format!("{label}=\"{value}\""), &get(*counter).to_string());
        }
    };
    one(text, "trees_started_total", "Trees started.", Counter::TreesStarted);
    one(text, "trees_ended_total", "Trees ended.", Counter::TreesEnded);
    one(text, "sessions_started_total", "Sessions started.", Counter::SessionsStarted);
    one(text, "sessions_ended_total", "Sessions ended.", Counter::SessionsEnded);
    one(text, "restarts_total", "Sessions started again.", Counter::Restarts);
    one(text, "queued_total", "Delegations that had to wait for a place.", Counter::Queued);
    let statuses = [
        ("ok", Counter::EndedOk),
        ("error", Counter::EndedError),
        ("crashed", Counter::EndedCrashed),
        ("terminated", Counter::EndedTerminated),
        ("unknown", Counter::EndedUnknown),
    ];
    many(text, "delegations_ended_total", "Delegations by how they ended.", "status", &statuses);
    let limits = [
        ("live_sessions", Counter::RefusedLiveSessions),
        ("queued_children", Counter::RefusedQueuedChildren),
        ("depth", Counter::RefusedDepth),
        ("task", Counter::RefusedTask),
        ("calls", Counter::RefusedCalls),
        ("budget", Counter::RefusedBudget),
        ("grants", Counter::RefusedGrants),
        ("other", Counter::RefusedOther),
    ];
    many(text, "refused_total", "What was refused, by what forbids it.", "limit", &limits);
    let decisions = [("allow", Counter::GateAllowed), ("deny", Counter::GateDenied)];
    many(text, "gate_decisions_total", "Calls by what the gate decided.", "decision", &decisions);
    one(text, "faults_total", "Faults that struck.", Counter::Faults);
    one(text, "journal_appended_total", "Records taken by the journal.", Counter::Appended);
    one(text, "journal_committed_total", "Records committed.", Counter::Committed);
    one(text, "journal_refused_total", "Records that came too late.", Counter::Refused);
    // Read in this order, so that the difference is never negative.
    let committed = get(Counter::Committed);
    let lag = get(Counter::Appended).saturating_sub(committed);
    text.one("journal_lag_records", "gauge", "Records that wait for the disk.", lag);
    text.one("credit_bytes", "gauge", "Bytes of the sessions' credit in use.", get(Counter::Credit));
    let failed = u8::from(remote.journal().health().borrow().is_poisoned());
    text.one("journal_failed", "gauge", "1 where the journal has failed.", failed);
}

fn process(text: &mut Text) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    if let Some(pages) = resident {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
        let bytes = pages.saturating_mul(page.unsigned_abs());
        text.one("process_resident_bytes", "gauge", "Memory of the process that is in RAM.", bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // The one that reads the directory is not counted.
        text.one("process_open_fds", "gauge", "Descriptors open.", open.count().saturating_sub(1));
    }
    text.one("process_pid", "gauge", "The process.", std::process::id());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_as_long_as_a_bound_is_within_it() {
        let histogram = Histogram::default();
        for nanos in [0, 1, 1_000, 1_001, 2_000, 11_000_000_000] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let mut text = Text::default();
        histogram.write(&mut text, "x", "A test.");
        assert!(text.0.contains("treeward_x_bucket{le=\"0.000001\"} 3\n"), "{}", text.0);
        assert!(text.0.contains("treeward_x_bucket{le=\"0.000002\"} 5\n"), "{}", text.0);
        assert!(text.0.contains("treeward_x_bucket{le=\"10\"} 5\n"), "{}", text.0);
        assert!(text.0.contains("treeward_x_bucket{le=\"+Inf\"} 6\n") && text.0.ends_with("treeward_x_count 6\n"));
        assert_eq!(histogram.count(), 6);
    }
}
