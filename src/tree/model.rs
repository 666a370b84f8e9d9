//! The rules of ending as an executable model, explored exhaustively.
//!
//! The real [`Delegation`], [`Life`], [`records`] and [`Fold`] are put together with mailboxes and a hostile world: at every
//! step any mailbox may be served, any timer may fire (early, late, in any order), any exit event may arrive, any agent
//! may end or trap, any actor may be killed, reports may be lost, and the whole may be stopped or lose its journal. Every
//! order of these is tried, to a bound on how many hostile things happen.
//!
//! What must hold in every state: the writer refuses nothing (so there is exactly one ending of everything, and no record
//! after it), and when the tree has ended nothing is open or reserved. And from every state the end can be reached.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use super::delegation::{Delegation, Effect, Event, StopCause};
use super::endings::{Origin, records};
use super::life::{Life, LifeEffect, LifeEvent};
use super::report::Outcome;
use crate::capsule::{Budget, Usage};
use crate::ids::{Digest, SessionPath, Strand};
use crate::journal::{AgentKind, Closing, Fold, Kind, Reporter, SCHEMA, Scope, Text, Verdict};
use crate::supervision::{ExitClass, Rerun, RestartSpec, RestartType, StopTimes};

/// Root, session `0`, session `0.0`: a chain is enough for every rule, since siblings share nothing.
const LEVELS: usize = 3;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Message {
    Report { attempt: u32, outcome: Outcome },
    Happened(Event),
    Life(LifeEvent),
    Stop { cause: StopCause, times: StopTimes },
}

/// What may happen at any time from now on, or never.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
enum Pending {
    /// The supervisor hears that the actor of this attempt is gone.
    Exit {
        attempt: u32,
        killed: bool,
    },
    /// Nothing of this attempt is left: only once that is so.
    Gone {
        attempt: u32,
    },
    Rested {
        attempt: u32,
    },
    GiveUp {
        attempt: u32,
    },
    ReportAgain,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Actor {
    alive: bool,
    attempt: u32,
    life: Life,
    /// The agent's task exists; `aborted`: it is being dropped.
    agent: bool,
    aborted: bool,
    /// Its one delegation, once it has made it; with how many it has made in all attempts.
    delegation: Option<Delegation>,
    made: u32,
    /// Something is set aside for it.
    reserved: bool,
    inbox: VecDeque<Message>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    fold: Fold,
    actors: [Actor; LEVELS],
    pending: [BTreeSet<Pending>; LEVELS],
    hostile: u32,
    stopped: bool,
    poisoned: bool,
    /// Whether a recorded ending was said to be committed after the journal failed: it must never be.
    refused: Option<String>,
}

fn spec() -> RestartSpec {
    let window = Duration::from_secs(60);
    RestartSpec::new(RestartType::Transient, 1, window, (Duration::ZERO, Duration::ZERO), Rerun::Yes).expect("a spec")
}

/// The clock of the model stands still: timers fire in any order instead.
struct Clock(Instant);

impl Clock {
    fn times(&self) -> StopTimes {
        StopTimes::within(self.0, Duration::from_secs(1), 1)
    }
}

fn child_path(level: usize, made: u32) -> SessionPath {
    // The delegation at `level` made the session at `level + 1`.
    match level {
        0 => SessionPath::root(),
        _ => SessionPath::root().child(made - 1),
    }
}

impl World {
    fn new(clock: &Clock, hostile: u32) -> Self {
        let actor = |alive| Actor {
            alive,
            attempt: 1,
            life: Life::default(),
            agent: false,
            aborted: false,
            delegation: None,
            made: 0,
            reserved: false,
            inbox: VecDeque::new(),
        };
        let mut world = Self {
            fold: Fold::default(),
            actors: [actor(true), actor(false), actor(false)],
            pending: Default::default(),
            hostile,
            stopped: false,
            poisoned: false,
            refused: None,
        };
        let started = Kind::TreeStarted { schema: SCHEMA, capsule: "model".into(), seed: 0, budget: Budget::default() };
        world.append((SessionPath::root(), 0, Strand::Tree, started));
        world.append((SessionPath::root(), 0, Strand::Tree, Kind::TaskSubmitted { task: Text::default() }));
        world.actors[0].made = 1;
        world.actors[0].delegation = Some(Delegation::new(spec()));
        world.happened(clock, 0, Event::Admitted);
        world
    }

    fn append(&mut self, (path, attempt, strand, kind): crate::journal::Event) {
        if let Err(refused) = self.fold.apply(&path, attempt, strand, &kind) {
            self.refused.get_or_insert(refused.to_string());
        }
    }

    fn origin(&self, level: usize) -> Origin {
        let actor = &self.actors[level];
        match level {
            0 => Origin::Tree,
            _ => Origin::Delegated {
                by: child_path(level - 1, self.actors[level - 1].made),
                attempt: actor.attempt,
                strand: Strand::Delegation(actor.made - 1),
            },
        }
    }

    /// The delegation of the actor at `level` takes an event, and its effects are obeyed.
    fn happened(&mut self, clock: &Clock, level: usize, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(delegation) = &mut self.actors[level].delegation else { continue };
            let effects = delegation.on(event, clock.0, 0.5);
            for effect in effects {
                self.obey(clock, level, effect, &mut events);
            }
        }
    }

    fn obey(&mut self, clock: &Clock, level: usize, effect: Effect, events: &mut VecDeque<Event>) {
        let below = level + 1;
        let path = child_path(level, self.actors[level].made);
        let delegation = self.actors[level].delegation.as_ref().expect("obeyed while it is there");
        let made = records(&self.origin(level), &path, delegation.attempt(), &effect, 100);
        made.into_iter().for_each(|event| self.append(event));
        match effect {
            Effect::Start { attempt } => {
                if attempt == 1 {
                    let kind = Kind::SessionStarted {
                        capsule: "model".into(),
                        digest: Digest::of(b""),
                        agent: AgentKind::Native,
                        lent: Vec::new(),
                        changes_world: false,
                    };
                    self.append((path.clone(), 1, Strand::Main, kind));
                    self.append((path, 1, Strand::Main, Kind::TaskStarted {}));
                }
                let child = &mut self.actors[below];
                assert!(!child.alive && !child.agent, "two incarnations at once");
                let made = if attempt == 1 { 0 } else { child.made };
                *child = Actor {
                    alive: true,
                    attempt,
                    life: Life::default(),
                    agent: true,
                    aborted: false,
                    delegation: None,
                    made,
                    reserved: false,
                    inbox: VecDeque::new(),
                };
                events.push_back(Event::Started { attempt });
            }
            Effect::Tell { cause, times } => self.send(below, Message::Stop { cause, times: times.one_level_down() }),
            Effect::GiveUpAt { attempt, .. } => self.later(level, Pending::GiveUp { attempt }),
            Effect::Rest { attempt, .. } => self.later(level, Pending::Rested { attempt }),
            Effect::Dismiss => self.kill(below, false),
            Effect::Kill => self.kill(below, true),
            Effect::ConfirmGone { attempt } => self.later(level, Pending::Gone { attempt }),
            Effect::CloseBelow { attempt, class } => {
                let closing = Closing {
                    scope: Scope::Inside,
                    verdict: Verdict::Judged,
                    class,
                    by: Reporter::Supervisor,
                    detail: None,
                };
                self.fold.close(&path, &closing).into_iter().for_each(|event| self.append(event));
                self.actors[below].made = self.fold.next_numbers(&path).0;
                self.send(level, Message::Happened(Event::Closed { attempt, changed_world: false }));
            }
            Effect::End { .. } => {
                self.pending[level].retain(|p| matches!(p, Pending::Exit { .. } | Pending::ReportAgain));
                if level > 0 {
                    self.live(clock, level, LifeEvent::Quieter);
                }
            }
            Effect::AttemptEnded { .. } | Effect::Restarted { .. } => {}
        }
    }

    /// What was set aside for the delegation comes back: its completion was taken, or nobody will take it.
    fn settle(&mut self, level: usize) {
        if std::mem::take(&mut self.actors[level].reserved) {
            let (path, attempt, strand) = self.origin(level).place();
            self.append((path, attempt, strand, Kind::BudgetSettled { spent: Usage::default(), estimated: false }));
        }
    }

    fn later(&mut self, level: usize, pending: Pending) {
        self.pending[level].insert(pending);
    }

    fn send(&mut self, level: usize, message: Message) {
        if self.actors[level].alive {
            self.actors[level].inbox.push_back(message);
        }
    }

    /// The actor at `level` ends: by force, which takes everything below it along, or dismissed.
    fn kill(&mut self, level: usize, killed: bool) {
        if !self.actors[level].alive {
            return;
        }
        let attempt = self.actors[level].attempt;
        for (at, actor) in self.actors.iter_mut().enumerate().skip(level) {
            if actor.alive {
                actor.alive = false;
                actor.aborted = actor.agent;
                actor.inbox.clear();
                actor.delegation = None;
                self.pending[at].clear();
            }
        }
        self.pending[level - 1].insert(Pending::Exit { attempt, killed });
    }

    /// The life of the session at `level` takes an event.
    fn live(&mut self, clock: &Clock, level: usize, event: LifeEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let actor = &mut self.actors[level];
            if let LifeEvent::AgentEnded { .. } = event {
                actor.agent = false;
            }
            let busy = usize::from(actor.delegation.as_ref().is_some_and(|d| d.ending().is_none()));
            for effect in actor.life.on(event, busy) {
                match effect {
                    LifeEffect::EndAgent { .. } => self.actors[level].aborted = true,
                    LifeEffect::EndCalls => {}
                    LifeEffect::StopChildren { times } => {
                        let times = times.unwrap_or_else(|| clock.times());
                        self.happened(clock, level, Event::Stop { cause: StopCause::ParentEnding, times });
                        events.push_back(LifeEvent::Quieter);
                    }
                    LifeEffect::Report { outcome } => {
                        self.pending[level].insert(Pending::ReportAgain);
                        self.settle(level);
                        let attempt = self.actors[level].attempt;
                        self.send(level - 1, Message::Report { attempt, outcome });
                    }
                }
            }
        }
    }

    fn serve(&mut self, clock: &Clock, level: usize) {
        let Some(message) = self.actors[level].inbox.pop_front() else { return };
        match message {
            Message::Report { attempt, outcome } => self.happened(clock, level, Event::Reported { attempt, outcome }),
            Message::Happened(event) => self.happened(clock, level, event),
            Message::Life(event) => self.live(clock, level, event),
            Message::Stop { cause, times } => self.live(clock, level, LifeEvent::Stop { cause, times }),
        }
    }

    fn nothing_left_below(&self, level: usize) -> bool {
        self.actors[level..].iter().all(|actor| !actor.alive && !actor.agent)
    }

    fn ended(&self) -> bool {
        self.fold.has_ended()
    }

    /// Every world that can follow this one, with what leads there.
    fn next(&self, clock: &Clock) -> Vec<(String, World)> {
        let mut next = Vec::new();
        let mut step = |name: String, change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push((name, world));
        };
        for level in 0..LEVELS {
            let actor = &self.actors[level];
            if actor.alive && !actor.inbox.is_empty() {
                step(format!("{level} takes {:?}", actor.inbox[0]), &|w| w.serve(clock, level));
            }
            if actor.agent && actor.aborted {
                step(format!("the agent of {level} is gone"), &|w| {
                    w.actors[level].agent = false;
                    let outcome = Outcome::stopped("aborted");
                    w.send(level, Message::Life(LifeEvent::AgentEnded { outcome }));
                });
            }
            for pending in &self.pending[level] {
                if actor.alive {
                    self.fire(level, pending, &mut step);
                }
            }
            if level > 0 && actor.alive && actor.agent && !actor.aborted {
                let ends = |outcome: Outcome| {
                    move |w: &mut World| {
                        w.actors[level].agent = false;
                        w.send(level, Message::Life(LifeEvent::AgentEnded { outcome: outcome.clone() }));
                        // The task is gone; what it said is still in the mailbox.
                    }
                };
                step(format!("the agent of {level} answers"), &ends(Outcome::done(Ok("x".into()))));
                if self.hostile > 0 {
                    let trap = ends(Outcome::broken(ExitClass::Trap, None, false));
                    step(format!("the agent of {level} traps"), &|w| {
                        w.hostile -= 1;
                        trap(w);
                    });
                }
                if level + 1 < LEVELS && actor.delegation.is_none() && actor.life.is_working() {
                    step(format!("{level} delegates"), &|w| w.delegate(clock, level));
                }
            }
            if self.hostile == 0 {
                continue;
            }
            if level > 0 && actor.alive {
                step(format!("the actor of {level} dies"), &|w| {
                    w.hostile -= 1;
                    w.kill(level, true);
                });
                if let Some(at) = actor.inbox.iter().position(|m| matches!(m, Message::Stop { .. })) {
                    step(format!("a stop to {level} is lost"), &|w| {
                        w.hostile -= 1;
                        w.actors[level].inbox.remove(at);
                    });
                }
            }
            if let Some(at) = actor.inbox.iter().position(|m| matches!(m, Message::Report { .. })) {
                step(format!("a report to {level} is lost"), &|w| {
                    w.hostile -= 1;
                    w.actors[level].inbox.remove(at);
                });
                step(format!("a report to {level} is doubled"), &|w| {
                    w.hostile -= 1;
                    let again = w.actors[level].inbox[at].clone();
                    w.actors[level].inbox.push_back(again);
                });
            }
            let open = actor.delegation.as_ref().is_some_and(|d| d.ending().is_none());
            if actor.alive && open && (level == 0 || actor.life.is_working()) {
                let cause = if level == 0 { StopCause::Deadline } else { StopCause::Canceled };
                step(format!("{level} stops its delegation"), &|w| {
                    w.hostile -= 1;
                    w.happened(clock, level, Event::Stop { cause, times: clock.times() });
                });
            }
        }
        if !self.poisoned && self.hostile > 0 && !self.ended() {
            step("the journal fails".into(), &|w| {
                w.hostile -= 1;
                w.poisoned = true;
                w.happened(clock, 0, Event::Stop { cause: StopCause::Journal, times: clock.times() });
            });
        }
        next
    }

    fn delegate(&mut self, clock: &Clock, level: usize) {
        self.actors[level].made += 1;
        let (by, attempt) = (child_path(level - 1, self.actors[level - 1].made), self.actors[level].attempt);
        let made = self.actors[level].made;
        let strand = Strand::Delegation(made - 1);
        let delegated = Kind::Delegated {
            child: child_path(level, made),
            capsule: "model".into(),
            task: Text::default(),
            lent: Vec::new(),
            deadline_ms: 1,
        };
        self.append((by.clone(), attempt, strand, delegated));
        self.append((
            by,
            attempt,
            strand,
            Kind::BudgetReserved { slice: Budget { tokens: Some(1), ..Budget::default() } },
        ));
        self.actors[level].reserved = true;
        self.actors[level].delegation = Some(Delegation::new(spec()));
        self.happened(clock, level, Event::Admitted);
    }

    fn fire(&self, level: usize, pending: &Pending, step: &mut impl FnMut(String, &dyn Fn(&mut World))) {
        if matches!(pending, Pending::Gone { .. }) && !self.nothing_left_below(level + 1) {
            return;
        }
        step(format!("{level}: {pending:?}"), &|w| {
            if !matches!(pending, Pending::ReportAgain) {
                w.pending[level].remove(pending);
            }
            match pending.clone() {
                // Judged behind whatever is queued already.
                Pending::Exit { attempt, killed } => {
                    let class = if killed { ExitClass::Panic } else { ExitClass::Done };
                    w.send(level, Message::Happened(Event::Exited { attempt, class, detail: None }));
                }
                Pending::Gone { attempt } => w.send(level, Message::Happened(Event::Gone { attempt })),
                Pending::Rested { attempt } => w.send(level, Message::Happened(Event::Rested { attempt })),
                Pending::GiveUp { attempt } => w.send(level, Message::Happened(Event::GiveUp { attempt })),
                Pending::ReportAgain => {
                    // Once at a time: a second copy in the mailbox changes nothing that a doubled report does not.
                    let again = Message::Life(LifeEvent::ReportAgain);
                    if w.actors[level - 1].inbox.len() < 3 && !w.actors[level].inbox.contains(&again) {
                        w.send(level, again);
                    }
                }
            }
        });
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Explores everything that can follow, and returns how many different worlds there are.
fn explore(hostile: u32) -> usize {
    let clock = Clock(Instant::now());
    let first = World::new(&clock, hostile);
    let mut ids: HashMap<u64, usize> = HashMap::from([(fingerprint(&first), 0)]);
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut came: Vec<(u32, String)> = vec![(0, String::new())];
    let mut ends = Vec::new();
    let mut queue = VecDeque::from([(0_usize, first)]);
    while let Some((id, world)) = queue.pop_front() {
        let story = |came: &[(u32, String)]| {
            let mut story = Vec::new();
            let mut at = id;
            while at != 0 {
                story.push(came[at].1.clone());
                at = came[at].0 as usize;
            }
            story.reverse();
            story.join("\n  ")
        };
        if let Some(refused) = &world.refused {
            panic!("the writer refused: {refused}\n  {}", story(&came));
        }
        if world.ended() {
            assert!(world.fold.summary().is_empty(), "open at the end: {:?}\n  {}", world.fold.summary(), story(&came));
            ends.push(id);
        }
        let next = world.next(&clock);
        assert!(world.ended() || !next.is_empty(), "stuck:\n  {}\n{world:#?}", story(&came));
        for (name, world) in next {
            let number = ids.len();
            let to = *ids.entry(fingerprint(&world)).or_insert(number);
            if to == number {
                before.push(Vec::new());
                came.push((id as u32, name));
                queue.push_back((to, world));
            }
            before[to].push(id as u32);
        }
    }
    // From everywhere the end can be reached.
    let mut reaches = vec![false; before.len()];
    let mut back: VecDeque<usize> = ends.into();
    while let Some(id) = back.pop_front() {
        if !std::mem::replace(&mut reaches[id], true) {
            back.extend(before[id].iter().map(|&from| from as usize));
        }
    }
    let lost = reaches.iter().position(|reached| !reached);
    if let Some(mut at) = lost {
        let mut story = Vec::new();
        while at != 0 {
            story.push(came[at].1.clone());
            at = came[at].0 as usize;
        }
        story.reverse();
        panic!("the end cannot be reached any more after:\n  {}", story.join("\n  "));
    }
    before.len()
}

#[test]
fn every_order_of_events_ends_everything_exactly_once() {
    let worlds = explore(2);
    println!("{worlds} worlds");
    assert!(worlds > 100_000, "only {worlds} worlds: the model has lost its hostility");
}
