//! Budgets as a tree of ceilings, as pure values.
//!
//! Every session holds one [`Account`] for itself and all below it. Sessions share nothing: what a ceiling further up
//! must agree to travels as an [`Ask`] and comes back as a yes or a no, and what is over travels up as a [`Notice`].
//!
//! On each axis an account is in one of three positions:
//! - **unlimited**: no ceiling stands here or above. Nobody is asked.
//! - **own**: a slice was set aside for it, or its ceiling is the topmost. It decides alone.
//! - **shared**: it draws from what its parent has left, so the parent decides too. A local cap (the lesser of its
//!   own ceiling and what the parent had left when it began) can only refuse earlier.
//!
//! At every account and every moment, what is spent, set aside and asked for together stay within its ceiling. Only
//! usage that was reported after the fact can go over; that is debt, and an account in debt refuses every draw.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::quantity::Usd;
use super::usage::{Axis, Budget, Usage, least};
use crate::agent::Refusal;

/// What one session and all below it may spend and have spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    lines: [Line; 4],
    depth: Option<u32>,
    wall: Option<Duration>,
    /// Whether a ceiling holds on any axis: where none does, a draw is an addition.
    limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    position: Position,
    /// Used up, here and below as far as it is known here.
    spent: u64,
    /// Set aside for children and for what has begun.
    reserved: u64,
    /// Asked of the parent and not yet answered.
    asked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Unlimited,
    Own { ceiling: u64 },
    Shared { cap: u64 },
}

impl Line {
    fn new(position: Position) -> Self {
        Self { position, spent: 0, reserved: 0, asked: 0 }
    }

    fn left(&self) -> u64 {
        let ceiling = match self.position {
            Position::Unlimited => return u64::MAX,
            Position::Own { ceiling } => ceiling,
            Position::Shared { cap } => cap,
        };
        ceiling.saturating_sub(self.spent).saturating_sub(self.reserved).saturating_sub(self.asked)
    }

    fn debt(&self) -> u64 {
        match self.position {
            Position::Unlimited => 0,
            Position::Own { ceiling } | Position::Shared { cap: ceiling } => {
                self.spent.saturating_add(self.reserved).saturating_add(self.asked).saturating_sub(ceiling)
            }
        }
    }

    fn is_limited(&self) -> bool {
        self.position != Position::Unlimited
    }

    fn is_shared(&self) -> bool {
        matches!(self.position, Position::Shared { .. })
    }
}

/// A ceiling was reached. Nothing was spent and nothing is set aside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{key}: {}", self.reason())]
pub struct Exhausted {
    /// The manifest key of the ceiling (`budget.delegations`).
    pub key: String,
    /// How much was asked.
    pub asked: u64,
    /// How much was left.
    pub left: u64,
}

impl Exhausted {
    fn reason(&self) -> String {
        match (self.key.as_str(), self.asked) {
            ("budget.depth", _) => "no level may stand below this one".to_owned(),
            (_, 0) => "more was used than its ceiling allows".to_owned(),
            ("budget.usd", asked) => format!("asked for {}, {} left", Usd(asked), Usd(self.left)),
            (_, asked) => format!("asked for {asked}, {} left", self.left),
        }
    }
}

impl From<Exhausted> for Refusal {
    fn from(exhausted: Exhausted) -> Self {
        Self { reason: exhausted.reason(), key: exhausted.key }
    }
}

const ONE_DELEGATION: Usage = Usage { tokens: 0, micro_usd: 0, tool_calls: 0, delegations: 1 };

/// What an account needs from the one above it, on the axes they share. Answer it with [`Account::ask`] there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// To be used up.
    pub spend: Usage,
    /// To be set aside until it is settled.
    pub hold: Usage,
}

impl Ask {
    fn is_nothing(&self) -> bool {
        self.spend.is_zero() && self.hold.is_zero()
    }
}

/// What the account above must know of what happened below. Never refused. Take it in with [`Account::notice`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Set aside before, now free.
    pub release: Usage,
    /// Used up, whatever the ceiling.
    pub spend: Usage,
    /// Used up before, given back: it was granted to somebody who is no more.
    pub refund: Usage,
}

impl Notice {
    fn some(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// An ask waiting for the account above. Give it to [`Account::granted`], [`Account::denied`] or [`Account::abandoned`],
/// whichever comes first; lost, what was asked stays unusable.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an unanswered ask keeps what was asked from everybody"]
pub struct Pending {
    ask: Ask,
}

/// What became of an ask.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// It is granted and booked.
    Granted,
    /// The account above must agree first.
    AskParent(Ask, Pending),
    /// It is refused; nothing changed.
    Refused(Exhausted),
}

/// What a session keeps of a child's money: how much is set aside for it here, and what it has drawn already.
///
/// It lives as long as the delegation, over all attempts, and ends in [`Account::settle`] or [`Account::cancel`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is reserved must be settled"]
pub struct Reserved {
    held: Usage,
    drawn: Usage,
}

impl Reserved {
    /// What is set aside.
    pub fn held(&self) -> &Usage {
        &self.held
    }

    /// Books what was granted to the child of this reservation, once [`Account::ask`] or [`Account::granted`] said so.
    pub fn add(&mut self, ask: &Ask) {
        self.held = self.held.plus(&ask.hold);
        self.drawn = self.drawn.plus(&ask.spend);
    }
}

/// A child's account, and what its parent keeps of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Child {
    /// For the child's session.
    pub account: Account,
    /// For its parent.
    pub reserved: Reserved,
    /// What was set aside, for the record; unlimited where the request named nothing.
    pub slice: Budget,
    /// What the child may draw at most where that is less than its own ceiling, for the record.
    pub cap: Option<Budget>,
    /// What setting it aside takes. Where the parent must ask, the child may not start before the answer.
    pub ask: Ask,
}

/// How a child's money was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What its subtree spent.
    pub spent: Usage,
    /// Whether that is a guess: it ended without saying, and what was set aside counts as spent.
    pub estimated: bool,
    /// For the account above, where there is one.
    pub notice: Option<Notice>,
}

impl Account {
    /// The account of a root session. What it does not limit is limited by nothing.
    pub fn root(budget: &Budget) -> Self {
        let line = |axis| match budget.get(axis) {
            Some(ceiling) => Line::new(Position::Own { ceiling }),
            None => Line::new(Position::Unlimited),
        };
        Self::new(Axis::ALL.map(line), budget.depth, budget.wall)
    }

    fn new(lines: [Line; 4], depth: Option<u32>, wall: Option<Duration>) -> Self {
        Self { lines, depth, wall, limited: lines.iter().any(Line::is_limited) }
    }

    fn line(&self, axis: Axis) -> &Line {
        &self.lines[axis as usize]
    }

    fn line_mut(&mut self, axis: Axis) -> &mut Line {
        &mut self.lines[axis as usize]
    }

    /// Uses up `usage` now, before what it stands for happens.
    pub fn draw(&mut self, usage: Usage) -> Answer {
        if !self.limited {
            self.book(&Ask { spend: usage, hold: Usage::default() });
            return Answer::Granted;
        }
        self.ask(Ask { spend: usage, hold: Usage::default() })
    }

    /// Decides an ask: this session's own, or one that a child sent up (then add what is granted to its
    /// [`Reserved`]).
    pub fn ask(&mut self, ask: Ask) -> Answer {
        if let Some(exhausted) = self.refusal(&ask) {
            return Answer::Refused(exhausted);
        }
        let up = Ask { spend: self.shared(&ask.spend), hold: self.shared(&ask.hold) };
        if up.is_nothing() {
            self.book(&ask);
            return Answer::Granted;
        }
        for axis in Axis::ALL {
            let asked = ask.spend.get(axis).saturating_add(ask.hold.get(axis));
            let line = self.line_mut(axis);
            line.asked = line.asked.saturating_add(asked);
        }
        Answer::AskParent(up, Pending { ask })
    }

    /// The account above said yes: what was asked is booked here too.
    pub fn granted(&mut self, pending: Pending) -> Ask {
        let ask = self.denied(pending);
        self.book(&ask);
        ask
    }

    /// The account above said no: nothing changed.
    pub fn denied(&mut self, Pending { ask }: Pending) -> Ask {
        for axis in Axis::ALL {
            let asked = ask.spend.get(axis).saturating_add(ask.hold.get(axis));
            let line = self.line_mut(axis);
            line.asked = line.asked.saturating_sub(asked);
        }
        ask
    }

    /// The account above said yes, and whoever asked is no more: it is given back.
    pub fn abandoned(&mut self, pending: Pending) -> Option<Notice> {
        let ask = self.denied(pending);
        let refund = self.shared(&ask.spend);
        Notice { release: self.shared(&ask.hold), spend: Usage::default(), refund }.some()
    }

    /// Sets up a child's account: uses up one delegation, and sets aside what `slice` names.
    ///
    /// `ceiling` is the budget of the child's own manifest, which no slice can raise. A child that is not given a slice
    /// of an axis draws from what is left here; nothing is set aside for it. Refused, nothing has changed. Otherwise
    /// hand [`Child::ask`] to [`Account::ask`]; only once that is granted is the delegation paid for.
    pub fn child(&self, slice: Option<&Budget>, ceiling: &Budget) -> Result<Child, Exhausted> {
        if self.depth == Some(0) {
            return Err(Exhausted { key: "budget.depth".to_owned(), asked: 1, left: 0 });
        }
        let (named, mut cap) = (slice.copied().unwrap_or_default(), Budget::default());
        let mut ask = Ask { spend: ONE_DELEGATION, hold: Usage::default() };
        let mut set_aside = Budget::default();
        let lines = Axis::ALL.map(|axis| {
            let (here, own) = (self.line(axis), ceiling.get(axis));
            if let Some(named) = named.get(axis) {
                // More than the child may ever spend is not kept from its siblings.
                let slice = named.min(own.unwrap_or(u64::MAX));
                *set_aside.get_mut(axis) = Some(slice);
                if here.is_limited() {
                    *ask.hold.get_mut(axis) = slice;
                }
                return Line::new(Position::Own { ceiling: slice });
            }
            if !here.is_limited() {
                return Line::new(own.map_or(Position::Unlimited, |ceiling| Position::Own { ceiling }));
            }
            // The delegation itself is paid out of the same remainder.
            let left = here.left().saturating_sub(ask.spend.get(axis));
            if own.is_none_or(|own| left < own) {
                *cap.get_mut(axis) = Some(left);
            }
            Line::new(Position::Shared { cap: left.min(own.unwrap_or(u64::MAX)) })
        });
        let depth = least(least(named.depth, ceiling.depth), self.depth.map(|depth| depth - 1));
        let wall = least(least(named.wall, ceiling.wall), self.wall);
        if slice.is_some() {
            (set_aside.depth, set_aside.wall) = (named.depth.and(depth), named.wall.and(wall));
        }
        if let Some(exhausted) = self.refusal(&ask) {
            return Err(exhausted);
        }
        Ok(Child {
            account: Self::new(lines, depth, wall),
            reserved: Reserved { held: ask.hold, drawn: Usage::default() },
            slice: set_aside,
            cap: (!cap.is_unlimited()).then_some(cap),
            ask,
        })
    }

    /// Takes back a child that was paid for and then not started: its slice, and the delegation.
    pub fn cancel(&mut self, Reserved { held, drawn }: Reserved) -> Option<Notice> {
        let refund = drawn.plus(&ONE_DELEGATION);
        self.apply(Notice { release: held, spend: Usage::default(), refund })
    }

    /// Ends a child's reservation: what it did not spend is free again. Call it when the completion is taken, or when
    /// it is certain that nobody will take it.
    ///
    /// `spent` is what its whole subtree spent, `None` where that was lost with it: then all that was set aside counts
    /// as spent, and the outcome says `estimated`.
    pub fn settle(&mut self, reserved: Reserved, spent: Option<Usage>) -> Settled {
        let Reserved { held, drawn } = reserved;
        let estimated = spent.is_none();
        let spent = spent.unwrap_or_else(|| drawn.plus(&held));
        // A draw that was granted and whose answer the child did not live to see stays drawn.
        let spent = Usage::by_axis(|axis| spent.get(axis).max(drawn.get(axis)));
        let notice = Notice { release: held, spend: spent.minus(&drawn), refund: Usage::default() };
        Settled { spent, estimated, notice: self.apply(notice) }
    }

    /// Charges what was used without asking: usage a model reported, also when it arrives late. Where it goes over a
    /// ceiling it is debt, here and all the way up, and the next draw is refused.
    pub fn charge(&mut self, usage: Usage) -> Option<Notice> {
        self.apply(Notice { spend: usage, ..Notice::default() })
    }

    /// Takes in what a child's account gave notice of; the outcome is for the account above this one.
    pub fn notice(&mut self, from: &mut Reserved, notice: Notice) -> Option<Notice> {
        let Notice { release, spend, refund } = notice;
        from.held = from.held.minus(&release);
        from.drawn = from.drawn.plus(&spend).minus(&refund);
        self.apply(notice)
    }

    fn apply(&mut self, notice: Notice) -> Option<Notice> {
        let mut up = Notice::default();
        for axis in Axis::ALL {
            let (release, spend, refund) = (notice.release.get(axis), notice.spend.get(axis), notice.refund.get(axis));
            let line = self.line_mut(axis);
            let debt = line.debt();
            line.reserved = line.reserved.saturating_sub(release);
            line.spent = line.spent.saturating_add(spend).saturating_sub(refund);
            match line.position {
                Position::Shared { .. } => {
                    *up.release.get_mut(axis) = release;
                    *up.spend.get_mut(axis) = spend;
                    *up.refund.get_mut(axis) = refund;
                }
                // Within its ceiling it is the parent's business only in the end; beyond it, at once.
                Position::Own { .. } => *up.spend.get_mut(axis) = line.debt().saturating_sub(debt),
                Position::Unlimited => {}
            }
        }
        up.some()
    }

    fn book(&mut self, ask: &Ask) {
        for axis in Axis::ALL {
            let line = self.line_mut(axis);
            line.spent = line.spent.saturating_add(ask.spend.get(axis));
            line.reserved = line.reserved.saturating_add(ask.hold.get(axis));
        }
    }

    fn refusal(&self, ask: &Ask) -> Option<Exhausted> {
        if !self.limited || ask.is_nothing() {
            return None;
        }
        Axis::ALL.into_iter().find_map(|axis| {
            let line = self.line(axis);
            let asked = ask.spend.get(axis).saturating_add(ask.hold.get(axis));
            let refused = line.is_limited() && (asked > line.left() || line.debt() > 0);
            refused.then(|| Exhausted { key: axis.key().to_owned(), asked, left: line.left() })
        })
    }

    fn shared(&self, usage: &Usage) -> Usage {
        Usage::by_axis(|axis| if self.line(axis).is_shared() { usage.get(axis) } else { 0 })
    }

    /// What is left, where a ceiling holds. On a shared axis the account above may have less by now.
    pub fn left(&self) -> Budget {
        let mut left = Budget { depth: self.depth, wall: self.wall, ..Budget::default() };
        for axis in Axis::ALL {
            let line = self.line(axis);
            *left.get_mut(axis) = line.is_limited().then(|| line.left());
        }
        left
    }

    /// What was spent here and, as far as it is settled or shared, below.
    pub fn spent(&self) -> Usage {
        Usage::by_axis(|axis| self.line(axis).spent)
    }

    /// What is set aside here.
    pub fn reserved(&self) -> Usage {
        Usage::by_axis(|axis| self.line(axis).reserved)
    }

    /// What was used beyond the ceilings.
    pub fn debt(&self) -> Usage {
        Usage::by_axis(|axis| self.line(axis).debt())
    }

    /// How many levels may stand below; `None`: the budget does not say.
    pub fn depth_left(&self) -> Option<u32> {
        self.depth
    }

    /// How long the session may take in all, counted from its start; `None`: the budget does not say.
    pub fn wall(&self) -> Option<Duration> {
        self.wall
    }

    /// Whether nothing is set aside and nothing asked: so it must be when the session ends.
    pub fn is_idle(&self) -> bool {
        self.lines.iter().all(|line| line.reserved == 0 && line.asked == 0)
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
