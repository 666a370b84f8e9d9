//! What a soak came to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use treeward::journal::CompletionStatus;

use super::gauge::Compared;
use crate::cli::view::{Line, Style, count, grouped, status_name, time};

/// Problems told one by one; the rest are counted.
const TOLD: usize = 10;

/// See the module.
pub struct Report {
    seed: u64,
    trees: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
    wrong_count: u64,
    pub compared: Vec<Compared>,
    pub started: u64,
    pub ended: u64,
    pub restarts: u64,
    pub took: Duration,
}

impl Report {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            trees: BTreeMap::new(),
            wrong: Vec::new(),
            wrong_count: 0,
            compared: Vec::new(),
            started: 0,
            ended: 0,
            restarts: 0,
            took: Duration::ZERO,
        }
    }

    /// A tree ended, and its records are as they should be.
    pub fn tree(&mut self, status: CompletionStatus) {
        *self.trees.entry(status_name(status)).or_default() += 1;
    }

    /// Something is not as it should be.
    pub fn wrong(&mut self, why: String) {
        self.wrong_count += 1;
        if self.wrong.len() < TOLD {
            self.wrong.push(why);
        }
    }

    /// Whether everything is back, and every tree as it should be.
    pub fn is_good(&self) -> bool {
        self.wrong_count == 0 && self.started == self.ended && self.compared.iter().all(|line| line.good)
    }

    /// As one object.
    pub fn json(&self) -> serde_json::Value {
        let held = self.compared.iter().map(|line| {
            let Compared { what, base, peak, end, good } = line;
            (what.to_string(), json!({ "base": base, "peak": peak, "end": end, "good": good }))
        });
        json!({
            "good": self.is_good(),
            "seed": self.seed,
            "took_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "sessions": { "started": self.started, "ended": self.ended, "restarts": self.restarts },
            "trees": self.trees,
            "held": held.collect::<serde_json::Map<_, _>>(),
            "wrong": self.wrong_count,
            "problems": self.wrong,
        })
    }

    /// For people.
    pub fn lines(&self) -> Vec<Line> {
        let plain = |text: &str| Line::new().with(Style::Plain, text);
        let trees: Vec<String> = self.trees.iter().map(|(status, n)| format!("{} {status}", grouped(*n))).collect();
        let mut lines = vec![
            Line::new().with(
                Style::Strong,
                &format!("{} in {}, seed {}", count(self.started, "session", "sessions"), time(self.took), self.seed),
            ),
            plain(&format!(
                "{} ended, {}; trees verified: {}",
                grouped(self.ended),
                count(self.restarts, "restart", "restarts"),
                trees.join(", ")
            )),
            Line::new().with(Style::Dim, &row(["held", "base", "peak", "end", ""])),
        ];
        for line in &self.compared {
            let shown = |n: u64| match line.what {
                "memory" => format!("{:.1} MiB", n as f64 / 1_048_576.0),
                _ => grouped(n),
            };
            let (style, verdict) = if line.good { (Style::Good, "back") } else { (Style::Bad, "LEFT OVER") };
            let numbers = row([line.what, &shown(line.base), &shown(line.peak), &shown(line.end), ""]);
            lines.push(plain(&numbers).with(style, verdict));
        }
        if self.started != self.ended {
            let open = self.started.abs_diff(self.ended);
            lines.push(Line::new().with(Style::Bad, &format!("{} without exactly one ending", grouped(open))));
        }
        lines.extend(self.wrong.iter().map(|why| Line::new().with(Style::Bad, why)));
        let more = self.wrong_count - self.wrong.len() as u64;
        if more > 0 {
            lines.push(Line::new().with(Style::Bad, &format!("and {}", count(more, "more", "more"))));
        }
        lines.push(match self.is_good() {
            true => Line::new().with(Style::Good, "nothing is left, and every tree is as it should be"),
            false => Line::new().with(Style::Dim, &format!("again: treeward soak --seed {}", self.seed)),
        });
        lines
    }
}

fn row([what, base, peak, end, rest]: [&str; 5]) -> String {
    format!("{what:<14}{base:>12}{peak:>12}{end:>12}  {rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(report: &Report) -> String {
        report.lines().iter().map(|line| line.show(None, false)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn one_thing_wrong_is_told_and_makes_it_bad() {
        let mut report = Report::new(7);
        report.tree(CompletionStatus::Ok);
        assert!(report.is_good() && text(&report).contains("nothing is left"));
        report.compared.push(Compared { what: "tasks", base: 3, peak: 900, end: 4, good: false });
        assert!(!report.is_good() && text(&report).contains("LEFT OVER") && text(&report).contains("--seed 7"));
        report.compared.clear();
        (report.started, report.ended) = (5, 4);
        assert!(!report.is_good() && text(&report).contains("1 without exactly one ending"));
        report.ended = 5;
        (0..12).for_each(|n| report.wrong(format!("tree {n}")));
        assert!(!report.is_good() && text(&report).contains("and 2 more"));
        assert_eq!(report.json()["wrong"], 12);
    }
}
