//! Where, when and what: the rules of a fault plan and how they are written.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;
use std::sync::Arc;

use super::error::nearest;
use super::{Action, Point, RuleError, Scope, Verb};
use crate::ids::SessionPath;

/// A schedule of faults. Which probability rules fire comes from the seed of [`Env`](crate::env::Env).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    rules: Vec<Rule>,
}

impl Plan {
    /// A plan of these rules. Where several would strike at once, the first of them does.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Whether no fault can strike.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Its rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// One rule: where, when and what. Only rules that make sense can be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    point: Point,
    filter: Filter,
    when: When,
    action: Action,
}

/// Which of the sessions and calls at a point; an absent filter lets all through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Where in the tree.
    pub path: Option<PathPattern>,
    /// The capsule's name.
    pub capsule: Option<Arc<str>>,
    /// The tool's name, at points that know one.
    pub tool: Option<Arc<str>>,
    /// Which incarnation of the session, from 1.
    pub attempt: Option<NonZeroU32>,
}

/// A session, or everything below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// `0.1`: that session.
    Exact(SessionPath),
    /// `0.1.*`: every session below it, not itself.
    Below(SessionPath),
}

/// Which of the times that a point is passed and the filter lets through. Counted by each rule for itself, from 1:
/// within one attempt of one session, and at the journal's points within the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Every time.
    Always,
    /// The n-th time, once.
    Nth(NonZeroU64),
    /// The n-th time, the 2n-th, …
    Every(NonZeroU64),
    /// Each time with this probability, more than 0 and at most 1.
    Chance(f64),
}

impl PathPattern {
    /// Whether `path` is meant.
    pub fn matches(&self, path: &SessionPath) -> bool {
        match self {
            Self::Exact(one) => one == path,
            Self::Below(top) => top != path && top.contains(path),
        }
    }
}

impl Rule {
    /// A rule, when the point takes the action and knows what the filter asks for.
    pub fn new(point: Point, filter: Filter, when: When, action: Action) -> Result<Self, RuleError> {
        let verb = action.verb();
        if !point.takes().contains(&verb) {
            return Err(RuleError::Unsupported { point, verb });
        }
        action.validate()?;
        if let When::Chance(p) = when
            && !(p > 0.0 && p <= 1.0)
        {
            return Err(RuleError::Value { token: format!("p={p}"), expected: PROBABILITY });
        }
        for (key, name) in [("capsule", &filter.capsule), ("tool", &filter.tool)] {
            if name.as_ref().is_some_and(|name| name.is_empty() || name.contains(char::is_whitespace)) {
                return Err(RuleError::Value { token: format!("{key}="), expected: NAME });
            }
        }
        let refuse = |key, why| Err(RuleError::Filter { point, key, why });
        if filter.tool.is_some() && !point.has_tool() {
            return refuse("tool", "only `gate` and `tool` know a tool");
        }
        if point.scope() == Scope::Journal {
            let why = "one writer serves every session";
            match &filter {
                Filter { path: Some(_), .. } => return refuse("path", why),
                Filter { capsule: Some(_), .. } => return refuse("capsule", why),
                Filter { attempt: Some(_), .. } => return refuse("attempt", why),
                _ => {}
            }
        }
        Ok(Self { point, filter, when, action })
    }

    /// Where it strikes.
    pub fn point(&self) -> Point {
        self.point
    }

    /// Which sessions and calls it is for.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Which of the times.
    pub fn when(&self) -> When {
        self.when
    }

    /// What it does.
    pub fn action(&self) -> &Action {
        &self.action
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(path) => write!(f, "{path}"),
            Self::Below(path) => write!(f, "{path}.*"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.point)?;
        let Filter { path, capsule, tool, attempt } = &self.filter;
        if let Some(path) = path {
            write!(f, " path={path}")?;
        }
        if let Some(capsule) = capsule {
            write!(f, " capsule={capsule}")?;
        }
        if let Some(tool) = tool {
            write!(f, " tool={tool}")?;
        }
        if let Some(attempt) = attempt {
            write!(f, " attempt={attempt}")?;
        }
        match self.when {
            When::Always => {}
            When::Nth(n) => write!(f, " nth={n}")?,
            When::Every(n) => write!(f, " every={n}")?,
            When::Chance(p) => write!(f, " p={p}")?,
        }
        write!(f, " {}", self.action)
    }
}

const PATH: &str = "a session's path like `0.1`, or `0.1.*` for all below it";
const NAME: &str = "a name without blanks";
const COUNT: &str = "a whole number from 1";
const PROBABILITY: &str = "a probability, more than 0 and at most 1";
const KEYS: [&str; 7] = ["path", "capsule", "tool", "attempt", "nth", "every", "p"];

/// Reads `POINT [path=…] [capsule=…] [tool=…] [attempt=N] [nth=N|every=N|p=F] ACTION`.
impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(s: &str) -> Result<Self, RuleError> {
        let (first, mut rest) = next_word(s).ok_or(RuleError::Empty)?;
        let point: Point = first.parse()?;
        let mut filter = Filter::default();
        let mut when = None;
        while let Some((token, behind)) = next_word(rest) {
            let (key, value) = token.split_once('=').map_or((token, None), |(key, value)| (key, Some(value)));
            let fresh = match (key, value) {
                ("path", Some(value)) => put(&mut filter.path, path_pattern(token, value)?),
                ("capsule", Some(value)) => put(&mut filter.capsule, name(token, value)?),
                ("tool", Some(value)) => put(&mut filter.tool, name(token, value)?),
                ("attempt", Some(value)) => put(&mut filter.attempt, read(token, value, COUNT)?),
                ("nth", Some(value)) => put(&mut when, When::Nth(read(token, value, COUNT)?)),
                ("every", Some(value)) => put(&mut when, When::Every(read(token, value, COUNT)?)),
                ("p", Some(value)) => put(&mut when, When::Chance(read(token, value, PROBABILITY)?)),
                _ => {
                    let action = action(rest)?;
                    return Self::new(point, filter, when.unwrap_or(When::Always), action);
                }
            };
            if !fresh {
                return Err(RuleError::Twice { token: shown(token) });
            }
            rest = behind;
        }
        Err(RuleError::NoAction { point })
    }
}

/// Puts `value` where nothing was; says whether nothing was.
fn put<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

/// The first word, and what is behind it.
fn next_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn shown(token: &str) -> String {
    token.chars().take(64).collect()
}

fn read<T: FromStr>(token: &str, value: &str, expected: &'static str) -> Result<T, RuleError> {
    value.parse().map_err(|_| RuleError::Value { token: shown(token), expected })
}

fn name(token: &str, value: &str) -> Result<Arc<str>, RuleError> {
    if value.is_empty() { Err(RuleError::Value { token: shown(token), expected: NAME }) } else { Ok(value.into()) }
}

fn path_pattern(token: &str, value: &str) -> Result<PathPattern, RuleError> {
    match value.strip_suffix(".*") {
        Some(top) => Ok(PathPattern::Below(read(token, top, PATH)?)),
        None => Ok(PathPattern::Exact(read(token, value, PATH)?)),
    }
}

/// Reads the action, which is all that is left.
fn action(text: &str) -> Result<Action, RuleError> {
    let text = text.trim();
    if let Some(said) = text.strip_prefix("error=") {
        let action = Action::Error(Some(said.trim().into()));
        action.validate()?;
        return Ok(action);
    }
    let (token, behind) = next_word(text).ok_or(RuleError::Empty)?;
    if let Some((extra, _)) = next_word(behind) {
        return match word(token) {
            Some(_) => Err(RuleError::Behind { token: shown(extra) }),
            None => Err(unknown(token)),
        };
    }
    word(token).ok_or_else(|| unknown(token))?
}

/// The action `token` names; `None` where it names none.
fn word(token: &str) -> Option<Result<Action, RuleError>> {
    Some(Ok(match token {
        "panic" => Action::Panic,
        "kill" => Action::Kill,
        "trap" => Action::Trap,
        "hang" => Action::Hang,
        "error" => Action::Error(None),
        "drop" => Action::Drop,
        "duplicate" => Action::Duplicate,
        _ => {
            let time = match token.split_once('=') {
                Some(("delay", time)) => time,
                None if token == "delay" => "",
                _ => return None,
            };
            let bad = |_| RuleError::Delay { token: shown(token) };
            return Some(humantime::parse_duration(time).map(Action::Delay).map_err(bad));
        }
    }))
}

fn unknown(token: &str) -> RuleError {
    let word = token.split('=').next().unwrap_or(token);
    RuleError::Word { token: shown(token), nearest: nearest(word, KEYS.into_iter().chain(Verb::ALL.map(Verb::name))) }
}

#[cfg(test)]
mod tests;
