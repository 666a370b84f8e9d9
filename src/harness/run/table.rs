//! What a harness's result and its process's exit say together: one table, also in `docs/harness.md`.

use std::time::Duration;

use crate::driver::{Exit, Failure, Turn};
use crate::supervision::ExitClass;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Its exit class.
    pub class: ExitClass,
    /// Its answer, or that it could not; `None` where there is no answer and another try may have one.
    pub result: Option<Result<String, String>>,
    /// Why there is no answer.
    pub why: Option<String>,
    /// What does not fit together, and is recorded.
    pub odd: Option<String>,
}

/// What its results say together: a success that was said stands, whatever came before or after it.
enum Said {
    Answer(String),
    Failure(Failure, String),
    Nothing,
}

/// How long a quota that does not say when it lifts is taken to hold.
const QUOTA: Duration = Duration::from_secs(60);

/// Looks up a run: every result its harness said, in order; its exit; whether it was told to stop, and whether it went
/// only by force.
pub fn judge(turns: Vec<Turn>, exit: Exit, force: bool) -> Judgement {
    let two = turns.len() > 1;
    let odd =
        (two || matches!(turns.first(), Some(Turn::Ended(_))) && exit != Exit::Code(0)).then(|| oddity(&turns, exit));
    match said(turns) {
        Said::Answer(answer) => Judgement { class: ExitClass::Done, result: Some(Ok(answer)), why: None, odd },
        Said::Failure(failure, message) => failed(failure, message, odd),
        Said::Nothing => {
            let (class, why) = nothing(exit, force);
            Judgement { class, result: None, why: Some(why), odd }
        }
    }
}

fn said(turns: Vec<Turn>) -> Said {
    let mut first_failure = None;
    for turn in turns {
        match turn {
            Turn::Ended(answer) => return Said::Answer(answer),
            Turn::Failed(failure, message) => drop(first_failure.get_or_insert((failure, message))),
        }
    }
    first_failure.map_or(Said::Nothing, |(failure, message)| Said::Failure(failure, message))
}

fn failed(failure: Failure, message: String, odd: Option<String>) -> Judgement {
    let class = match failure {
        Failure::Other | Failure::MaxTurns => {
            return Judgement { class: ExitClass::Done, result: Some(Err(message)), why: None, odd };
        }
        Failure::Auth => ExitClass::Refused,
        Failure::Quota { lifts } => {
            let lifts_ms = u64::try_from(lifts.unwrap_or(QUOTA).as_millis()).unwrap_or(u64::MAX);
            ExitClass::Throttled { lifts_ms }
        }
        Failure::Canceled => ExitClass::Canceled,
        Failure::HarnessError => ExitClass::Retryable,
    };
    Judgement { class, result: None, why: Some(message), odd }
}

fn nothing(exit: Exit, force: bool) -> (ExitClass, String) {
    match exit {
        Exit::Code(0) => (ExitClass::Retryable, "it exited well and said no result".to_owned()),
        Exit::Code(code) => (ExitClass::Retryable, format!("exit code {code}")),
        Exit::Signal(number) => (ExitClass::Signal { number }, format!("ended by {}", signal_name(number))),
        Exit::ByUs if force => (ExitClass::KilledByUs, "it was killed".to_owned()),
        Exit::ByUs => (ExitClass::Canceled, "it was stopped".to_owned()),
        Exit::StillRunning => (ExitClass::Stalled, "it closed its output without a result and ran on".to_owned()),
        Exit::Lost => (ExitClass::Retryable, "it is gone, and nobody saw how".to_owned()),
    }
}

fn oddity(turns: &[Turn], exit: Exit) -> String {
    let of = |turn: &Turn| match turn {
        Turn::Ended(_) => "an answer",
        Turn::Failed(..) => "a failure",
    };
    let said: Vec<&str> = turns.iter().take(4).map(of).collect();
    let how = match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(number) => signal_name(number),
        Exit::ByUs => "it was stopped".to_owned(),
        Exit::StillRunning => "it ran on and was killed".to_owned(),
        Exit::Lost => "nobody saw its exit".to_owned(),
    };
    format!("it said {}; then: {how}", said.join(", then "))
}

fn signal_name(number: i32) -> String {
    match nix::sys::signal::Signal::try_from(number) {
        Ok(signal) => signal.to_string(),
        Err(_) => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXITS: [Exit; 7] =
        [Exit::Code(0), Exit::Code(1), Exit::Code(141), Exit::Signal(9), Exit::ByUs, Exit::StillRunning, Exit::Lost];

    fn ok(answer: &str) -> Turn {
        Turn::Ended(answer.into())
    }

    fn err(failure: Failure) -> Turn {
        Turn::Failed(failure, "why".into())
    }

    /// Complaints row 52: {result ok, err, none, two} × {exit 0, 1, 141, signal, …}, every cell.
    #[test]
    fn row_52_the_whole_table() {
        use ExitClass::{Canceled, Done, KilledByUs, Refused, Retryable, Signal, Stalled, Throttled};
        let answer = Some(Ok("a".to_owned()));
        let cannot = Some(Err("why".to_owned()));
        for exit in EXITS {
            for force in [false, true] {
                let cell = |turns: &[Turn]| {
                    let Judgement { class, result, .. } = judge(turns.to_vec(), exit, force);
                    (class, result)
                };
                let other = Failure::Other;
                // A success that was said stands.
                assert_eq!(cell(&[ok("a")]), (Done, answer.clone()));
                assert_eq!(cell(&[ok("a"), ok("b")]), (Done, answer.clone()));
                assert_eq!(cell(&[ok("a"), err(other)]), (Done, answer.clone()));
                assert_eq!(cell(&[err(other), ok("a")]), (Done, answer.clone()));
                // A failure says of which kind it is.
                assert_eq!(cell(&[err(other)]), (Done, cannot.clone()));
                assert_eq!(cell(&[err(Failure::MaxTurns)]), (Done, cannot.clone()));
                assert_eq!(cell(&[err(Failure::Auth)]), (Refused, None));
                assert_eq!(cell(&[err(Failure::Canceled)]), (Canceled, None));
                assert_eq!(cell(&[err(Failure::HarnessError)]), (Retryable, None));
                let lifts = Some(Duration::from_secs(5));
                assert_eq!(cell(&[err(Failure::Quota { lifts })]), (Throttled { lifts_ms: 5_000 }, None));
                assert_eq!(cell(&[err(Failure::Quota { lifts: None })]), (Throttled { lifts_ms: 60_000 }, None));
                assert_eq!(cell(&[err(Failure::Auth), err(other)]), (Refused, None));
                // Nothing said: the exit decides, and no exit makes an answer.
                let class = match exit {
                    Exit::Code(_) | Exit::Lost => Retryable,
                    Exit::Signal(number) => Signal { number },
                    Exit::ByUs if force => KilledByUs,
                    Exit::ByUs => Canceled,
                    Exit::StillRunning => Stalled,
                };
                assert_eq!(cell(&[]), (class, None));
            }
        }
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        assert_eq!(judge(vec![ok("a")], Exit::Code(0), false).odd, None);
        assert_eq!(judge(vec![err(Failure::Other)], Exit::Code(1), false).odd, None);
        assert_eq!(judge(vec![], Exit::Code(1), false).odd, None);
        let odd = |turns, exit| judge(turns, exit, false).odd.unwrap();
        assert_eq!(odd(vec![ok("a")], Exit::Code(141)), "it said an answer; then: exit code 141");
        assert_eq!(odd(vec![ok("a")], Exit::StillRunning), "it said an answer; then: it ran on and was killed");
        assert_eq!(
            odd(vec![ok("a"), err(Failure::Other)], Exit::Code(0)),
            "it said an answer, then a failure; then: exit code 0"
        );
        assert_eq!(odd(vec![ok("a")], Exit::Signal(11)), "it said an answer; then: SIGSEGV");
    }

    #[test]
    fn a_missing_answer_always_says_why() {
        for exit in EXITS {
            let judged = judge(vec![], exit, false);
            assert!(judged.why.is_some_and(|why| !why.is_empty()), "{exit:?}");
        }
    }
}
