//! The contract, case by case.

use std::time::Duration;

use treeward::supervision::{
    AutoShutdown, Backoff, ChildSpec, ChildStatus, Event, ExitClass, Intensity, RestartType, Shutdown, Spec, SpecError,
    Strategy,
};

use super::rig::{GRACE, HEALTHY, MS, Rig, child, child_of, plenty, spec};

const NO_WAIT: Duration = Duration::ZERO;

fn with(auto: AutoShutdown, strategy: Strategy, children: Vec<ChildSpec<u32>>) -> Rig {
    Rig::up(Spec::new(strategy, plenty(), auto, children).unwrap(), strategy)
}

fn three(strategy: Strategy) -> Rig {
    Rig::up(spec(strategy, plenty(), 0..3), strategy)
}

fn significant(id: u32, restart: RestartType) -> ChildSpec<u32> {
    child_of(id, restart).significant().unwrap()
}

// Start and stop.

#[test]
fn children_start_in_order_each_when_the_one_before_is_up() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
        let mut rig = Rig::new(spec(strategy, plenty(), 0..3), strategy);
        assert_eq!(rig.log(), ["start 0"]);
        rig.started(0);
        assert_eq!(rig.log(), ["start 1"]);
        rig.started(1);
        rig.started(2);
        assert_eq!(rig.log(), ["start 2"]);
    }
}

#[test]
fn children_stop_in_reverse_each_when_the_one_after_is_gone() {
    let mut rig = three(Strategy::OneForOne);
    rig.send(Event::StopAll);
    assert_eq!(rig.log(), ["stop 2"]);
    rig.stopped(2);
    assert_eq!(rig.log(), ["ended 2", "stop 1"]);
    // One that ends by itself meanwhile is not told to.
    rig.exited(0, ExitClass::Panic);
    assert_eq!(rig.log(), ["ended 0"]);
    rig.stopped(1);
    assert_eq!(rig.log(), ["ended 1", "shutdown Asked"]);
}

#[test]
fn children_that_know_nothing_of_each_other_can_stop_at_once() {
    let spec = spec(Strategy::OneForOne, plenty(), 0..3).stop_at_once().unwrap();
    let mut rig = Rig::new(spec, Strategy::OneForOne);
    rig.settle();
    rig.log();
    let effects = rig.policy.step(Event::StopAll, rig.now, &mut || 0.0);
    let stops = effects.iter().filter(|e| matches!(e, treeward::supervision::Effect::Stop { .. })).count();
    assert_eq!((effects.len(), stops), (3, 3));
}

#[test]
fn a_stop_in_the_middle_of_the_first_start_stops_what_had_begun_and_starts_nothing_more() {
    let mut rig = Rig::new(spec(Strategy::OneForOne, plenty(), 0..3), Strategy::OneForOne);
    rig.started(0);
    rig.log();
    rig.send(Event::StopAll);
    assert_eq!(rig.log(), ["stop 1"], "not up yet, and stopped all the same");
    rig.started(1);
    assert_eq!(rig.log(), [""; 0], "that it came up after all changes nothing");
    rig.stopped(1);
    rig.stopped(0);
    assert_eq!(rig.log(), ["ended 1", "stop 0", "ended 0", "shutdown Asked"]);
}

#[test]
fn a_supervisor_without_children_stops_at_once() {
    let mut rig = Rig::new(spec(Strategy::OneForAll, plenty(), []), Strategy::OneForAll);
    rig.send(Event::StopAll);
    assert_eq!(rig.log(), ["shutdown Asked"]);
}

#[test]
fn a_start_that_fails_is_tried_again_before_those_after_it() {
    let mut rig = Rig::new(spec(Strategy::OneForOne, plenty(), 0..2), Strategy::OneForOne);
    rig.start_failed(0, ExitClass::Retryable);
    assert_eq!(rig.log(), ["start 0", "timer 0"]);
    rig.elapse(0);
    rig.started(0);
    assert_eq!(rig.log(), ["start 0", "start 1"]);
}

#[test]
fn each_child_is_stopped_the_way_its_spec_says() {
    use treeward::supervision::Effect;
    let children = vec![child(0), ChildSpec::new(1, RestartType::Permanent, Shutdown::Brutal)];
    let spec = Spec::new(Strategy::OneForOne, plenty(), AutoShutdown::Never, children).unwrap();
    let mut rig = Rig::new(spec, Strategy::OneForOne);
    rig.settle();
    let ask = |rig: &mut Rig, id| rig.policy.step(Event::StopAsked(id), rig.now, &mut || 0.0);
    assert!(matches!(ask(&mut rig, 0)[..], [Effect::Stop { child: 0, shutdown, .. }] if shutdown == GRACE));
    assert!(matches!(ask(&mut rig, 1)[..], [Effect::Stop { child: 1, shutdown: Shutdown::Brutal, .. }]));
}

// Which exits are followed by a restart.

#[test]
fn the_restart_type_and_the_class_decide() {
    use ExitClass::*;
    let failures = [Retryable, Stalled, OutOfMemory, Signal { number: 9 }, Trap, Panic];
    let endings = [Done, Canceled, KilledByUs];
    let after = |restart, class| {
        let mut rig = with(AutoShutdown::Never, Strategy::OneForOne, vec![child_of(0, restart)]);
        rig.exited(0, class);
        rig.log().join(", ")
    };
    for class in failures {
        assert_eq!(after(RestartType::Permanent, class), "timer 0", "{class:?}");
        assert_eq!(after(RestartType::Transient, class), "timer 0", "{class:?}");
        assert_eq!(after(RestartType::Temporary, class), "removed 0", "{class:?}");
    }
    for class in endings {
        assert_eq!(after(RestartType::Permanent, class), "timer 0", "{class:?}");
        assert_eq!(after(RestartType::Transient, class), "ended 0", "{class:?}");
        assert_eq!(after(RestartType::Temporary, class), "removed 0", "{class:?}");
    }
}

#[test]
fn what_was_refused_is_never_tried_again() {
    let after = |restart| {
        let mut rig = with(AutoShutdown::Never, Strategy::OneForOne, vec![child(0), child_of(1, restart)]);
        rig.exited(1, ExitClass::Refused);
        rig.settle();
        rig.log().join(", ")
    };
    assert_eq!(after(RestartType::Transient), "ended 1");
    assert_eq!(after(RestartType::Temporary), "removed 1");
    let permanent = "escalate 1 Refused, ended 1, stop 0, ended 0, shutdown Escalated";
    assert_eq!(after(RestartType::Permanent), permanent);
}

#[test]
fn what_was_throttled_is_parked_and_spends_no_restart() {
    let none = Intensity::new(0, 60_000 * MS).unwrap();
    let mut rig = Rig::up(spec(Strategy::OneForOne, none, [0]), Strategy::OneForOne);
    for _ in 0..50 {
        rig.exited(0, ExitClass::Throttled { lifts_ms: 7_000 });
        assert_eq!(rig.policy.status(&0), Some(ChildStatus::Backoff));
        rig.settle();
    }
    assert_eq!(rig.waits, [7_000 * MS; 50]);
    rig.log();
    rig.exited(0, ExitClass::Retryable);
    assert_eq!(rig.log(), ["escalate 0 TooManyRestarts", "ended 0", "shutdown Escalated"]);
}

#[test]
fn a_start_that_never_was_confirmed_and_exits_is_a_failed_start() {
    let mut rig = Rig::new(spec(Strategy::OneForOne, plenty(), 0..2), Strategy::OneForOne);
    rig.exited(0, ExitClass::Panic);
    assert_eq!(rig.log(), ["start 0", "timer 0"]);
}

// Strategies.

#[test]
fn one_for_one_restarts_the_one() {
    let mut rig = three(Strategy::OneForOne);
    rig.exited(1, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["timer 1", "start 1"]);
}

#[test]
fn one_for_all_stops_all_in_reverse_and_starts_all_in_order() {
    let mut rig = three(Strategy::OneForAll);
    rig.exited(1, ExitClass::Panic);
    assert_eq!(rig.log(), ["timer 1", "stop 2"]);
    rig.elapse(1);
    assert_eq!(rig.log(), [""; 0], "the wait is over and another not gone: nothing starts");
    rig.stopped(2);
    rig.stopped(0);
    assert_eq!(rig.log(), ["stop 0", "start 0"]);
    rig.settle();
    assert_eq!(rig.log(), ["start 1", "start 2"]);
}

#[test]
fn one_for_all_starts_nothing_before_the_wait_is_over() {
    let mut rig = three(Strategy::OneForAll);
    rig.exited(1, ExitClass::Panic);
    rig.stopped(2);
    rig.stopped(0);
    assert_eq!(rig.log(), ["timer 1", "stop 2", "stop 0"]);
    rig.elapse(1);
    assert_eq!(rig.log(), ["start 0"]);
}

#[test]
fn rest_for_one_restarts_the_one_and_those_after_it() {
    let mut rig = three(Strategy::RestForOne);
    rig.exited(1, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["timer 1", "stop 2", "start 1", "start 2"]);
}

#[test]
fn one_before_the_set_that_fails_in_the_middle_widens_it() {
    let mut rig = three(Strategy::RestForOne);
    rig.exited(1, ExitClass::Panic);
    rig.exited(0, ExitClass::Panic);
    assert_eq!(rig.log(), ["timer 1", "stop 2", "timer 0"]);
    rig.stopped(2);
    rig.elapse(1);
    assert_eq!(rig.log(), [""; 0], "its own wait is over, that of the one before it is not");
    rig.settle();
    assert_eq!(rig.log(), ["start 0", "start 1", "start 2"]);
}

#[test]
fn one_of_the_set_that_fails_before_its_stop_spends_no_second_restart() {
    let one = Intensity::new(1, 60_000 * MS).unwrap();
    let mut rig = Rig::up(spec(Strategy::OneForAll, one, 0..3), Strategy::OneForAll);
    rig.exited(1, ExitClass::Panic);
    rig.exited(0, ExitClass::Panic);
    rig.exited(2, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["timer 1", "stop 2", "start 0", "start 1", "start 2"]);
}

#[test]
fn a_start_that_fails_in_the_middle_of_a_restart_begins_the_restart_anew() {
    let mut rig = three(Strategy::OneForAll);
    rig.exited(2, ExitClass::Panic);
    rig.stopped(1);
    rig.stopped(0);
    rig.elapse(2);
    rig.started(0);
    rig.log();
    rig.start_failed(1, ExitClass::Retryable);
    assert_eq!(rig.log(), ["timer 1", "stop 0"]);
    rig.settle();
    assert_eq!(rig.log(), ["start 0", "start 1", "start 2"]);
}

#[test]
fn a_temporary_child_stopped_with_others_is_not_started_with_them() {
    let children = vec![child(0), child_of(1, RestartType::Temporary), child_of(2, RestartType::Transient)];
    let mut rig = with(AutoShutdown::Never, Strategy::OneForAll, children);
    rig.exited(0, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["timer 0", "stop 2", "stop 1", "removed 1", "start 0", "start 2"]);
}

#[test]
fn a_transient_child_that_had_finished_is_not_started_with_others() {
    let children = vec![child(0), child_of(1, RestartType::Transient), child_of(2, RestartType::Transient)];
    let mut rig = with(AutoShutdown::Never, Strategy::OneForAll, children);
    rig.exited(1, ExitClass::Done);
    rig.exited(0, ExitClass::Panic);
    assert_eq!(rig.log(), ["ended 1", "timer 0", "stop 2"]);
    // Nor one that finished just before its stop reached it.
    rig.exited(2, ExitClass::Done);
    rig.settle();
    assert_eq!(rig.log(), ["ended 2", "start 0"]);
}

#[test]
fn how_one_ends_that_was_told_to_stop_does_not_keep_it_from_its_restart() {
    for class in [ExitClass::KilledByUs, ExitClass::Canceled, ExitClass::Panic, ExitClass::Throttled { lifts_ms: 1 }] {
        let children = vec![child(0), child_of(1, RestartType::Transient)];
        let mut rig = with(AutoShutdown::Never, Strategy::OneForAll, children);
        rig.exited(0, ExitClass::Panic);
        rig.exited(1, class);
        rig.settle();
        assert_eq!(rig.log(), ["timer 0", "stop 1", "start 0", "start 1"], "{class:?}");
    }
}

// Intensity, escalation.

#[test]
fn a_groups_restart_counts_until_a_window_after_its_last_is_up() {
    let one = Intensity::new(1, 1_000 * MS).unwrap();
    let mut rig = Rig::up(spec(Strategy::RestForOne, one, 0..2), Strategy::RestForOne);
    rig.exited(0, ExitClass::Panic);
    rig.stopped(1);
    rig.elapse(0);
    // The first of the two takes long to come up, so the second starts long after the restart began.
    rig.now += 5_000 * MS;
    rig.started(0);
    rig.started(1);
    rig.now += 900 * MS;
    rig.log();
    rig.exited(1, ExitClass::Panic);
    assert_eq!(rig.log()[0], "escalate 1 TooManyRestarts");
}

#[test]
fn a_restart_that_never_took_place_is_spent_and_does_not_count_for_ever() {
    for strategy in [Strategy::OneForOne, Strategy::RestForOne] {
        let one = Intensity::new(1, 1_000 * MS).unwrap();
        let mut rig = Rig::up(spec(strategy, one, 0..2), strategy);
        rig.exited(1, ExitClass::Panic);
        rig.send(Event::StopAsked(1));
        rig.now += 1_001 * MS;
        rig.log();
        rig.exited(0, ExitClass::Panic);
        assert_eq!(rig.log(), ["timer 0"]);
    }
}

#[test]
fn a_crash_at_init_every_millisecond_escalates_at_exactly_the_fourth() {
    let intensity = Intensity::new(3, 5_000 * MS).unwrap();
    let child = child(0).backoff(Backoff::new(MS, MS).unwrap(), HEALTHY);
    let spec = Spec::new(Strategy::OneForOne, intensity, AutoShutdown::Never, vec![child]).unwrap();
    let mut rig = Rig::new(spec, Strategy::OneForOne);
    for failure in 1..=3 {
        rig.start_failed(0, ExitClass::Panic);
        rig.elapse(0);
        assert!(!rig.policy.is_stopping(), "at failure {failure}");
    }
    rig.log();
    rig.start_failed(0, ExitClass::Panic);
    assert_eq!(rig.log(), ["escalate 0 TooManyRestarts", "ended 0", "shutdown Escalated"]);
    assert_eq!(rig.now - rig.began, 3 * MS);
    assert_eq!(rig.starts.len(), 4);
}

#[test]
fn failures_of_different_children_count_together() {
    let intensity = Intensity::new(2, 60_000 * MS).unwrap();
    let mut rig = Rig::up(spec(Strategy::OneForOne, intensity, 0..3), Strategy::OneForOne);
    rig.exited(0, ExitClass::Panic);
    rig.exited(1, ExitClass::Panic);
    rig.log();
    rig.exited(2, ExitClass::Panic);
    let both_waiting = ["escalate 2 TooManyRestarts", "ended 2", "cancel 0", "cancel 1", "shutdown Escalated"];
    assert_eq!(rig.log(), both_waiting);
}

#[test]
fn restarts_spread_wider_than_the_window_go_on_for_ever() {
    let intensity = Intensity::new(1, 1_000 * MS).unwrap();
    let mut rig = Rig::up(spec(Strategy::OneForOne, intensity, [0]), Strategy::OneForOne);
    for _ in 0..200 {
        rig.exited(0, ExitClass::Panic);
        rig.settle();
        rig.now += 1_001 * MS;
    }
    assert_eq!(rig.running(), [0]);
}

#[test]
fn an_escalation_stops_the_others_in_reverse_and_ends() {
    let none = Intensity::new(0, MS).unwrap();
    let mut rig = Rig::up(spec(Strategy::OneForOne, none, 0..3), Strategy::OneForOne);
    rig.exited(1, ExitClass::Trap);
    rig.send(Event::StopAll);
    rig.settle();
    let expected =
        ["escalate 1 TooManyRestarts", "ended 1", "stop 2", "ended 2", "stop 0", "ended 0", "shutdown Escalated"];
    assert_eq!(rig.log(), expected);
}

// Backoff.

#[test]
fn waits_grow_and_are_not_reset_by_a_handshake() {
    let mut rig = Rig::up(spec(Strategy::OneForOne, plenty(), [0]), Strategy::OneForOne);
    for _ in 0..6 {
        // Up, and gone a moment later: the handshake succeeded every time.
        rig.now += 50 * MS;
        rig.exited(0, ExitClass::Retryable);
        rig.settle();
        assert_eq!(rig.running(), [0]);
    }
    assert_eq!(rig.waits, [100, 200, 400, 800, 1_600, 1_600].map(|ms| ms * MS));
}

#[test]
fn waits_begin_anew_after_sustained_health() {
    let mut rig = Rig::up(spec(Strategy::OneForOne, plenty(), [0]), Strategy::OneForOne);
    for up_for in [MS, HEALTHY - MS, HEALTHY, MS] {
        rig.now += up_for;
        rig.exited(0, ExitClass::Retryable);
        rig.settle();
    }
    assert_eq!(rig.waits, [100, 200, 100, 200].map(|ms| ms * MS));
}

#[test]
fn jitter_is_what_was_passed_in() {
    let mut waits = Vec::new();
    for unit in [0.0, 0.5, 1.0] {
        let mut rig = Rig::up(spec(Strategy::OneForOne, plenty(), [0]), Strategy::OneForOne);
        rig.unit = unit;
        rig.exited(0, ExitClass::Retryable);
        waits.extend(rig.waits);
    }
    assert_eq!(waits, [50 * MS, 75 * MS, 100 * MS]);
}

#[test]
fn without_a_wait_a_restart_is_at_once() {
    let child = child(0).backoff(Backoff::NONE, NO_WAIT);
    let mut rig = with(AutoShutdown::Never, Strategy::OneForOne, vec![child]);
    rig.exited(0, ExitClass::Panic);
    assert_eq!(rig.log(), ["start 0"]);
}

#[test]
fn a_quota_makes_no_wait_under_a_second_or_over_a_day() {
    let mut rig = Rig::up(spec(Strategy::OneForOne, plenty(), [0]), Strategy::OneForOne);
    for lifts_ms in [0, 1, u64::MAX] {
        rig.exited(0, ExitClass::Throttled { lifts_ms });
        rig.settle();
    }
    assert_eq!(rig.waits, [1_000 * MS, 1_000 * MS, Duration::from_secs(24 * 60 * 60)]);
}

// Asked for.

#[test]
fn a_child_asked_to_stop_stays_down_until_asked_up() {
    let mut rig = three(Strategy::OneForAll);
    rig.send(Event::StopAsked(1));
    rig.stopped(1);
    assert_eq!(rig.log(), ["stop 1", "ended 1"]);
    rig.exited(0, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["timer 0", "stop 2", "start 0", "start 2"]);
    rig.send(Event::StartAsked(1));
    assert_eq!(rig.log(), ["start 1"]);
}

#[test]
fn a_child_asked_to_stop_while_coming_up_does_not_come_up() {
    let mut rig = Rig::new(spec(Strategy::OneForOne, plenty(), 0..2), Strategy::OneForOne);
    rig.send(Event::StopAsked(0));
    rig.started(0);
    rig.exited(0, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["start 0", "stop 0", "ended 0", "start 1"]);
}

#[test]
fn children_can_be_added_and_removed_at_any_time() {
    let mut rig = three(Strategy::RestForOne);
    rig.add(child(9));
    assert_eq!(rig.log(), ["start 9"]);
    rig.started(9);
    rig.send(Event::RemoveAsked(1));
    rig.settle();
    assert_eq!(rig.log(), ["stop 1", "removed 1"]);
    rig.exited(2, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["timer 2", "stop 9", "start 2", "start 9"]);
    rig.add(child(1));
    assert_eq!(rig.policy.children().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 2, 9, 1]);
}

#[test]
fn a_removal_is_not_taken_back() {
    let mut rig = three(Strategy::OneForOne);
    rig.send(Event::RemoveAsked(1));
    rig.send(Event::StopAsked(1));
    rig.send(Event::StartAsked(1));
    rig.stopped(1);
    assert_eq!(rig.log(), ["stop 1", "removed 1"]);
    rig.send(Event::StopAsked(2));
    rig.stopped(2);
    rig.send(Event::RemoveAsked(2));
    assert_eq!(rig.log(), ["stop 2", "ended 2", "removed 2"]);
}

#[test]
fn a_child_asked_to_stop_that_is_to_stop_anyway_goes_in_its_turn() {
    let mut rig = three(Strategy::OneForAll);
    rig.exited(2, ExitClass::Panic);
    rig.send(Event::StopAsked(0));
    assert_eq!(rig.log(), ["timer 2", "stop 1"]);
    rig.settle();
    assert_eq!(rig.log(), ["stop 0", "ended 0", "start 1", "start 2"]);
}

#[test]
fn nothing_asked_for_is_started_while_stopping() {
    let mut rig = three(Strategy::OneForOne);
    rig.send(Event::StopAsked(2));
    rig.stopped(2);
    rig.send(Event::StopAll);
    rig.send(Event::StartAsked(2));
    assert_eq!(rig.policy.status(&2), Some(ChildStatus::Ended));
    rig.settle();
    assert_eq!(rig.log(), ["stop 2", "ended 2", "stop 1", "ended 1", "stop 0", "ended 0", "shutdown Asked"]);
}

#[test]
fn a_child_added_in_the_middle_of_a_restart_waits_for_its_turn() {
    let mut rig = three(Strategy::OneForAll);
    rig.exited(1, ExitClass::Panic);
    rig.log();
    rig.add(child(3));
    assert_eq!(rig.log(), [""; 0]);
    rig.settle();
    assert_eq!(rig.log(), ["stop 0", "start 0", "start 1", "start 2", "start 3"]);
}

#[test]
fn what_makes_no_sense_cannot_be_added() {
    let mut rig = three(Strategy::OneForOne);
    let mut add = |child| rig.policy.add(child, rig.now).unwrap_err();
    assert_eq!(add(child(1)), SpecError::Duplicate);
    assert_eq!(add(significant(5, RestartType::Transient)), SpecError::SignificantForNothing);
    rig.send(Event::StopAll);
    assert_eq!(rig.policy.add(child(6), rig.now).unwrap_err(), SpecError::Stopping);
}

// Significant children.

#[test]
fn the_first_significant_ending_shuts_down_where_any_is_enough() {
    let children =
        vec![child(0), significant(1, RestartType::Transient), significant(2, RestartType::Temporary), child(3)];
    let mut rig = with(AutoShutdown::AnySignificant, Strategy::OneForOne, children);
    rig.exited(1, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["timer 1", "start 1"], "a failure that is restarted is no ending");
    rig.exited(1, ExitClass::Done);
    rig.settle();
    let expected = ["ended 1", "stop 3", "ended 3", "stop 2", "removed 2", "stop 0", "ended 0"];
    assert_eq!(rig.log(), [&expected[..], &["shutdown Significant(1)"]].concat());
}

#[test]
fn the_last_significant_ending_shuts_down_where_all_are_needed() {
    let children = vec![significant(0, RestartType::Transient), significant(1, RestartType::Temporary), child(2)];
    let mut rig = with(AutoShutdown::AllSignificant, Strategy::OneForOne, children);
    rig.exited(1, ExitClass::Trap);
    assert_eq!(rig.log(), ["removed 1"]);
    rig.exited(0, ExitClass::Done);
    rig.settle();
    assert_eq!(rig.log(), ["ended 0", "stop 2", "ended 2", "shutdown Significant(0)"]);
}

#[test]
fn a_significant_child_stopped_by_request_or_with_others_does_not_shut_down() {
    let children = vec![child(0), significant(1, RestartType::Temporary), significant(2, RestartType::Transient)];
    let mut rig = with(AutoShutdown::AnySignificant, Strategy::OneForAll, children);
    rig.send(Event::StopAsked(2));
    rig.settle();
    rig.exited(0, ExitClass::Panic);
    rig.settle();
    assert_eq!(rig.log(), ["stop 2", "ended 2", "timer 0", "stop 1", "removed 1", "start 0"]);
    assert!(!rig.policy.is_stopping());
}

#[test]
fn a_significant_child_that_finishes_before_a_restarts_stop_reaches_it_shuts_down() {
    let children = vec![significant(0, RestartType::Temporary), child(1), child(2)];
    let mut rig = with(AutoShutdown::AnySignificant, Strategy::OneForAll, children);
    rig.exited(1, ExitClass::Panic);
    rig.exited(0, ExitClass::Done);
    rig.settle();
    let expected = ["timer 1", "stop 2", "removed 0", "cancel 1", "ended 2", "shutdown Significant(0)"];
    assert_eq!(rig.log(), expected);
}

// Late, doubled, unknown.

#[test]
fn reports_on_an_earlier_life_are_ignored() {
    let mut rig = three(Strategy::OneForOne);
    let (old, _) = rig.lives[&1];
    rig.exited(1, ExitClass::Panic);
    rig.settle();
    rig.log();
    let before = rig.policy.clone();
    rig.send(Event::Started { child: 1, incarnation: old });
    rig.send(Event::StartFailed { child: 1, incarnation: old, class: ExitClass::Refused });
    rig.send(Event::Exited { child: 1, incarnation: old, class: ExitClass::Panic });
    rig.send(Event::Stopped { child: 1, incarnation: old });
    rig.send(Event::BackoffElapsed { child: 1, incarnation: old });
    rig.send(Event::Exited { child: 77, incarnation: old, class: ExitClass::Panic });
    rig.send(Event::StopAsked(77));
    assert_eq!(rig.log(), [""; 0]);
    assert!(rig.policy == before);
}

#[test]
fn a_child_removed_and_added_again_is_not_mistaken_for_its_namesake() {
    let mut rig = three(Strategy::OneForOne);
    let (old, _) = rig.lives[&2];
    rig.send(Event::RemoveAsked(2));
    rig.stopped(2);
    rig.add(child(2));
    rig.log();
    rig.send(Event::Exited { child: 2, incarnation: old, class: ExitClass::Panic });
    assert_eq!(rig.log(), [""; 0]);
    assert_ne!(rig.lives[&2].0, old);
}
