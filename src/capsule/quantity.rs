//! How durations, sizes and money are written.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::name::{nearest, shown};
use super::usage::Budget;

/// What a capsule can say of time. Records keep milliseconds; timers and clocks are certain to hold a year.
pub(crate) const DURATIONS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(365 * 24 * 3600);

/// A text that is no quantity of its kind: what it should look like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not {expected}")]
pub struct BadQuantity {
    shown: String,
    expected: &'static str,
}

fn bad(text: &str, expected: &'static str) -> BadQuantity {
    BadQuantity { shown: shown(text), expected }
}

/// `200ms`, `30m`, `1h 30m`: from a millisecond to a year.
pub(crate) fn duration(text: &str) -> Result<Duration, BadQuantity> {
    let expected = "a duration from `1ms` to `365days`, like `200ms`, `60s` or `1h 30m`";
    if text.len() > 64 {
        return Err(bad(text, expected));
    }
    let duration = humantime::parse_duration(text).map_err(|_| bad(text, expected))?;
    // A record keeps milliseconds: what it could not keep cannot be said.
    let whole = duration.subsec_nanos() % 1_000_000 == 0;
    if whole && DURATIONS.contains(&duration) { Ok(duration) } else { Err(bad(text, expected)) }
}

/// `64KiB`, `256MiB`, `1.5GiB` is not one: a whole number and a unit, in bytes.
pub(crate) fn size(text: &str) -> Result<u64, BadQuantity> {
    let wrong = || bad(text, "a size like `256MiB`: a whole number and B, KiB, MiB, GiB, kB, MB or GB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim_start_matches(' ') {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// `2`, `1.50`, `0.000001`: US dollars as millionths, exactly or not at all.
pub(crate) fn micro_usd(text: &str) -> Result<u64, BadQuantity> {
    let wrong = || bad(text, "an amount of US dollars like `2` or `1.50`, with at most six decimals");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(fraction) {
        return Err(wrong());
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 6 {
        return Err(wrong());
    }
    let millionths: u64 = format!("{fraction:0<6}").parse().map_err(|_| wrong())?;
    let dollars: u64 = whole.parse().map_err(|_| wrong())?;
    dollars.checked_mul(1_000_000).and_then(|whole| whole.checked_add(millionths)).ok_or_else(wrong)
}

/// Millionths of a US dollar, shown as dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usd(pub u64);

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, millionths) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if millionths % 10_000 == 0 {
            write!(f, "${dollars}.{:02}", millionths / 10_000)
        } else {
            write!(f, "${dollars}.{millionths:06}")
        }
    }
}

/// A text that is no budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBudget {
    /// Not `KEY=VALUE`.
    #[error("`{0}` is not a ceiling like `tokens=200000`")]
    NotACeiling(String),
    /// No such key.
    #[error("unknown ceiling `{key}`{}", .nearest.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default())]
    UnknownKey {
        /// What was written.
        key: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// Twice the same key.
    #[error("`{0}` is given twice")]
    Twice(&'static str),
    /// Not a value of that key.
    #[error("{key}: {source}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong with its value.
        source: BadQuantity,
    },
}

/// The keys of a budget, as manifests and command lines write them.
pub(crate) const BUDGET_KEYS: [&str; 6] = ["tokens", "usd", "tool_calls", "delegations", "depth", "wall"];

/// `tokens=200000,usd=1.50,depth=3,wall=30m`: the keys of a manifest's `[budget]`.
impl FromStr for Budget {
    type Err = BadBudget;

    fn from_str(text: &str) -> Result<Self, BadBudget> {
        let mut budget = Self::default();
        let mut seen = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| BadBudget::NotACeiling(shown(part)))?;
            let (key, value) = (key.trim(), value.trim());
            let Some(key) = BUDGET_KEYS.into_iter().find(|known| *known == key) else {
                return Err(BadBudget::UnknownKey { key: shown(key), nearest: nearest(key, BUDGET_KEYS) });
            };
            if seen.contains(&key) {
                return Err(BadBudget::Twice(key));
            }
            seen.push(key);
            let wrong = |source| BadBudget::Value { key, source };
            let count = || count(value).map_err(wrong);
            match key {
                "tokens" => budget.tokens = Some(count()?),
                "tool_calls" => budget.tool_calls = Some(count()?),
                "delegations" => budget.delegations = Some(count()?),
                "usd" => budget.micro_usd = Some(micro_usd(value.trim_start_matches('$')).map_err(wrong)?),
                "depth" => {
                    let depth = u32::try_from(count()?).map_err(|_| wrong(bad(value, "a depth")))?;
                    budget.depth = Some(depth);
                }
                _ => budget.wall = Some(duration(value).map_err(wrong)?),
            }
        }
        Ok(budget)
    }
}

fn count(text: &str) -> Result<u64, BadQuantity> {
    let wrong = || bad(text, "a whole number");
    let digits = text.replace('_', "");
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().map_err(|_| wrong()) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_what_people_write_and_within_bounds() {
        assert_eq!(duration("200ms").unwrap(), Duration::from_millis(200));
        assert_eq!(duration("1h 30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(duration("365days").unwrap(), *DURATIONS.end());
        for text in ["", "0s", "5", "m", "-1s", "1us", "1500us", "366days", "1parsec", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_whole_numbers_with_a_unit() {
        assert_eq!(size("256MiB").unwrap(), 256 << 20);
        assert_eq!(size("1 GB").unwrap(), 1_000_000_000);
        for text in ["", "256", "MiB", "1.5GiB", "-1B", "1mib", "99999999999GiB", "18446744073709551616B", "1B "] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn money_is_exact_or_refused() {
        for (text, micros) in [
            ("0", 0),
            ("2", 2_000_000),
            ("1.50", 1_500_000),
            ("0.1", 100_000),
            ("0.3", 300_000),
            ("0.000001", 1),
            ("1.000000000", 1_000_000),
            ("18446744073709.551615", u64::MAX),
        ] {
            assert_eq!(micro_usd(text).unwrap(), micros, "{text}");
        }
        for text in
            ["", ".", "1.", ".5", "-1", "+1", "1e3", "nan", "inf", "0.0000001", "18446744073709.551616", "1,5", "٣"]
        {
            assert!(micro_usd(text).is_err(), "{text}");
        }
        assert_eq!(Usd(1_500_000).to_string(), "$1.50");
        assert_eq!(Usd(1).to_string(), "$0.000001");
    }

    #[test]
    fn a_budget_reads_from_a_command_line() {
        let budget: Budget = "tokens=200_000, usd=1.5,tool_calls=3,delegations=4,depth=2,wall=30m".parse().unwrap();
        let minutes = Duration::from_secs(1800);
        assert_eq!(
            budget,
            Budget {
                tokens: Some(200_000),
                micro_usd: Some(1_500_000),
                tool_calls: Some(3),
                delegations: Some(4),
                depth: Some(2),
                wall: Some(minutes)
            }
        );
        assert_eq!("".parse::<Budget>().unwrap(), Budget::default());
        let refused = |text: &str| text.parse::<Budget>().unwrap_err().to_string();
        assert_eq!(refused("token=1"), "unknown ceiling `token`; did you mean `tokens`?");
        assert_eq!(refused("tokens"), "`tokens` is not a ceiling like `tokens=200000`");
        assert_eq!(refused("depth=1,depth=2"), "`depth` is given twice");
        assert!(refused("tokens=-1").contains("whole number"));
        assert!(refused("depth=4294967296").contains("depth"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,40}|[0-9]{0,25}[a-zA-Z. ]{0,6}|[a-z=0-9,._]{0,30}") {
            let _ = (duration(&text), size(&text), micro_usd(&text), text.parse::<Budget>());
        }

        #[test]
        fn money_reads_back(micros: u64) {
            let shown = Usd(micros).to_string();
            prop_assert_eq!(micro_usd(&shown[1..]).unwrap(), micros);
        }
    }
}
