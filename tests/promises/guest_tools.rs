//! Tools as components: described when loaded, a fresh instance for every call.

use std::time::Duration;

use bytes::Bytes;
use treeward::guest::{Allowed, ComponentError, Confinement, Exit, GuestFault, Guests, ToolComponent};
use treeward::supervision::ExitClass;

use super::guest_support::{ECHO, FakeSession, Treatment, agent, guests, nothing};

const TOOLS: &[u8] = include_bytes!("../guests/echo-tool/echo-tool.wasm");

async fn load(guests: &Guests, bytes: impl Into<Bytes>) -> Result<ToolComponent, ComponentError> {
    let session = FakeSession::new(Treatment::Answer).session();
    guests.load_tool("tools.wasm", bytes.into(), Allowed::default(), session, nothing()).await
}

async fn call(tool: &ToolComponent, name: &str, input: &str, confinement: Confinement) -> Exit {
    tool.call(FakeSession::new(Treatment::Answer).session(), name, input, confinement, None).await
}

#[tokio::test]
async fn they_say_what_they_are_and_do_it() {
    let guests = guests(false);
    let tool = load(&guests, TOOLS).await.unwrap();
    let names: Vec<&str> = tool.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.contains(&"echo") && names.contains(&"upper"), "{names:?}");
    assert_eq!(call(&tool, "echo", "as it is", nothing()).await, Exit::Answered(Ok("as it is".into())));
    assert_eq!(call(&tool, "upper", r#"{"text":"abc"}"#, nothing()).await, Exit::Answered(Ok("ABC".into())));
    assert_eq!(call(&tool, "fail", r#"{"text":"no"}"#, nothing()).await, Exit::Answered(Err("no".into())));
    assert!(matches!(call(&tool, "absent", "{}", nothing()).await, Exit::Answered(Err(_))));
}

#[tokio::test]
async fn one_that_traps_or_spins_is_one_exit() {
    let guests = guests(false);
    let tool = load(&guests, TOOLS).await.unwrap();
    assert_eq!(call(&tool, "trap", "{}", nothing()).await.class(), ExitClass::Trap);
    let exit = call(&tool, "spin", "{}", Confinement { running: Duration::from_millis(30), ..nothing() }).await;
    assert!(exit.detail().unwrap().contains("limits.running"), "{exit:?}");
    let session = FakeSession::new(Treatment::Answer).session();
    let exit = tool.call(session, "echo", "x", nothing(), Some(GuestFault::Trap)).await;
    assert_eq!(exit.class(), ExitClass::Trap);
    assert_eq!(call(&tool, "echo", "next", nothing()).await, Exit::Answered(Ok("next".into())));
}

#[tokio::test]
async fn an_agent_is_no_tool_and_a_tool_no_agent() {
    let guests = guests(false);
    let error = load(&guests, agent(ECHO)).await.unwrap_err().to_string();
    assert!(error.contains("tools.wasm") && error.contains("a tool has no session"), "{error}");
    let error = guests.load_agent("tools.wasm", Bytes::from(TOOLS), Allowed::default()).await.unwrap_err().to_string();
    assert!(error.contains("world `agent`"), "{error}");
}

#[tokio::test]
async fn a_description_that_cannot_be_used_is_refused() {
    let guests = guests(false);
    // `describe` answers with $count tools, each read from the bytes at 64: three strings.
    let tool = |count: u32, data: &str| {
        format!(
            r#"(component
              (import "treeward:agent/types@0.1.0" (instance $types
                (type $t (record (field "name" string) (field "description" string) (field "input-schema" string)))
                (export "tool-info" (type (eq $t)))))
              (alias export $types "tool-info" (type $info))
              (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
                (data (i32.const 512) "{data}")
                (data (i32.const 64) "\00\02\00\00\01\00\00\00\01\02\00\00\00\00\00\00\01\02\00\00\02\00\00\00")
                (data (i32.const 88) "\00\02\00\00\01\00\00\00\01\02\00\00\00\00\00\00\01\02\00\00\02\00\00\00")
                (func (export "describe") (result i32)
                  (i32.store (i32.const 16) (i32.const 64)) (i32.store (i32.const 20) (i32.const {count})) (i32.const 16))
                (func (export "call") (param i32 i32 i32 i32) (result i32) (unreachable)))
              (core instance $i (instantiate $m))
              (func (export "describe") (result (list $info)) (canon lift (core func $i "describe") (memory (core memory $i "memory"))))
              (func (export "call") (param "name" string) (param "input" string) (result (result string (error string)))
                (canon lift (core func $i "call") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#
        )
    };
    let loaded = load(&guests, tool(1, "a{}")).await.unwrap();
    assert_eq!((loaded.tools()[0].name.as_str(), loaded.tools()[0].input_schema.as_str()), ("a", "{}"));
    for (count, data, says) in [
        (0, "a{}", "0 tools"),
        (2, "a{}", "two tools named `a`"),
        (1, " {}", "cannot name a tool"),
        (1, "a[]", "not a JSON object"),
        (1, "a{{", "not a JSON object"),
        (1_000_000_000, "a{}", "out of bounds"),
    ] {
        let error = load(&guests, tool(count, data)).await.unwrap_err();
        assert!(matches!(error, ComponentError::Describe { .. }), "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}
