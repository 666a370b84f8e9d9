//! What a guest was not lent it does not have.

use treeward::guest::{Confinement, Exit};

use super::guest_support::{guests, nothing, run};

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
