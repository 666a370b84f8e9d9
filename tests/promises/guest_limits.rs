//! A guest answers, fails, traps, spins, floods or never comes back: each is one bounded exit, and no neighbour feels it.

use std::time::Duration;

use tokio::time::Instant;
use treeward::guest::{Confinement, Exit, GuestConfig, GuestFault, Guests, free_maps};
use treeward::limits::Limits;
use treeward::supervision::ExitClass;

use super::guest_support::{
    ECHO, EMIT, FakeSession, SPIN, Treatment, guests, load, load_script, nothing, run, with_seed,
};

fn crashed(exit: &Exit) -> (ExitClass, &str) {
    match exit {
        Exit::Crashed { class, detail } => (*class, detail),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_and_an_error_are_its_own_words() {
    let guests = guests(false);
    let long = "täsk ".repeat(20_000);
    assert_eq!(run(&guests, ECHO, &long, nothing()).await, Exit::Answered(Ok(long)));
    let fails = ECHO.replace("$reply (i32.const 0)", "$reply (i32.const 1)");
    assert_eq!(run(&guests, &fails, "no", nothing()).await, Exit::Answered(Err("no".into())));
}

#[tokio::test]
async fn what_it_emits_reaches_its_session() {
    let guests = guests(false);
    let fake = FakeSession::new(Treatment::Answer);
    let exit = load(&guests, EMIT).await.run(fake.session(), "hello".into(), nothing(), None).await;
    assert_eq!(exit, Exit::Answered(Ok("hello".into())));
    assert_eq!(*fake.emitted.lock().unwrap(), ["hello"]);
}

#[tokio::test]
async fn every_kind_of_trap_is_an_exit_with_its_reason() {
    let guests = guests(false);
    let cases = [
        ("(func $body (param i32 i32) (result i32) (unreachable))", "unreachable"),
        ("(func $body (param i32 i32) (result i32) (call $body (local.get 0) (local.get 1)))", "call stack exhausted"),
        ("(func $body (param i32 i32) (result i32) (i32.load (i32.const -8)))", "out of bounds"),
        ("(func $body (param i32 i32) (result i32) (i32.div_u (i32.const 1) (i32.const 0)))", "divide by zero"),
        // An answer that lies about where and what it is.
        ("(func $body (param i32 i32) (result i32) (i32.const -8))", ""),
        ("(func $body (param i32 i32) (result i32) (i32.const 17))", ""),
        ("(func $body (param i32 i32) (result i32) (call $reply (i32.const 9) (i32.const 0) (i32.const 0)))", ""),
        ("(func $body (param i32 i32) (result i32) (call $reply (i32.const 0) (i32.const 0) (i32.const -1)))", ""),
        (
            "(data (i32.const 64) \"\\ff\\fe\")
             (func $body (param i32 i32) (result i32) (call $reply (i32.const 0) (i32.const 64) (i32.const 2)))",
            "utf-8",
        ),
    ];
    for (body, reason) in cases {
        let exit = run(&guests, body, "task", nothing()).await;
        let (class, detail) = crashed(&exit);
        assert_eq!(class, ExitClass::Trap, "{body}");
        assert!(detail.contains(reason) && !detail.is_empty(), "{body}: {detail}");
        assert!(detail.len() <= 2_000);
    }
    // Nothing of it sticks to the pool.
    for _ in 0..20 {
        assert_eq!(run(&guests, ECHO, "still here", nothing()).await, Exit::Answered(Ok("still here".into())));
    }
}

#[tokio::test]
async fn memory_is_held_to_its_limit_by_name() {
    let guests = guests(false);
    let grow = "(func $body (param i32 i32) (result i32)
        (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable))";
    let exit = run(&guests, grow, "", Confinement { memory: 4 << 20, ..nothing() }).await;
    let (class, detail) = crashed(&exit);
    assert_eq!(class, ExitClass::OutOfMemory);
    assert!(detail.contains("limits.memory") && detail.contains("4194304"), "{detail}");

    // Already its first page is too much.
    let exit = run(&guests, ECHO, "", Confinement { memory: 1, ..nothing() }).await;
    assert_eq!(crashed(&exit).0, ExitClass::OutOfMemory);

    // A guest that takes a no for an answer goes on.
    let modest = "(func $body (param i32 i32) (result i32)
        (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        (call $reply (i32.const 0) (local.get 0) (local.get 1)))";
    let exit = run(&guests, modest, "fine", Confinement { memory: 4 << 20, ..nothing() }).await;
    assert_eq!(exit, Exit::Answered(Ok("fine".into())));
}

#[tokio::test]
async fn texts_beyond_their_limit_are_not_taken() {
    let guests = guests(false);
    let pages = "(drop (memory.grow (i32.const 512)))";
    // 2 MiB emitted, then 20 MiB emitted and answered: the first is above its own limit, the others above any.
    for (then, limit) in [
        ("(call $emit (i32.const 0) (i32.const 2097152)) (unreachable)", "limits.body"),
        ("(call $emit (i32.const 0) (i32.const 20971520)) (unreachable)", "limits.answer_whole"),
        ("(call $reply (i32.const 0) (i32.const 0) (i32.const 20971520))", "limits.answer_whole"),
    ] {
        let body = format!("(func $body (param i32 i32) (result i32) {pages} {then})");
        let fake = FakeSession::new(Treatment::Answer);
        let exit = load(&guests, &body).await.run(fake.session(), "".into(), nothing(), None).await;
        let (class, detail) = crashed(&exit);
        assert_eq!(class, ExitClass::Trap);
        assert!(detail.contains(limit) && !detail.contains("unreachable"), "{detail}");
        assert!(fake.emitted.lock().unwrap().is_empty());
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_spinning_guest_starves_nobody_and_dies_when_dropped() {
    let guests = guests(false);
    let spin = load(&guests, SPIN).await;
    let mut spinning = Box::pin(spin.run(FakeSession::new(Treatment::Answer).session(), "".into(), nothing(), None));
    let echo = load(&guests, ECHO).await;
    // One thread for both: the echo only gets through because the spinning guest yields.
    for round in 0..10 {
        let echo = echo.run(FakeSession::new(Treatment::Answer).session(), "hi".into(), nothing(), None);
        tokio::select! {
            biased;
            exit = &mut spinning => panic!("{round}: {exit:?}"),
            exit = echo => assert_eq!(exit, Exit::Answered(Ok("hi".into()))),
        }
    }
    // Dropped, its place is free at once: as many as there are places can be entered again and again.
    drop(spinning);
    for _ in 0..16 {
        let mut spinning =
            Box::pin(spin.run(FakeSession::new(Treatment::Answer).session(), "".into(), nothing(), None));
        assert!(futures_poll_once(&mut spinning).await);
    }
    assert_eq!(run(&guests, ECHO, "free", nothing()).await, Exit::Answered(Ok("free".into())));
}

/// Polls once; whether it is still pending.
async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())).await
}

#[tokio::test]
async fn running_time_ends_with_the_key_that_limits_it() {
    for simulated in [false, true] {
        let guests = guests(simulated);
        let exit = run(&guests, SPIN, "", Confinement { running: Duration::from_millis(50), ..nothing() }).await;
        let (class, detail) = crashed(&exit);
        assert_eq!(class, ExitClass::Trap);
        assert!(detail.contains("limits.running") && detail.contains("50ms"), "{detail}");
        assert_eq!(run(&guests, ECHO, "next", nothing()).await, Exit::Answered(Ok("next".into())));
    }
}

#[tokio::test(start_paused = true)]
async fn in_simulation_a_deadline_strikes_a_guest_that_spins() {
    let guests = guests(true);
    let spin = load(&guests, SPIN).await;
    let spinning = spin.run(FakeSession::new(Treatment::Answer).session(), "".into(), nothing(), None);
    let from = Instant::now();
    assert!(tokio::time::timeout(Duration::from_secs(5), spinning).await.is_err());
    assert_eq!(from.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn waiting_in_a_host_call_is_not_running() {
    // Twenty waits of 30 ms on a limit of 200 ms: only their sum would be too much.
    let body = "(func $body (param i32 i32) (result i32) (local $n i32)
        (loop $l
          (call $emit (local.get 0) (local.get 1))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $l (i32.lt_u (local.get $n) (i32.const 20))))
        (call $reply (i32.const 0) (local.get 0) (local.get 1)))";
    let guests = guests(false);
    let guest = load(&guests, body).await;
    tokio::task::LocalSet::new()
        .run_until(async {
            let from = Instant::now();
            let session = FakeSession::new(Treatment::After(Duration::from_millis(30))).session();
            let confinement = Confinement { running: Duration::from_millis(200), ..nothing() };
            let exit = guest.run(session, "waited".into(), confinement, None).await;
            assert_eq!(exit, Exit::Answered(Ok("waited".into())));
            assert!(from.elapsed() >= Duration::from_millis(600));
        })
        .await;
}

#[tokio::test]
async fn a_guest_whose_session_ended_is_ended() {
    let guests = guests(false);
    let session = FakeSession::new(Treatment::Gone).session();
    let exit = load(&guests, EMIT).await.run(session, "x".into(), nothing(), None).await;
    let (class, detail) = crashed(&exit);
    assert_eq!(class, ExitClass::KilledByUs);
    assert!(detail.contains("the session has ended"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn one_that_never_comes_back_holds_its_place_until_it_is_dropped() {
    let guests = guests(true);
    let guest = load(&guests, EMIT).await;
    let session = || FakeSession::new(Treatment::Silence).session();
    let mut stuck: Vec<_> = (0..8).map(|_| Box::pin(guest.run(session(), "x".into(), nothing(), None))).collect();
    for stuck in &mut stuck {
        let waited = tokio::time::timeout(Duration::from_secs(3600), stuck).await;
        assert!(waited.is_err());
    }
    // All places taken: the next is refused by name and at once, nothing hangs.
    let exit = guest.run(session(), "x".into(), nothing(), None).await;
    let Exit::Busy(busy) = exit else { panic!("{exit:?}") };
    assert_eq!(busy.limit, 8);
    assert!(busy.to_string().contains("limits.live_sessions"));
    stuck.pop();
    assert_eq!(run(&guests, ECHO, "free", nothing()).await, Exit::Answered(Ok("free".into())));
}

#[tokio::test(start_paused = true)]
async fn faults_strike_at_the_start() {
    let guests = guests(true);
    let guest = load(&guests, EMIT).await;
    let fake = FakeSession::new(Treatment::Answer);
    let exit = guest.run(fake.session(), "x".into(), nothing(), Some(GuestFault::Trap)).await;
    assert_eq!(crashed(&exit).0, ExitClass::Trap);
    let hang = guest.run(fake.session(), "x".into(), nothing(), Some(GuestFault::Hang));
    assert!(tokio::time::timeout(Duration::from_secs(3600), hang).await.is_err());
    assert!(fake.emitted.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_chance_gives_the_same_run() {
    // Secure and insecure randomness, the clocks: all in one answer.
    let body = "(func $body (param i32 i32) (result i32)
        (call $letters (i32.const 64) (call $random))
        (call $letters (i32.const 80) (call $insecure))
        (call $letters (i32.const 96) (call $clock))
        (call $wall (i32.const 32))
        (call $letters (i32.const 112) (i64.load (i32.const 32)))
        (call $reply (i32.const 0) (i32.const 64) (i32.const 64)))";
    let answer = async |seed: u64| match run(&guests(true), body, "", with_seed(seed)).await {
        Exit::Answered(Ok(text)) => text,
        other => panic!("{other:?}"),
    };
    let first = answer(1).await;
    assert_eq!(first, answer(1).await);
    let other = answer(2).await;
    assert_ne!(first[..16], other[..16]);
    assert_ne!(first[16..32], other[16..32]);
    // The simulated clock stands still and begins at its fixed moment.
    assert_eq!(first[32..], other[32..]);
    assert_eq!(first[32..48], "a".repeat(16));
    let seconds = first[48..].bytes().rev().fold(0_u64, |sum, b| sum << 4 | u64::from(b - b'a'));
    assert_eq!(seconds, 1_767_225_600);
}

#[tokio::test]
async fn a_program_that_dies_of_its_memory_says_its_last_words() {
    let guests = guests(false);
    let steps = r#"[{"do":"print","text":"about to take too much\n"},{"do":"exhaust"}]"#;
    let session = FakeSession::new(Treatment::Answer).session();
    let confinement = Confinement { memory: 8 << 20, ..nothing() };
    let exit = load_script(&guests).await.run(session, steps.into(), confinement, None).await;
    let (class, detail) = crashed(&exit);
    assert_eq!(class, ExitClass::OutOfMemory);
    assert!(detail.contains("limits.memory") && detail.ends_with("about to take too much"), "{detail}");
}

#[tokio::test]
async fn a_flood_on_the_standard_streams_is_bounded() {
    let guests = guests(false);
    let steps = format!(r#"[{{"do":"print","text":"{}","times":500}},{{"do":"trap"}}]"#, "y".repeat(20_000));
    let session = FakeSession::new(Treatment::Answer).session();
    let exit = load_script(&guests).await.run(session, steps.into(), nothing(), None).await;
    let (class, detail) = crashed(&exit);
    assert_eq!(class, ExitClass::Trap);
    assert!(detail.len() <= 2_000 && detail.contains("unreachable") && detail.ends_with("[…]"), "{detail}");
}

#[tokio::test]
async fn many_runtimes_in_one_process_share_what_the_kernel_gives() {
    // Each asks for the default ten thousand places; six times that is more maps than a process may have.
    let pools: Vec<Guests> = std::thread::scope(|scope| {
        let setup = || Guests::new(GuestConfig { cache: None, ..GuestConfig::new(Limits::default()) }).unwrap();
        let started: Vec<_> = (0..6).map(|_| scope.spawn(setup)).collect();
        started.into_iter().map(|pool| pool.join().unwrap()).collect()
    });
    assert!(free_maps() >= 2048, "{} maps are left", free_maps());
    for pool in &pools {
        assert!(pool.sizing().live >= 1);
        assert_eq!(run(pool, ECHO, "hi", nothing()).await, Exit::Answered(Ok("hi".into())));
    }
}
