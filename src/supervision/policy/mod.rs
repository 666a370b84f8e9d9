//! The policy of a supervisor as a value: (state, event, time) → (state, effects).
//!
//! It reads no clock, draws no chance and does nothing itself. The actors, the simulation and the tests run the same
//! code; docs/supervision.md lists what it promises, each with the test that holds it.

mod children;
mod event;

use std::time::Duration;

use tokio::time::Instant;

use self::children::{Child, Children, Place, Set, State, Want};
pub use self::event::{ChildStatus, Effect, EscalateWhy, Event, Incarnation, ShutdownWhy};
use super::spec::Rules;
use super::{AutoShutdown, ChildSpec, ExitClass, RestartType, Restarts, Spec, SpecError, StopOrder, Strategy, rerun};

/// Decides which children of one supervisor are started, stopped and restarted, and when it gives up.
///
/// Whoever holds one tells it every event and carries out every effect, in order. It never asks for a start before the
/// last life of that child is confirmed gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy<Id: Ord + Clone> {
    rules: Rules,
    children: Children<Id>,
    restarts: Restarts,
    phase: Phase<Id>,
    next_incarnation: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase<Id> {
    Up,
    Stopping(ShutdownWhy<Id>),
    Over,
}

/// What follows the exit of a child that nobody asked to stop.
enum Verdict {
    /// It stays down.
    End,
    /// It is started again when the quota has lifted; no restart is spent.
    Park(Duration),
    /// It is started again.
    Restart,
    /// It can neither stay down nor be started again.
    Escalate,
}

fn judge(restart: RestartType, class: ExitClass) -> Verdict {
    match (restart, class) {
        (RestartType::Temporary, _) => Verdict::End,
        (RestartType::Permanent, ExitClass::Refused) => Verdict::Escalate,
        (_, ExitClass::Throttled { lifts_ms }) => Verdict::Park(rerun::park(lifts_ms)),
        (
            RestartType::Transient,
            ExitClass::Done | ExitClass::Canceled | ExitClass::KilledByUs | ExitClass::Refused,
        ) => Verdict::End,
        (RestartType::Permanent | RestartType::Transient, _) => Verdict::Restart,
    }
}

impl<Id: Ord + Clone> Policy<Id> {
    /// A policy, and the first effects: the first child's start, or those of all that need not wait for another.
    pub fn new(spec: Spec<Id>, now: Instant) -> (Self, Vec<Effect<Id>>) {
        let mut policy = Self {
            rules: spec.rules,
            children: Children::new(),
            restarts: Restarts::new(spec.rules.intensity),
            phase: Phase::Up,
            next_incarnation: 1,
        };
        for child in spec.children {
            let incarnation = policy.draw_incarnation();
            policy.children.push(Child::new(child, incarnation, true));
        }
        let mut effects = Vec::new();
        policy.settle(now, &mut effects);
        (policy, effects)
    }

    /// What `event` at `now` leads to. `chance` gives numbers in `0.0..1.0` and is asked once for each wait.
    /// Time does not run backwards between calls. Late, doubled and unknown events lead to nothing.
    pub fn step(&mut self, event: Event<Id>, now: Instant, chance: &mut impl FnMut() -> f64) -> Vec<Effect<Id>> {
        let mut effects = Vec::new();
        if self.phase != Phase::Over {
            self.take(event, now, chance, &mut effects);
            self.settle(now, &mut effects);
        }
        effects
    }

    /// A new child at the end of the start order, started at once where no restart of others is under way.
    ///
    /// # Errors
    /// One of that id is there, the supervisor is stopping, or the child makes no sense under its rules.
    pub fn add(&mut self, child: ChildSpec<Id>, now: Instant) -> Result<Vec<Effect<Id>>, SpecError> {
        if self.phase != Phase::Up {
            return Err(SpecError::Stopping);
        }
        self.rules.admit(&child)?;
        if self.children.place(child.id()).is_some() {
            return Err(SpecError::Duplicate);
        }
        if self.children.len() >= Spec::<Id>::MOST_CHILDREN {
            return Err(SpecError::TooMany);
        }
        let incarnation = self.draw_incarnation();
        self.children.push(Child::new(child, incarnation, false));
        let mut effects = Vec::new();
        self.settle(now, &mut effects);
        Ok(effects)
    }

    /// Where a child stands; `None` when there is none of that id.
    pub fn status(&self, child: &Id) -> Option<ChildStatus> {
        Some(self.children.get(self.children.place(child)?)?.status())
    }

    /// The children in start order.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = (&Id, ChildStatus)> {
        self.children.iter().map(|(_, child)| (child.spec.id(), child.status()))
    }

    /// Whether it is stopping, or has: nothing is started any more.
    pub fn is_stopping(&self) -> bool {
        self.phase != Phase::Up
    }

    fn take(&mut self, event: Event<Id>, now: Instant, chance: &mut impl FnMut() -> f64, fx: &mut Vec<Effect<Id>>) {
        match event {
            Event::Started { child, incarnation } => {
                if let Some(place) = self.present(&child, incarnation) {
                    self.children.update(place, |child| {
                        // One told to stop before it was up is still to go.
                        if child.state == State::Starting {
                            child.state = State::Running { since: now };
                            child.first_start = false;
                        }
                    });
                }
            }
            Event::StartFailed { child, incarnation, class } | Event::Exited { child, incarnation, class } => {
                if let Some(place) = self.present(&child, incarnation) {
                    self.gone(place, Some(class), now, chance, fx);
                }
            }
            Event::Stopped { child, incarnation } => {
                if let Some(place) = self.present(&child, incarnation) {
                    self.gone(place, None, now, chance, fx);
                }
            }
            Event::BackoffElapsed { child, incarnation } => {
                if let Some(place) = self.children.place(&child) {
                    self.children.update(place, |child| {
                        if child.state == State::Backoff && child.incarnation == incarnation {
                            child.state = State::Ready;
                        }
                    });
                }
            }
            Event::StopAsked(child) => self.take_down(&child, Want::Down, now, fx),
            Event::RemoveAsked(child) => self.take_down(&child, Want::Removed, now, fx),
            Event::StartAsked(child) => self.bring_up(&child),
            Event::StopAll => self.begin_stop(ShutdownWhy::Asked, fx),
        }
    }

    /// The child whose live incarnation this is.
    fn present(&self, child: &Id, incarnation: Incarnation) -> Option<Place> {
        let place = self.children.place(child)?;
        self.children.get(place).filter(|child| child.is_live() && child.incarnation == incarnation)?;
        Some(place)
    }

    /// A live child is confirmed gone: by itself with a class, or stopped.
    fn gone(
        &mut self,
        place: Place,
        class: Option<ExitClass>,
        now: Instant,
        chance: &mut impl FnMut() -> f64,
        fx: &mut Vec<Effect<Id>>,
    ) {
        let Some(child) = self.children.get(place) else { return };
        let (restart, marked, asked) = (child.spec.restart(), child.marked, child.state == State::Stopping);
        if self.phase != Phase::Up || child.want != Want::Up {
            return self.rest(place, now, fx);
        }
        // What was stopped without our asking was cancelled by someone else.
        let class = class.unwrap_or(ExitClass::Canceled);
        if marked {
            // It ended before the stop reached it. Its restart is part of the one under way, unless it had ended for
            // good; how one ends that was told to stop says little, but work done is done.
            let its_own = !asked || matches!(class, ExitClass::Done | ExitClass::Refused);
            return match judge(restart, class) {
                Verdict::End if its_own => self.end_by_itself(place, now, fx),
                Verdict::Escalate if its_own => self.escalate(place, class, EscalateWhy::Refused, now, fx),
                _ => self.restart_with_others(place, now, fx),
            };
        }
        match judge(restart, class) {
            Verdict::End => self.end_by_itself(place, now, fx),
            Verdict::Escalate => self.escalate(place, class, EscalateWhy::Refused, now, fx),
            Verdict::Park(park) => self.restart(place, park, now, chance, fx),
            Verdict::Restart if !self.restarts.grant(now) => {
                self.escalate(place, class, EscalateWhy::TooManyRestarts, now, fx);
            }
            Verdict::Restart => {
                let alone = self.rules.strategy == Strategy::OneForOne;
                self.children.update(place, |child| child.restart_due = alone);
                self.restart(place, Duration::ZERO, now, chance, fx);
            }
        }
    }

    /// It failed: it and the others of its set are started again, it not before its backoff and `at_least` are over.
    fn restart(
        &mut self,
        place: Place,
        at_least: Duration,
        now: Instant,
        chance: &mut impl FnMut() -> f64,
        fx: &mut Vec<Effect<Id>>,
    ) {
        let incarnation = self.draw_incarnation();
        self.children.update(place, |child| {
            let up_since = if let State::Running { since } = child.state { Some(since) } else { None };
            let (backoff, healthy_after) = child.spec.waits();
            let wait = backoff.wait(child.failures.failed(up_since, now, healthy_after), chance());
            let after = wait.max(at_least);
            child.incarnation = incarnation;
            child.marked = false;
            child.state = if after.is_zero() { State::Ready } else { State::Backoff };
            if !after.is_zero() {
                fx.push(Effect::StartTimer { child: child.spec.id().clone(), incarnation, after });
            }
        });
        let others = match self.rules.strategy {
            Strategy::OneForOne => return,
            Strategy::OneForAll => self.children.places_from(0),
            Strategy::RestForOne => self.children.places_from(place),
        };
        for other in others {
            self.children.update(other, |child| child.marked = child.is_live());
        }
    }

    /// It went down because another of its set failed.
    fn restart_with_others(&mut self, place: Place, now: Instant, fx: &mut Vec<Effect<Id>>) {
        if self.children.get(place).is_some_and(|child| child.spec.restart() == RestartType::Temporary) {
            return self.rest(place, now, fx);
        }
        let incarnation = self.draw_incarnation();
        self.children.update(place, |child| {
            child.incarnation = incarnation;
            child.marked = false;
            child.state = State::Ready;
        });
    }

    /// It is down for good, and by itself: where it is significant, that may be the end of the supervisor.
    fn end_by_itself(&mut self, place: Place, now: Instant, fx: &mut Vec<Effect<Id>>) {
        let significant =
            self.children.get(place).filter(|child| child.spec.is_significant()).map(|child| child.spec.id().clone());
        self.rest(place, now, fx);
        let Some(id) = significant else { return };
        match self.rules.auto_shutdown {
            AutoShutdown::AllSignificant if !self.children.set(Set::Significant).is_empty() => {}
            AutoShutdown::Never => {}
            AutoShutdown::AnySignificant | AutoShutdown::AllSignificant => {
                self.begin_stop(ShutdownWhy::Significant(id), fx);
            }
        }
    }

    /// It is down and stays down.
    fn rest(&mut self, place: Place, now: Instant, fx: &mut Vec<Effect<Id>>) {
        let Some(child) = self.children.get(place) else { return };
        let (id, due) = (child.spec.id().clone(), child.restart_due);
        if due {
            self.restarts.taken(now);
        }
        if child.want == Want::Removed || child.spec.restart() == RestartType::Temporary {
            self.children.remove(place);
            fx.push(Effect::Removed { child: id });
        } else {
            self.children.update(place, |child| {
                child.state = State::Ended;
                child.marked = false;
                child.restart_due = false;
                child.first_start = false;
            });
            fx.push(Effect::Ended { child: id });
        }
    }

    fn take_down(&mut self, child: &Id, want: Want, now: Instant, fx: &mut Vec<Effect<Id>>) {
        let Some(place) = self.children.place(child) else { return };
        let Some(state) = self.children.update(place, |child| {
            if child.want != Want::Removed {
                child.want = want;
            }
            child.state
        }) else {
            return;
        };
        match state {
            State::Ready | State::Backoff => {
                self.cancel_timer(place, fx);
                self.rest(place, now, fx);
            }
            // One marked already goes when its turn comes.
            State::Starting | State::Running { .. } => {
                if !self.children.set(Set::Marked).contains(&place) {
                    self.stop(place, fx);
                }
            }
            State::Ended if want == Want::Removed => self.rest(place, now, fx),
            State::Ended | State::Stopping => {}
        }
    }

    fn bring_up(&mut self, child: &Id) {
        if self.phase != Phase::Up {
            return;
        }
        let Some(place) = self.children.place(child) else { return };
        let incarnation = self.draw_incarnation();
        self.children.update(place, |child| {
            if child.want == Want::Removed {
                return;
            }
            child.want = Want::Up;
            if child.state == State::Ended {
                child.state = State::Ready;
                child.incarnation = incarnation;
            }
        });
    }

    fn escalate(&mut self, place: Place, class: ExitClass, why: EscalateWhy, now: Instant, fx: &mut Vec<Effect<Id>>) {
        let Some(child) = self.children.get(place) else { return };
        fx.push(Effect::Escalate { child: child.spec.id().clone(), class, why });
        self.rest(place, now, fx);
        self.begin_stop(ShutdownWhy::Escalated, fx);
    }

    /// From here on nothing is started; what is live goes.
    fn begin_stop(&mut self, why: ShutdownWhy<Id>, fx: &mut Vec<Effect<Id>>) {
        if self.phase != Phase::Up {
            return;
        }
        self.phase = Phase::Stopping(why);
        for place in self.children.places_from(0) {
            self.cancel_timer(place, fx);
            self.children.update(place, |child| {
                child.marked = child.is_live();
                if !child.marked {
                    child.state = State::Ended;
                }
            });
        }
    }

    fn cancel_timer(&self, place: Place, fx: &mut Vec<Effect<Id>>) {
        if let Some(child) = self.children.get(place).filter(|child| child.state == State::Backoff) {
            fx.push(Effect::CancelTimer { child: child.spec.id().clone(), incarnation: child.incarnation });
        }
    }

    /// The stops and starts whose turn has come.
    fn settle(&mut self, now: Instant, fx: &mut Vec<Effect<Id>>) {
        match self.rules.stop_order {
            // Only the last is ever told; the one before it when that is gone.
            StopOrder::Reverse => {
                let last = self.children.set(Set::Marked).last().copied();
                if let Some(last) = last.filter(|last| self.children.set(Set::Unasked).contains(last)) {
                    self.stop(last, fx);
                }
            }
            StopOrder::AtOnce => {
                while let Some(&last) = self.children.set(Set::Unasked).last() {
                    self.stop(last, fx);
                }
            }
        }
        if let Phase::Stopping(why) = &self.phase {
            if self.children.set(Set::Live).is_empty() {
                fx.push(Effect::ShutdownSelf { why: why.clone() });
                self.phase = Phase::Over;
            }
            return;
        }
        match self.rules.strategy {
            Strategy::OneForOne => {
                while let Some(&place) = self.children.set(Set::Again).first() {
                    self.start(place, now, fx);
                }
                if let Some(&first) = self.children.set(Set::FirstStart).first() {
                    self.start(first, now, fx);
                }
            }
            Strategy::OneForAll | Strategy::RestForOne => {
                // Restarted together, they are counted when the last of them is up: each of their starts is before.
                if self.children.set(Set::Pending).is_empty() && self.children.set(Set::Marked).is_empty() {
                    self.restarts.all_taken(now);
                }
                let wait = self.rules.strategy == Strategy::OneForAll && !self.children.set(Set::Backoff).is_empty();
                let stopping =
                    !(self.children.set(Set::Marked).is_empty() && self.children.set(Set::Stopping).is_empty());
                if let (false, false, Some(&first)) = (wait, stopping, self.children.set(Set::Pending).first()) {
                    self.start(first, now, fx);
                }
            }
        }
    }

    /// Starts it if it is ready.
    fn start(&mut self, place: Place, now: Instant, fx: &mut Vec<Effect<Id>>) {
        let Some(child) = self.children.get(place).filter(|child| child.state == State::Ready) else { return };
        fx.push(Effect::Start { child: child.spec.id().clone(), incarnation: child.incarnation });
        if child.restart_due {
            self.restarts.taken(now);
        }
        self.children.update(place, |child| {
            child.state = State::Starting;
            child.restart_due = false;
        });
    }

    fn stop(&mut self, place: Place, fx: &mut Vec<Effect<Id>>) {
        let effect = self.children.update(place, |child| {
            child.state = State::Stopping;
            child.marked = true;
            let (id, shutdown) = (child.spec.id().clone(), child.spec.shutdown());
            Effect::Stop { child: id, incarnation: child.incarnation, shutdown }
        });
        fx.extend(effect);
    }

    fn draw_incarnation(&mut self) -> Incarnation {
        let incarnation = Incarnation(self.next_incarnation);
        self.next_incarnation += 1;
        incarnation
    }
}
