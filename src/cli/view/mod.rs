//! What the journal looks like: pure functions from records to lines. No terminal, no clock, no journal in here.
//!
//! Whatever an agent wrote is untrusted. It reaches a screen only through [`Line`], which escapes what it is given.

mod events;
mod fold;
mod render;
mod text;

pub use events::{Detail, budget, event, usage};
pub use fold::{Node, State, Tree, status_name};
pub use render::{Space, census, draw};
pub use text::{Line, Style, escaped, json_for_terminal, one_line};

use std::time::Duration;

/// A duration as people read it: three significant places at most, no unit below a millisecond.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 if duration.subsec_millis() < 100 => format!("{seconds}s"),
        1..60 => format!("{}.{}s", seconds, duration.subsec_millis() / 100),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{}h", seconds / 3600),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `1 session`, `2 sessions`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

/// A number with its thousands apart.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// Millionths of a dollar as dollars, with no more places than it has.
pub fn usd(micro: u64) -> String {
    let places = format!("{:06}", micro % 1_000_000);
    let places = places.trim_end_matches('0');
    format!("${}.{places:0<2}", grouped(micro / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(time(Duration::from_micros(999)), "0ms");
        assert_eq!(time(Duration::from_millis(12_345)), "12.3s");
        assert_eq!((time(Duration::from_secs(5)), time(Duration::from_secs(60))), ("5s".into(), "1m".into()));
        assert_eq!((time(Duration::from_secs(61)), time(Duration::from_secs(3605))), ("1m01s".into(), "1h".into()));
        assert_eq!(time(Duration::from_secs(7_260)), "2h01m");
        assert_eq!((grouped(0), grouped(999), grouped(1_234_567)), ("0".into(), "999".into(), "1 234 567".into()));
        assert_eq!((usd(0), usd(1_500_000), usd(12)), ("$0.00".into(), "$1.50".into(), "$0.000012".into()));
        assert_eq!((count(1, "one", "many"), count(0, "one", "many")), ("1 one".into(), "0 many".into()));
    }
}
