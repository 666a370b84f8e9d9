//! A world for a policy: children that live and die as a test says, a clock that moves as it says.
//!
//! Whatever a test does, the rig holds every effect to what must always be true.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use treeward::supervision::{
    AutoShutdown, Backoff, ChildSpec, ChildStatus, Effect, Event, ExitClass, Incarnation, Intensity, Policy,
    RestartType, Shutdown, Spec, Strategy,
};

pub const MS: Duration = Duration::from_millis(1);
pub const GRACE: Shutdown = Shutdown::Grace(Duration::from_secs(5));
/// A child is healthy after this long.
pub const HEALTHY: Duration = Duration::from_secs(10);

/// A permanent child that waits 100 ms, 200 ms, … 1.6 s.
pub fn child(id: u32) -> ChildSpec<u32> {
    child_of(id, RestartType::Permanent)
}

pub fn child_of(id: u32, restart: RestartType) -> ChildSpec<u32> {
    ChildSpec::new(id, restart, GRACE).backoff(Backoff::new(100 * MS, 1_600 * MS).unwrap(), HEALTHY)
}

/// More restarts than any test here needs.
pub fn plenty() -> Intensity {
    Intensity::new(1_000, MS).unwrap()
}

pub fn spec(strategy: Strategy, intensity: Intensity, children: impl IntoIterator<Item = u32>) -> Spec<u32> {
    Spec::new(strategy, intensity, AutoShutdown::Never, children.into_iter().map(child).collect()).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Starting,
    Up,
    Stopping,
}

pub struct Rig {
    pub policy: Policy<u32>,
    pub now: Instant,
    pub began: Instant,
    /// What the next waits are drawn with.
    pub unit: f64,
    pub lives: BTreeMap<u32, (Incarnation, Life)>,
    pub timers: BTreeMap<u32, (Incarnation, Instant)>,
    /// Every start: when, of which child.
    pub starts: Vec<(Instant, u32)>,
    pub waits: Vec<Duration>,
    /// All that was ever said, for saying it again.
    pub said: Vec<Event<u32>>,
    pub over: bool,
    log: Vec<String>,
    strategy: Strategy,
    numbers: BTreeSet<Incarnation>,
    newest: BTreeMap<u32, Incarnation>,
    /// Stopped or removed by request: these stay down.
    held_down: BTreeSet<u32>,
    doomed: bool,
    /// The child the present event asks to stop.
    asked: Option<u32>,
}

impl Rig {
    pub fn new(spec: Spec<u32>, strategy: Strategy) -> Self {
        let now = Instant::now();
        let (policy, effects) = Policy::new(spec, now);
        let mut rig = Self {
            policy,
            now,
            began: now,
            unit: 1.0,
            lives: BTreeMap::new(),
            timers: BTreeMap::new(),
            starts: Vec::new(),
            waits: Vec::new(),
            said: Vec::new(),
            over: false,
            log: Vec::new(),
            strategy,
            numbers: BTreeSet::new(),
            newest: BTreeMap::new(),
            held_down: BTreeSet::new(),
            doomed: false,
            asked: None,
        };
        rig.absorb(effects);
        rig
    }

    /// With all its children up.
    pub fn up(spec: Spec<u32>, strategy: Strategy) -> Self {
        let mut rig = Self::new(spec, strategy);
        rig.settle();
        rig.log();
        rig.starts.clear();
        rig
    }

    /// What was wanted since last asked.
    pub fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    pub fn send(&mut self, event: Event<u32>) {
        self.asked = match &event {
            Event::StopAsked(id) | Event::RemoveAsked(id) => {
                self.held_down.extend(self.policy.status(id).map(|_| *id));
                Some(*id)
            }
            Event::StartAsked(id) => {
                self.held_down.remove(id);
                None
            }
            _ => None,
        };
        self.doomed |= event == Event::StopAll;
        let unit = self.unit;
        let effects = self.policy.step(event.clone(), self.now, &mut || unit);
        self.said.push(event);
        assert!(!self.over || effects.is_empty(), "after its end: {effects:?}");
        self.absorb(effects);
    }

    pub fn add(&mut self, child: ChildSpec<u32>) {
        let id = *child.id();
        if let Ok(effects) = self.policy.add(child, self.now) {
            assert!(!self.doomed, "added while stopping");
            self.held_down.remove(&id);
            self.absorb(effects);
        }
    }

    pub fn started(&mut self, child: u32) {
        let (incarnation, life) = self.lives[&child];
        if life == Life::Starting {
            self.lives.insert(child, (incarnation, Life::Up));
        }
        self.send(Event::Started { child, incarnation });
    }

    pub fn start_failed(&mut self, child: u32, class: ExitClass) {
        let (incarnation, _) = self.lives.remove(&child).unwrap();
        self.send(Event::StartFailed { child, incarnation, class });
    }

    pub fn exited(&mut self, child: u32, class: ExitClass) {
        let (incarnation, _) = self.lives.remove(&child).unwrap();
        self.send(Event::Exited { child, incarnation, class });
    }

    pub fn stopped(&mut self, child: u32) {
        let (incarnation, _) = self.lives.remove(&child).unwrap();
        self.send(Event::Stopped { child, incarnation });
    }

    /// The clock moves to where that child's timer runs out.
    pub fn elapse(&mut self, child: u32) {
        let (incarnation, at) = self.timers.remove(&child).unwrap();
        self.now = self.now.max(at);
        self.send(Event::BackoffElapsed { child, incarnation });
    }

    pub fn first_timer(&self) -> Option<u32> {
        self.timers.iter().min_by_key(|(_, (_, at))| *at).map(|(&id, _)| id)
    }

    /// One thing that is due goes well: a stop, a start, else the next timer. False: nothing is due.
    pub fn go_well(&mut self) -> bool {
        let of = |life| self.lives.iter().find(|(_, l)| l.1 == life).map(|(&id, _)| id);
        if let Some(id) = of(Life::Stopping) {
            self.stopped(id);
        } else if let Some(id) = of(Life::Starting) {
            self.started(id);
        } else if let Some(id) = self.first_timer() {
            self.elapse(id);
        } else {
            return false;
        }
        true
    }

    /// All goes well until nothing is due.
    pub fn settle(&mut self) {
        while self.go_well() {}
    }

    /// The children that are up.
    pub fn running(&self) -> Vec<u32> {
        self.lives.iter().filter(|(_, l)| l.1 == Life::Up).map(|(&id, _)| id).collect()
    }

    fn absorb(&mut self, effects: Vec<Effect<u32>>) {
        for effect in effects {
            assert!(!self.over, "after its end: {effect:?}");
            match effect {
                Effect::Start { child, incarnation } => self.check_start(child, incarnation),
                Effect::Stop { child, incarnation, .. } => self.check_stop(child, incarnation),
                Effect::StartTimer { child, incarnation, after } => {
                    assert!(!self.doomed, "a timer while stopping");
                    assert!(self.timers.insert(child, (incarnation, self.now + after)).is_none(), "two timers");
                    self.waits.push(after);
                    self.log.push(format!("timer {child}"));
                }
                Effect::CancelTimer { child, incarnation } => {
                    let timer = self.timers.remove(&child).expect("a timer to cancel");
                    assert_eq!(timer.0, incarnation);
                    self.log.push(format!("cancel {child}"));
                }
                Effect::Ended { child } => {
                    assert!(!self.lives.contains_key(&child) && !self.timers.contains_key(&child));
                    self.log.push(format!("ended {child}"));
                }
                Effect::Removed { child } => {
                    assert!(!self.lives.contains_key(&child) && !self.timers.contains_key(&child));
                    self.log.push(format!("removed {child}"));
                }
                Effect::Escalate { child, why, .. } => {
                    self.doomed = true;
                    self.log.push(format!("escalate {child} {why:?}"));
                }
                Effect::ShutdownSelf { why } => {
                    assert!(self.lives.is_empty() && self.timers.is_empty(), "something is left: {:?}", self.lives);
                    self.over = true;
                    self.log.push(format!("shutdown {why:?}"));
                }
            }
        }
        self.doomed |= self.policy.is_stopping();
    }

    fn check_start(&mut self, child: u32, incarnation: Incarnation) {
        assert!(!self.doomed, "started while stopping");
        assert!(!self.lives.contains_key(&child), "two incarnations of {child} at once");
        assert!(!self.timers.contains_key(&child), "started before its wait was over");
        assert!(!self.held_down.contains(&child), "{child} was stopped and came back");
        assert!(self.numbers.insert(incarnation), "an incarnation's number came twice");
        assert!(self.newest.insert(child, incarnation) < Some(incarnation), "incarnations out of order");
        if self.strategy != Strategy::OneForOne {
            assert!(self.lives.values().all(|l| l.1 != Life::Stopping), "started before the last was gone");
            for (&earlier, status) in self.policy.children().take_while(|(id, _)| **id != child) {
                let up = self.lives.get(&earlier).is_some_and(|l| l.1 == Life::Up);
                let down_for_good = !self.lives.contains_key(&earlier) && status == ChildStatus::Ended;
                assert!(up || down_for_good, "{child} was started before {earlier}");
            }
        }
        self.lives.insert(child, (incarnation, Life::Starting));
        self.starts.push((self.now, child));
        self.log.push(format!("start {child}"));
    }

    fn check_stop(&mut self, child: u32, incarnation: Incarnation) {
        let (live, life) = self.lives.insert(child, (incarnation, Life::Stopping)).expect("a child to stop");
        assert_eq!(live, incarnation);
        assert_ne!(life, Life::Stopping, "told to stop twice");
        if self.asked != Some(child) {
            let later = self.policy.children().skip_while(|(id, _)| **id != child).skip(1);
            for (later, _) in later {
                assert!(!self.lives.contains_key(later), "{child} was told to stop before {later} was gone");
            }
        }
        self.log.push(format!("stop {child}"));
    }
}
