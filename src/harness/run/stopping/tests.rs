use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn life(interrupt: Interrupt) -> Life {
    Life::new(Graces::default(), interrupt, false)
}

fn running(interrupt: Interrupt, now: Instant) -> Life {
    let mut life = life(interrupt);
    assert_eq!(life.on(now, Happening::Spawned), []);
    life
}

fn stop(now: Instant, kill_ms: u32, done_ms: u32) -> Happening {
    Happening::Stop(StopTimes::new(now + kill_ms * MS, now + done_ms * MS, 0).unwrap())
}

/// Goes from deadline to deadline, nothing else happening: what was done, and when.
fn alone(life: &mut Life) -> Vec<(Instant, Effect)> {
    let mut done = Vec::new();
    while let Some(at) = life.deadline() {
        done.extend(life.on(at, Happening::Tick).into_iter().map(|effect| (at, effect)));
    }
    done
}

#[test]
fn an_exit_is_drained_and_buried_at_once_and_gone_when_both_are_over() {
    let now = Instant::now();
    for order in [[Happening::Drained, Happening::Buried], [Happening::Buried, Happening::Drained]] {
        let mut life = running(Interrupt::None, now);
        let effects = life.on(now, Happening::Exited(Exit::Code(0)));
        assert_eq!(effects, [Effect::Drain(now + Graces::default().drain), Effect::Bury]);
        assert_eq!(life.on(now, order[0]), []);
        assert_ne!(life.phase(), Phase::Gone);
        assert_eq!(life.on(now, order[1]), []);
        assert_eq!((life.phase(), life.exit()), (Phase::Gone, Exit::Code(0)));
    }
}

/// Complaints row 12: the kill comes at exactly its time.
#[test]
fn row_12_a_stop_interrupts_then_terminates_then_kills_at_exactly_kill_at() {
    let now = Instant::now();
    let mut life = running(Interrupt::Protocol, now);
    assert_eq!(life.on(now, stop(now, 30_000, 40_000)), [Effect::Interrupt]);
    let done = alone(&mut life);
    let kill = now + 30_000 * MS;
    let lost = kill + Graces::default().lost_exit;
    assert_eq!(
        done,
        [
            (now + 10_000 * MS, Effect::Terminate),
            (kill, Effect::Kill),
            (lost, Effect::Drain(lost + Graces::default().drain)),
            (lost, Effect::Bury),
        ]
    );
    assert_eq!(life.phase(), Phase::Burying, "gone is confirmed, never assumed");
    life.on(lost, Happening::Buried);
    assert_eq!((life.phase(), life.exit(), life.was_killed()), (Phase::Gone, Exit::ByUs, true));
}

#[test]
fn what_cannot_be_interrupted_is_terminated_at_once() {
    let now = Instant::now();
    assert_eq!(running(Interrupt::None, now).on(now, stop(now, 100, 200)), [Effect::Terminate]);
}

#[test]
fn a_stop_without_time_kills_at_once() {
    let now = Instant::now();
    for interrupt in [Interrupt::None, Interrupt::Signal] {
        assert_eq!(running(interrupt, now).on(now, stop(now, 0, 0)), [Effect::Kill]);
    }
}

#[test]
fn a_second_stop_in_the_grace_tightens_and_never_loosens() {
    let now = Instant::now();
    let mut life = running(Interrupt::Protocol, now);
    life.on(now, stop(now, 20_000, 20_000));
    assert_eq!(life.on(now + 10 * MS, stop(now, 60_000, 60_000)), []);
    assert_eq!(life.deadline(), Some(now + 10_000 * MS));
    assert_eq!(life.on(now + 20 * MS, stop(now, 20, 20)), [Effect::Kill]);
    assert!(life.was_killed());
}

/// Complaints row 6: a stop in each of its phases ends it.
#[test]
fn row_6_a_stop_in_any_phase() {
    let now = Instant::now();
    let mut starting = life(Interrupt::None);
    assert_eq!(starting.on(now, stop(now, 50, 90)), []);
    assert_eq!(starting.on(now, Happening::Spawned), [Effect::Terminate]);
    let mut lingering = running(Interrupt::Protocol, now);
    assert_eq!(lingering.on(now, Happening::Over), [Effect::CloseInput]);
    assert_eq!(lingering.on(now, stop(now, 50, 90)), [Effect::Terminate]);
    assert_eq!(alone(&mut lingering)[0], (now + 50 * MS, Effect::Kill));
    let mut draining = running(Interrupt::Protocol, now);
    draining.on(now, Happening::Exited(Exit::Code(0)));
    assert_eq!(draining.on(now, stop(now, 50, 90)), []);
    assert!(draining.deadline().is_some(), "a stopped session need not take what was read");
    assert_eq!(alone(&mut draining), []);
    assert_eq!((draining.phase(), draining.exit()), (Phase::Burying, Exit::Code(0)));
}

/// Complaints row 34: it said its result and never exits.
#[test]
fn row_34_what_lingers_is_ended() {
    let now = Instant::now();
    let mut life = running(Interrupt::Protocol, now);
    assert_eq!(life.on(now, Happening::Over), [Effect::CloseInput]);
    let effects: Vec<Effect> = alone(&mut life).into_iter().map(|(_, effect)| effect).collect();
    assert_eq!(effects[..2], [Effect::Terminate, Effect::Kill]);
    life.on(now + 10_000 * MS, Happening::Buried);
    assert_eq!(life.exit(), Exit::StillRunning);
}

/// Complaints row 38: stopped before its first instruction, it answers to nothing but SIGKILL.
#[test]
fn row_38_silence_at_the_start_is_a_failed_start() {
    let now = Instant::now();
    let mut life = Life::new(Graces::default(), Interrupt::Protocol, true);
    life.on(now, Happening::Spawned);
    let effects: Vec<Effect> = alone(&mut life).into_iter().map(|(_, effect)| effect).collect();
    assert_eq!(effects[..2], [Effect::Terminate, Effect::Kill]);
    assert!(life.failed_to_start());
    let mut greeted = Life::new(Graces::default(), Interrupt::Protocol, true);
    greeted.on(now, Happening::Spawned);
    greeted.on(now, Happening::Spoke);
    assert_eq!(greeted.deadline(), None);
}

#[test]
fn what_was_not_spawned_is_gone() {
    let now = Instant::now();
    let mut life = life(Interrupt::None);
    assert_eq!(life.on(now, Happening::NotSpawned), []);
    assert_eq!(life.phase(), Phase::Gone);
}

#[derive(Clone, Debug)]
enum Move {
    Wait(u32),
    Deadline,
    Happens(u8),
    Stop(u32, u32),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        (0_u32..5_000).prop_map(Move::Wait),
        Just(Move::Deadline),
        (0_u8..6).prop_map(Move::Happens),
        (0_u32..20_000, 0_u32..20_000).prop_map(|(kill, more)| Move::Stop(kill, more)),
    ];
    prop::collection::vec(one, 0..40)
}

proptest! {
    #[test]
    fn in_any_order_each_step_is_taken_once_and_gone_means_buried(
        moves in moves(), greets: bool,
        interrupt in prop_oneof![Just(Interrupt::None), Just(Interrupt::Protocol), Just(Interrupt::Signal)],
    ) {
        let mut now = Instant::now();
        let mut life = Life::new(Graces::default(), interrupt, greets);
        let mut seen: Vec<(Instant, Effect)> = Vec::new();
        let (mut spawned, mut exited, mut buried) = (false, false, false);
        let mut kill_at: Option<Instant> = None;
        for one in moves {
            let happening = match one {
                Move::Wait(ms) => { now += ms * MS; Happening::Tick }
                Move::Deadline => { now = life.deadline().unwrap_or(now).max(now); Happening::Tick }
                Move::Stop(kill, more) => {
                    let times = StopTimes::new(now + kill * MS, now + (kill + more) * MS, 0).unwrap();
                    kill_at = Some(kill_at.map_or(times.kill_at(), |at| at.min(times.kill_at())));
                    Happening::Stop(times)
                }
                Move::Happens(0) => { spawned = true; Happening::Spawned }
                // Nothing else can happen to what was not spawned.
                Move::Happens(_) if !spawned => Happening::Tick,
                Move::Happens(1) => { exited = true; Happening::Exited(Exit::Code(1)) }
                Move::Happens(2) => Happening::Drained,
                Move::Happens(3) if seen.iter().any(|(_, effect)| *effect == Effect::Bury) => { buried = true; Happening::Buried }
                Move::Happens(4) => Happening::Over,
                Move::Happens(_) => Happening::Spoke,
            };
            let before = life.phase();
            let effects = life.on(now, happening);
            if before == Phase::Gone {
                prop_assert_eq!(&effects, &[]);
            }
            seen.extend(effects.into_iter().map(|effect| (now, effect)));
            prop_assert_eq!(life.phase() == Phase::Gone && !buried, false);
            prop_assert!(life.deadline().is_none_or(|at| at > now));
        }
        for kind in [Effect::Interrupt, Effect::CloseInput, Effect::Terminate, Effect::Kill, Effect::Bury] {
            prop_assert!(seen.iter().filter(|(_, effect)| *effect == kind).count() <= 1, "{:?} twice", kind);
        }
        // From here on nothing happens but time: a stopped one is killed by its time, and buried soon after.
        if let (true, false, Some(kill_at)) = (spawned, exited, kill_at) {
            let rest = alone(&mut life);
            seen.extend(rest);
            let at = |wanted: Effect| seen.iter().find(|(_, effect)| *effect == wanted).map(|(at, _)| *at);
            let killed = at(Effect::Kill).expect("killed");
            prop_assert!(killed <= kill_at.max(now));
            let lost = killed + Graces::default().lost_exit;
            prop_assert!(at(Effect::Bury).expect("buried") <= lost.max(now));
        }
    }
}
