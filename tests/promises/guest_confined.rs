//! What a guest was not lent it does not have.

use bytes::Bytes;
use treeward::guest::{Allowed, Confinement, Exit};

use super::guest_support::{FakeSession, Treatment, guests, nothing, run};

/// Answers with how many variables it sees and, where there are any, the first one's value.
const VARIABLES: &str = "(func $body (param i32 i32) (result i32) (local $list i32)
    (call $environment (i32.const 32))
    (if (i32.eqz (i32.load (i32.const 36))) (then (return (call $reply (i32.const 1) (i32.const 0) (i32.const 0)))))
    (if (i32.ne (i32.load (i32.const 36)) (i32.const 1)) (then (unreachable)))
    (local.set $list (i32.load (i32.const 32)))
    (call $reply (i32.const 0) (i32.load offset=8 (local.get $list)) (i32.load offset=12 (local.get $list))))";

#[tokio::test]
async fn only_named_variables_are_seen() {
    assert!(std::env::vars_os().count() > 0, "the test itself has an environment");
    let guests = guests(false);
    assert_eq!(run(&guests, VARIABLES, "", nothing()).await, Exit::Answered(Err(String::new())));
    let lent = Confinement { variables: vec![("LANG".into(), "C.UTF-8".into())], ..nothing() };
    assert_eq!(run(&guests, VARIABLES, "", lent).await, Exit::Answered(Ok("C.UTF-8".into())));
}

#[tokio::test]
async fn there_are_no_sockets() {
    // Toolchains import them unasked, so they are there to be asked for; the answer is access-denied, code 1, each time.
    let guests = guests(false);
    let sockets = Bytes::from(include_str!("../guests/sockets.wat"));
    let guest = guests.load_agent("sockets.wat", sockets, Allowed { network: true }).await.unwrap();
    let lent = Confinement { hosts: ["http://127.0.0.1:80".parse().unwrap()].into(), ..nothing() };
    let exit = guest.run(FakeSession::new(Treatment::Answer).session(), "".into(), lent, None).await;
    assert_eq!(exit, Exit::Answered(Ok("bb".into())));
}
