//! Tools that answer, fail, trap and spin: one component for tests. The tools are in the README beside it.

use std::hint::black_box;

use lent::Directory;

/// What wit-bindgen makes of `wit/`; its documentation is there.
#[allow(missing_docs)]
mod world {
    wit_bindgen::generate!({ path: "../../../wit", world: "treeward:agent/tool" });
}

use world::treeward::agent::types::ToolInfo;
use world::{Guest, export};

struct Echo;

export!(Echo with_types_in world);

/// Name, what it says of itself, and the JSON Schema of its input.
const TOOLS: [(&str, &str, &str); 7] = [
    ("echo", "Answers with its input.", r#"{}"#),
    ("upper", "Answers with `text` in ASCII capitals.", TEXT),
    ("fail", "Fails with `text`.", TEXT),
    ("trap", "Traps.", r#"{}"#),
    ("spin", "Never answers and never waits.", r#"{}"#),
    ("bytes", "Answers with `count` bytes.", r#"{"type":"object","properties":{"count":{"type":"integer"}}}"#),
    ("read", "Answers with the file `text` of the directory `input`.", TEXT),
];

const TEXT: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;

#[derive(miniserde::Deserialize)]
struct Input {
    text: Option<String>,
    count: Option<u64>,
}

impl Guest for Echo {
    fn describe() -> Vec<ToolInfo> {
        TOOLS
            .map(|(name, description, input_schema)| ToolInfo {
                name: name.into(),
                description: description.into(),
                input_schema: input_schema.into(),
            })
            .into()
    }

    fn call(name: String, input: String) -> Result<String, String> {
        if name == "echo" {
            return Ok(input);
        }
        let Input { text, count } = miniserde::json::from_str(&input).map_err(|_| "the input is not a JSON object")?;
        let text = text.unwrap_or_default();
        match name.as_str() {
            "upper" => Ok(text.to_ascii_uppercase()),
            "fail" => Err(text),
            "trap" => core::arch::wasm32::unreachable(),
            "spin" => loop {
                black_box(());
            },
            "bytes" => Ok("x".repeat(count.unwrap_or(0) as usize)),
            "read" => read(&text).map_err(|fault| fault.to_string()),
            _ => Err(format!("there is no tool `{name}`")),
        }
    }
}

fn read(path: &str) -> Result<String, String> {
    let input = Directory::lent("input").ok_or("no directory was lent as `input`")?;
    let bytes = input.read(path).map_err(|fault| fault.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
