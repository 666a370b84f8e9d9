//! Storms: children that come up, fail, hang and end at random times, and people who ask for things meanwhile.
//! What must always be true is asserted by the rig at every effect.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::Strategy as Generates;
use treeward::supervision::{
    AutoShutdown, Backoff, ChildSpec, ChildStatus, Event, ExitClass, Intensity, RestartType, Shutdown, Spec, Strategy,
};

use super::rig::{GRACE, HEALTHY, Life, MS, Rig};

fn strategy() -> impl Generates<Value = Strategy> {
    prop::sample::select(vec![Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne])
}

fn class() -> impl Generates<Value = ExitClass> {
    prop::sample::select(vec![
        ExitClass::Done,
        ExitClass::Canceled,
        ExitClass::Refused,
        ExitClass::Throttled { lifts_ms: 3_000 },
        ExitClass::Retryable,
        ExitClass::Stalled,
        ExitClass::OutOfMemory,
        ExitClass::Signal { number: 11 },
        ExitClass::Trap,
        ExitClass::Panic,
        ExitClass::KilledByUs,
    ])
}

fn failure() -> impl Generates<Value = ExitClass> {
    prop::sample::select(vec![ExitClass::Retryable, ExitClass::Panic, ExitClass::Stalled, ExitClass::Trap])
}

fn any_child(id: u32) -> impl Generates<Value = ChildSpec<u32>> {
    let restart = prop::sample::select(vec![RestartType::Permanent, RestartType::Transient, RestartType::Temporary]);
    (restart, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(move |(restart, brutal, waits, significant)| {
        let shutdown = if brutal { Shutdown::Brutal } else { GRACE };
        let backoff = if waits { Backoff::new(50 * MS, 800 * MS).unwrap() } else { Backoff::NONE };
        let child = ChildSpec::new(id, restart, shutdown).backoff(backoff, HEALTHY);
        if significant { child.clone().significant().unwrap_or(child) } else { child }
    })
}

fn any_spec() -> impl Generates<Value = (Strategy, Spec<u32>)> {
    let auto = prop::sample::select(vec![AutoShutdown::AnySignificant, AutoShutdown::AllSignificant]);
    let children = (1_u32..6).prop_flat_map(|n| (0..n).map(any_child).collect::<Vec<_>>());
    (strategy(), 0_u32..8, auto, children).prop_map(|(strategy, max, auto, children)| {
        let intensity = Intensity::new(max, 2_000 * MS).unwrap();
        (strategy, Spec::new(strategy, intensity, auto, children).unwrap())
    })
}

/// One thing that happens; which child it happens to is chosen among those it can happen to.
#[derive(Clone, Debug)]
enum Step {
    Started(Index),
    StartFailed(Index, ExitClass),
    Exited(Index, ExitClass),
    Stopped(Index),
    Elapsed,
    TimePasses(u32),
    /// Something said earlier is said again.
    Again(Index),
    StopAsked(u32),
    StartAsked(u32),
    RemoveAsked(u32),
    Added(ChildSpec<u32>),
    StopAll,
}

fn any_step() -> impl Generates<Value = Step> {
    prop_oneof![
        12 => any::<Index>().prop_map(Step::Started),
        3 => (any::<Index>(), class()).prop_map(|(i, class)| Step::StartFailed(i, class)),
        8 => (any::<Index>(), class()).prop_map(|(i, class)| Step::Exited(i, class)),
        8 => any::<Index>().prop_map(Step::Stopped),
        8 => Just(Step::Elapsed),
        4 => (0_u32..15_000).prop_map(Step::TimePasses),
        4 => any::<Index>().prop_map(Step::Again),
        2 => (0_u32..8).prop_map(Step::StopAsked),
        2 => (0_u32..8).prop_map(Step::StartAsked),
        1 => (0_u32..8).prop_map(Step::RemoveAsked),
        2 => (0_u32..8).prop_flat_map(any_child).prop_map(Step::Added),
        1 => prop::bool::weighted(0.05).prop_map(|stop| if stop { Step::StopAll } else { Step::Elapsed }),
    ]
}

fn pick(rig: &Rig, index: &Index, can: impl Fn(Life) -> bool) -> Option<u32> {
    let able: Vec<u32> = rig.lives.iter().filter(|(_, l)| can(l.1)).map(|(&id, _)| id).collect();
    (!able.is_empty()).then(|| *index.get(&able))
}

fn happen(rig: &mut Rig, step: Step) {
    match step {
        // Also one that was told to stop may first report that it is up.
        Step::Started(i) => {
            if let Some(id) = pick(rig, &i, |life| life != Life::Up) {
                rig.started(id);
            }
        }
        Step::StartFailed(i, class) => {
            if let Some(id) = pick(rig, &i, |life| life == Life::Starting) {
                rig.start_failed(id, class);
            }
        }
        Step::Exited(i, class) => {
            if let Some(id) = pick(rig, &i, |_| true) {
                rig.exited(id, class);
            }
        }
        Step::Stopped(i) => {
            if let Some(id) = pick(rig, &i, |life| life == Life::Stopping) {
                rig.stopped(id);
            }
        }
        Step::Elapsed => {
            if let Some(id) = rig.first_timer() {
                rig.elapse(id);
            }
        }
        Step::TimePasses(ms) => rig.now += ms * MS,
        Step::Again(i) => {
            // What asks for something is a new wish when it is said again; what reports something is merely late. A
            // report on the present life is not late.
            let late: Vec<Event<u32>> = rig
                .said
                .iter()
                .filter(|event| match event {
                    Event::Started { child, incarnation }
                    | Event::StartFailed { child, incarnation, .. }
                    | Event::Exited { child, incarnation, .. }
                    | Event::Stopped { child, incarnation } => rig.lives.get(child).is_none_or(|l| l.0 != *incarnation),
                    Event::BackoffElapsed { child, incarnation } => {
                        rig.timers.get(child).is_none_or(|t| t.0 != *incarnation)
                    }
                    _ => false,
                })
                .cloned()
                .collect();
            if !late.is_empty() {
                let before = rig.policy.clone();
                rig.log();
                rig.send(i.get(&late).clone());
                assert_eq!(rig.log(), [""; 0], "a late event did something");
                assert!(rig.policy == before, "a late event changed something");
            }
        }
        Step::StopAsked(id) => rig.send(Event::StopAsked(id)),
        Step::StartAsked(id) => rig.send(Event::StartAsked(id)),
        Step::RemoveAsked(id) => rig.send(Event::RemoveAsked(id)),
        Step::Added(child) => rig.add(child),
        Step::StopAll => rig.send(Event::StopAll),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// The rig asserts: never two incarnations at once, starts in order and never before the last is gone, stops in exact
    /// reverse order, nothing stopped comes back, nothing follows the end.
    #[test]
    fn in_any_storm_the_contract_holds_and_a_stop_ends_it(
        (strategy, spec) in any_spec(), steps in prop::collection::vec(any_step(), 0..160),
    ) {
        let mut rig = Rig::new(spec, strategy);
        for step in steps {
            happen(&mut rig, step);
        }
        // Left alone it comes to rest: up, or over.
        rig.settle();
        let at_rest = rig.policy.children().all(|(id, status)| {
            status == if rig.lives.contains_key(id) { ChildStatus::Running } else { ChildStatus::Ended }
        });
        prop_assert!(rig.over || at_rest);
        rig.send(Event::StopAll);
        rig.settle();
        prop_assert!(rig.over);
    }

    /// Of one child, and under `one_for_one` of all together: no window holds more restarts than allowed.
    #[test]
    fn never_more_than_max_restarts_in_any_window(
        strategy in strategy(), max in 0_u32..5, window in 1_u32..4_000, children in 1_u32..5, unit in 0.0..1.0_f64,
        script in prop::collection::vec((any::<Index>(), failure(), 0_u32..700, any::<bool>()), 1..200),
    ) {
        let window = window * MS;
        let children: Vec<_> = (0..children).map(super::rig::child).collect();
        let firsts = children.len();
        let spec = Spec::new(strategy, Intensity::new(max, window).unwrap(), AutoShutdown::Never, children).unwrap();
        let mut rig = Rig::new(spec, strategy);
        rig.unit = unit;
        rig.settle();
        rig.starts.drain(..firsts);
        let mut failures = 0;
        for (index, class, later, well) in script {
            rig.now += later * MS;
            if well {
                rig.go_well();
            } else if let Some(id) = pick(&rig, &index, |life| life != Life::Stopping) {
                rig.exited(id, class);
                failures += 1;
            }
        }
        rig.settle();
        prop_assert!(rig.over || failures < 1 || max > 0, "with no restart allowed the first failure is the end");
        for &(from, id) in &rig.starts {
            let counted = |&&(at, of): &&(tokio::time::Instant, u32)| {
                at >= from && at - from <= window && (strategy == Strategy::OneForOne || of == id)
            };
            prop_assert!(rig.starts.iter().filter(counted).count() <= max as usize);
        }
    }

    /// The set of each strategy is what gets a new incarnation, also when another child fails in the middle of it.
    #[test]
    fn the_right_set_is_restarted_also_when_another_fails_in_the_middle(
        strategy in strategy(), n in 2_u32..7, first in any::<Index>(), second in any::<Index>(), steps in 0_usize..24,
    ) {
        let (first, second) = (first.index(n as usize) as u32, second.index(n as usize) as u32);
        let mut rig = Rig::up(super::rig::spec(strategy, super::rig::plenty(), 0..n), strategy);
        let before = rig.lives.clone();
        rig.exited(first, ExitClass::Panic);
        for _ in 0..steps {
            rig.now += MS;
            rig.go_well();
        }
        let mut failed = vec![first];
        // It may be up, coming up, or told to stop; where it is down it cannot fail.
        if rig.lives.contains_key(&second) {
            rig.exited(second, ExitClass::Trap);
            failed.push(second);
        }
        rig.settle();
        let set = |id: u32, failed: u32| match strategy {
            Strategy::OneForOne => id == failed,
            Strategy::OneForAll => true,
            Strategy::RestForOne => id >= failed,
        };
        prop_assert_eq!(rig.running(), (0..n).collect::<Vec<_>>());
        for id in 0..n {
            let restarted = rig.lives[&id].0 != before[&id].0;
            prop_assert_eq!(restarted, failed.iter().any(|&failed| set(id, failed)), "{}", id);
        }
    }

    /// In backoff, in a quota's park, or waiting for its turn: what is stopped then never comes back.
    #[test]
    fn a_child_stopped_in_backoff_never_comes_back(
        strategy in strategy(), n in 1_u32..6, failing in any::<Index>(), parked in any::<bool>(), wait in 0_u32..10_000,
        removed in any::<bool>(), others in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        let failing = failing.index(n as usize) as u32;
        let mut rig = Rig::up(super::rig::spec(strategy, super::rig::plenty(), 0..n), strategy);
        let class = if parked { ExitClass::Throttled { lifts_ms: 9_000 } } else { ExitClass::Retryable };
        rig.exited(failing, class);
        let (incarnation, _) = rig.timers[&failing];
        rig.send(if removed { Event::RemoveAsked(failing) } else { Event::StopAsked(failing) });
        prop_assert!(rig.timers.is_empty());
        rig.now += wait * MS;
        rig.send(Event::BackoffElapsed { child: failing, incarnation });
        rig.settle();
        // Nor does it come back with others that fail later.
        for other in others {
            if let Some(id) = pick(&rig, &other, |_| true) {
                rig.exited(id, ExitClass::Panic);
                rig.settle();
            }
        }
        prop_assert_eq!(rig.running(), (0..n).filter(|&id| id != failing).collect::<Vec<_>>());
        prop_assert_eq!(rig.policy.status(&failing).is_none(), removed);
    }

    /// Exactly the reverse of the order of start, whatever that was.
    #[test]
    fn all_are_stopped_in_the_exact_reverse_of_their_start(
        strategy in strategy(), n in 1_u32..30, failed in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        let mut rig = Rig::up(super::rig::spec(strategy, super::rig::plenty(), 0..n), strategy);
        for index in failed {
            let id = index.index(n as usize) as u32;
            rig.exited(id, ExitClass::Panic);
            rig.settle();
        }
        rig.log();
        rig.send(Event::StopAll);
        rig.settle();
        let stops: Vec<String> = rig.log().into_iter().filter(|line| line.starts_with("stop")).collect();
        prop_assert_eq!(stops, (0..n).rev().map(|id| format!("stop {id}")).collect::<Vec<_>>());
        prop_assert!(rig.over);
    }
}
