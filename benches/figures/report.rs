//! One line per figure, and the small statistics behind it.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

/// What a figure is held to.
#[derive(Clone, Copy)]
pub enum Goal {
    /// Value divided by floor, at most.
    RatioAtMost(f64),
    /// Value divided by floor, at least.
    RatioAtLeast(f64),
    /// The value itself, at most.
    AtMost(f64),
    /// The value itself, at least.
    AtLeast(f64),
    /// The value itself, or else this part of the floor that forbids it.
    AtLeastOrRatio(f64, f64),
    /// Only shown.
    Shown,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtMost(most) => write!(f, "<={most}x"),
            Self::RatioAtLeast(least) => write!(f, ">={least}x"),
            Self::AtMost(most) => write!(f, "<={most}"),
            Self::AtLeast(least) => write!(f, ">={least}"),
            Self::AtLeastOrRatio(least, ratio) => write!(f, ">={least}|>={ratio}x"),
            Self::Shown => write!(f, "-"),
        }
    }
}

impl Goal {
    fn is_met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        let ratio = |judge: &dyn Fn(f64) -> bool| ratio.is_some_and(judge);
        Some(match self {
            Self::RatioAtMost(most) => ratio(&|r| r <= most),
            Self::RatioAtLeast(least) => ratio(&|r| r >= least),
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::AtLeastOrRatio(least, part) => value >= least || ratio(&|r| r >= part),
            Self::Shown => return None,
        })
    }
}

/// One figure as it was measured.
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// What the machine does without treeward, and what that is.
    pub floor: Option<(f64, &'static str)>,
    pub goal: Goal,
}

/// Prints figures as they come.
pub struct Report {
    wanted: Vec<String>,
    json: bool,
    missed: Vec<&'static str>,
    figures: usize,
}

impl Report {
    pub fn new(wanted: Vec<String>, json: bool) -> Self {
        Self { wanted, json, missed: Vec::new(), figures: 0 }
    }

    /// Whether this figure was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|want| name.starts_with(want.as_str()))
    }

    pub fn figure(&mut self, figure: Figure) {
        let Figure { name, value, unit, floor, goal } = figure;
        if !self.wants(name) {
            return;
        }
        let ratio = floor.map(|(floor, _)| value / floor);
        let met = goal.is_met(value, ratio);
        let verdict = met.map_or("shown", |met| if met { "met" } else { "missed" });
        if self.json {
            let line = serde_json::json!({
                "figure": name, "value": value, "unit": unit, "ratio": ratio, "goal": goal.to_string(),
                "verdict": verdict, "floor": floor.map(|(floor, _)| floor), "floor_is": floor.map(|(_, what)| what),
            });
            println!("{line}");
        } else {
            let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            println!("figure {name} {} {unit} ratio {ratio} goal {goal} {verdict}", shown(value));
            if let Some((floor, what)) = floor {
                println!("  floor {} {unit}: {what}", shown(floor));
            }
        }
        let _closed = std::io::stdout().flush();
        self.figures += 1;
        if met == Some(false) {
            self.missed.push(name);
        }
    }

    pub fn finish(self) {
        if self.json {
            return;
        }
        match self.missed.is_empty() {
            true => println!("{} figures, every goal met", self.figures),
            false => println!("{} figures, missed: {}", self.figures, self.missed.join(", ")),
        }
    }
}

fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Times of one thing, in microseconds.
#[derive(Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e6);
    }

    pub fn extend(&mut self, micros: impl IntoIterator<Item = f64>) {
        self.0.extend(micros);
    }

    /// The value below which this part of the samples lies.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (part * (sorted.len().saturating_sub(1)) as f64).round() as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}
