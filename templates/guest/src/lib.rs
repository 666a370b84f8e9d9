//! A capsule's own thinking: one task, one `run`, one answer.
//!
//! `wit/treeward.wit` says what a session offers beside what is used here: delegating to other capsules and joining
//! them, the tools of the capsule, checkpoints, asking a person.

use treeward::agent::session;

wit_bindgen::generate!({ path: "wit", world: "treeward:agent/agent" });

struct Capsule;

impl Guest for Capsule {
    /// `Ok` is the answer; `Err` says why there is none. A panic is a crash: the parent is told, and goes on.
    fn run(task: Task) -> Result<String, String> {
        let text = task.text.trim();
        if text.is_empty() {
            return Err("there is nothing to do: give it a task with --task".into());
        }
        session::emit("thinking about it");
        let info = session::info();
        let words = text.split_whitespace().count();
        Ok(format!("session {} was given {words} words and may delegate {} levels down", info.path, info.depth_left))
    }
}

export!(Capsule);
