//! Sketches of drivers to come, over excerpts of what real agent CLIs wrote: the trait is shaped for a control protocol
//! (Claude Code's stream-json), a one-shot CLI (`codex exec`) and a JSON-RPC peer (`codex app-server`).

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn lines_of(name: &str, turns: bool) -> Description {
    Description {
        name: name.to_owned(),
        version_probe: vec!["--version".to_owned()],
        framing: Framing::Lines,
        interrupt: if turns { Interrupt::Protocol } else { Interrupt::Signal },
        reports: Reports { turns: true, session: true, usage: true, greets: true },
    }
}

fn usage(usage: &Value, names: [&str; 2], usd: &Value) -> Event {
    Event::Usage(UsageReport {
        input_tokens: usage[names[0]].as_u64(),
        output_tokens: usage[names[1]].as_u64(),
        micro_usd: usd.as_f64().map(|usd| (usd * 1e6) as u64),
    })
}

fn line(value: Value) -> Step {
    Step::Write(format!("{value}\n").into_bytes())
}

fn plan(argv: &[&str], input: Vec<Step>) -> Plan {
    let input = input.into_iter().filter_map(|step| match step {
        Step::Write(bytes) => Some(bytes),
        _ => None,
    });
    Plan {
        argv: argv.iter().map(ToString::to_string).collect(),
        env: BTreeMap::new(),
        files: Vec::new(),
        input: input.flatten().collect(),
        close_input: false,
    }
}

/// `text`, where it is a line of JSON; what is not is a note.
fn json_of(output: Output<'_>) -> Result<Value, Vec<Step>> {
    let Output::Line { text, .. } = output else { return Err(Vec::new()) };
    serde_json::from_str::<Value>(text).ok().filter(Value::is_object).ok_or_else(|| {
        let text = text.chars().take(200).collect();
        vec![Step::Event(Event::Note { key: "noise".to_owned(), text })]
    })
}

#[derive(Default)]
struct Claude {
    session: Option<String>,
    item: String,
    turns: Vec<Turn>,
}

impl Claude {
    fn block(&self, item: &str, block: &Value) -> Option<Event> {
        let item = item.to_owned();
        Some(match block["type"].as_str()? {
            "text" => Event::Text { item, text: text(&block["text"]) },
            "thinking" => Event::Thinking { item, text: text(&block["thinking"]) },
            "tool_use" => Event::ToolCall {
                call: text(&block["id"]),
                tool: text(&block["name"]),
                input: block["input"].to_string(),
            },
            "tool_result" => {
                let said = text(&block["content"]);
                let outcome = if block["is_error"] == true { Err(said) } else { Ok(said) };
                Event::ToolResult { call: text(&block["tool_use_id"]), outcome }
            }
            _ => return None,
        })
    }

    fn result(&mut self, value: &Value) -> Vec<Event> {
        let spent = usage(&value["usage"], ["input_tokens", "output_tokens"], &value["total_cost_usd"]);
        let message = text(value.get("result").unwrap_or(&value["errors"][0]));
        let aborted = value["terminal_reason"].as_str().is_some_and(|why| why.starts_with("aborted"));
        // `success` can come with an error: the flag decides.
        let turn = match (value["is_error"] == true, value["subtype"].as_str(), value["api_error_status"].as_u64()) {
            (false, Some("success"), _) => Turn::Ended(message),
            (_, _, Some(401 | 403)) => Turn::Failed(Failure::Auth, message),
            (_, _, Some(429)) => Turn::Failed(Failure::Quota { lifts: None }, message),
            _ if aborted => Turn::Failed(Failure::Canceled, message),
            (_, Some("error_max_turns"), _) => Turn::Failed(Failure::MaxTurns, message),
            _ => Turn::Failed(Failure::HarnessError, message),
        };
        self.turns.push(turn.clone());
        vec![spent, over(turn)]
    }
}

fn over(turn: Turn) -> Event {
    match turn {
        Turn::Ended(answer) => Event::TurnEnded { answer },
        Turn::Failed(failure, message) => Event::TurnFailed { failure, message },
    }
}

impl Driver for Claude {
    fn describe(&self) -> Description {
        lines_of("claude", true)
    }

    fn launch(&mut self, request: &Request) -> Result<Plan, LaunchError> {
        let user = json!({"type": "user", "message": {"role": "user", "content": request.task}});
        let argv = ["claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
        Ok(plan(&argv, vec![line(user)]))
    }

    fn feed(&mut self, output: Output<'_>) -> Vec<Step> {
        let value = match json_of(output) {
            Ok(value) => value,
            Err(steps) => return steps,
        };
        let events: Vec<Event> = match (value["type"].as_str(), value["subtype"].as_str()) {
            (Some("system"), Some("init")) => {
                let id = text(&value["session_id"]);
                let new = self.session.replace(id.clone()).as_ref() != Some(&id);
                new.then_some(Event::SessionStarted { id }).into_iter().collect()
            }
            (Some("system"), Some("api_retry")) => vec![Event::Retry {
                attempt: value["attempt"].as_u64().and_then(|n| u32::try_from(n).ok()),
                after: value["retry_delay_ms"].as_u64().map(std::time::Duration::from_millis),
                reason: text(&value["error"]),
            }],
            (Some("assistant" | "user"), _) => {
                let item = text(&value["message"]["id"]);
                let blocks = value["message"]["content"].as_array().cloned().unwrap_or_default();
                blocks.iter().filter_map(|block| self.block(&item, block)).collect()
            }
            (Some("stream_event"), _) => {
                let event = &value["event"];
                if event["type"] == "message_start" {
                    self.item = text(&event["message"]["id"]);
                }
                let delta = &event["delta"];
                let item = self.item.clone();
                match delta["type"].as_str() {
                    Some("text_delta") => vec![Event::TextDelta { item, text: text(&delta["text"]) }],
                    Some("thinking_delta") => vec![Event::ThinkingDelta { item, text: text(&delta["thinking"]) }],
                    _ => Vec::new(),
                }
            }
            (Some("control_request"), _) => vec![Event::PermissionAsked {
                id: text(&value["request_id"]),
                tool: text(&value["request"]["tool_name"]),
                input: value["request"]["input"].to_string(),
            }],
            (Some("result"), _) => self.result(&value),
            _ => Vec::new(),
        };
        events.into_iter().map(Step::Event).collect()
    }

    fn interrupt(&mut self) -> Vec<Step> {
        vec![line(json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}))]
    }

    fn answer(&mut self, permission: Permission) -> Vec<Step> {
        let verdict = match permission.verdict {
            Ok(()) => json!({"behavior": "allow"}),
            Err(why) => json!({"behavior": "deny", "message": why}),
        };
        let response = json!({"subtype": "success", "request_id": permission.id, "response": verdict});
        vec![line(json!({"type": "control_response", "response": response}))]
    }

    fn classify_exit(&mut self, _seen: Seen<'_>) -> Ending {
        Ending { turns: std::mem::take(&mut self.turns), notes: Vec::new() }
    }
}

/// Both ways of Codex: its items are the same, their names and envelopes are not.
#[derive(Default)]
struct Codex {
    /// Speaks JSON-RPC, with this task.
    server: Option<String>,
    thread: String,
    turn: String,
    answer: String,
    turns: Vec<Turn>,
}

impl Codex {
    fn item(&mut self, item: &Value, completed: bool) -> Option<Event> {
        let call = text(&item["id"]);
        Some(match (item["type"].as_str()?, completed) {
            ("mcp_tool_call" | "mcpToolCall", false) => {
                Event::ToolCall { call, tool: text(&item["tool"]), input: item["arguments"].to_string() }
            }
            ("mcp_tool_call" | "mcpToolCall", true) => {
                let said = text(&item["result"]["content"][0]["text"]);
                let outcome = if item["status"] == "completed" { Ok(said) } else { Err(text(&item["error"])) };
                Event::ToolResult { call, outcome }
            }
            ("agent_message" | "agentMessage", true) => {
                self.answer = text(&item["text"]);
                Event::Text { item: call, text: self.answer.clone() }
            }
            ("error", true) => Event::Note { key: "harness".to_owned(), text: text(&item["message"]) },
            _ => return None,
        })
    }

    fn failed(&mut self, message: String) -> Vec<Event> {
        let failure = if message.contains("401") { Failure::Auth } else { Failure::HarnessError };
        self.ended(Turn::Failed(failure, message))
    }

    fn ended(&mut self, turn: Turn) -> Vec<Event> {
        self.turns.push(turn.clone());
        vec![over(turn)]
    }

    fn exec(&mut self, value: &Value) -> Vec<Step> {
        let events = match value["type"].as_str() {
            Some("thread.started") => vec![Event::SessionStarted { id: text(&value["thread_id"]) }],
            Some("item.started") => self.item(&value["item"], false).into_iter().collect(),
            Some("item.completed") => self.item(&value["item"], true).into_iter().collect(),
            Some("turn.completed") => {
                let spent = usage(&value["usage"], ["input_tokens", "output_tokens"], &Value::Null);
                let answer = std::mem::take(&mut self.answer);
                [vec![spent], self.ended(Turn::Ended(answer))].concat()
            }
            Some("turn.failed") => self.failed(text(&value["error"]["message"])),
            Some("error") => {
                vec![Event::Retry { attempt: None, after: None, reason: text(&value["message"]) }]
            }
            _ => Vec::new(),
        };
        events.into_iter().map(Step::Event).collect()
    }

    fn rpc(&mut self, value: &Value, task: &str) -> Vec<Step> {
        let params = &value["params"];
        let events = match (value["method"].as_str(), value["id"].as_u64()) {
            (None, Some(1)) => {
                return vec![
                    line(json!({"method": "initialized"})),
                    line(json!({"id": 2, "method": "thread/start", "params": {"approvalPolicy": "never"}})),
                ];
            }
            (None, Some(2)) => {
                self.thread = text(&value["result"]["thread"]["id"]);
                let input = json!([{"type": "text", "text": task}]);
                let start = json!({"threadId": self.thread, "input": input});
                return vec![
                    Step::Event(Event::SessionStarted { id: self.thread.clone() }),
                    line(json!({"id": 3, "method": "turn/start", "params": start})),
                ];
            }
            (Some("turn/started"), _) => {
                self.turn = text(&params["turn"]["id"]);
                Vec::new()
            }
            (Some("item/started"), _) => self.item(&params["item"], false).into_iter().collect(),
            (Some("item/completed"), _) => self.item(&params["item"], true).into_iter().collect(),
            (Some("item/agentMessage/delta"), _) => {
                vec![Event::TextDelta { item: text(&params["itemId"]), text: text(&params["delta"]) }]
            }
            (Some("thread/tokenUsage/updated"), _) => {
                vec![usage(&params["tokenUsage"]["total"], ["inputTokens", "outputTokens"], &Value::Null)]
            }
            (Some("turn/completed"), _) => match params["turn"]["status"].as_str() {
                Some("completed") => {
                    let answer = std::mem::take(&mut self.answer);
                    self.ended(Turn::Ended(answer))
                }
                Some("interrupted") => self.ended(Turn::Failed(Failure::Canceled, "interrupted".to_owned())),
                _ => self.failed(text(&params["turn"]["error"])),
            },
            _ => Vec::new(),
        };
        events.into_iter().map(Step::Event).collect()
    }
}

impl Driver for Codex {
    fn describe(&self) -> Description {
        lines_of("codex", self.server.is_some())
    }

    fn launch(&mut self, request: &Request) -> Result<Plan, LaunchError> {
        Ok(match &mut self.server {
            Some(task) => {
                task.clone_from(&request.task);
                let initialize =
                    json!({"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "treeward"}}});
                plan(&["codex", "app-server"], vec![line(initialize)])
            }
            None => Plan { close_input: true, ..plan(&["codex", "exec", "--json", &request.task], Vec::new()) },
        })
    }

    fn feed(&mut self, output: Output<'_>) -> Vec<Step> {
        match (json_of(output), self.server.clone()) {
            (Ok(value), Some(task)) => self.rpc(&value, &task),
            (Ok(value), None) => self.exec(&value),
            (Err(steps), _) => steps,
        }
    }

    fn interrupt(&mut self) -> Vec<Step> {
        let which = json!({"threadId": self.thread, "turnId": self.turn});
        self.server.iter().map(|_| line(json!({"id": 9, "method": "turn/interrupt", "params": which}))).collect()
    }

    fn classify_exit(&mut self, _seen: Seen<'_>) -> Ending {
        Ending { turns: std::mem::take(&mut self.turns), notes: Vec::new() }
    }
}

fn drive(driver: &mut dyn Driver, transcript: &str) -> Vec<Step> {
    driver.launch(&Request { task: "go".into(), ..Request::default() }).unwrap();
    transcript.lines().flat_map(|text| driver.feed(Output::Line { text, ended: true })).collect()
}

/// The events in short: their kind and their main text.
fn told(steps: &[Step]) -> Vec<String> {
    let short = |step: &Step| match step {
        Step::Event(Event::SessionStarted { .. }) => "session".to_owned(),
        Step::Event(Event::TextDelta { text, .. }) => format!("delta {text}"),
        Step::Event(Event::Text { text, .. }) => format!("text {}", text.chars().take(12).collect::<String>()),
        Step::Event(Event::ToolCall { tool, input, .. }) => format!("call {tool} {input}"),
        Step::Event(Event::ToolResult { outcome, .. }) => format!("result {outcome:?}"),
        Step::Event(Event::PermissionAsked { tool, .. }) => format!("may I {tool}"),
        Step::Event(Event::Retry { .. }) => "retry".to_owned(),
        Step::Event(Event::Usage(usage)) => {
            format!("usage {:?} {:?} {:?}", usage.input_tokens, usage.output_tokens, usage.micro_usd)
        }
        Step::Event(Event::TurnEnded { answer }) => format!("ended {}", answer.chars().take(12).collect::<String>()),
        Step::Event(Event::TurnFailed { failure, .. }) => format!("failed {failure:?}"),
        Step::Event(Event::Note { key, .. }) => format!("note {key}"),
        Step::Write(bytes) => format!(
            "write {}",
            serde_json::from_slice::<Value>(bytes.split(|b| *b == b'\n').next().unwrap()).unwrap()["method"]
        ),
        other => format!("{other:?}"),
    };
    steps.iter().map(short).collect()
}

#[test]
fn claude_calls_a_tool_and_answers() {
    let steps = drive(&mut Claude::default(), include_str!("../../tests/data/transcripts/claude-tool.jsonl"));
    assert_eq!(
        told(&steps),
        [
            "session",
            "call mcp__bridge__ping_tool {\"text\":\"from-model\"}",
            "result Ok(\"{\\\"result\\\":\\\"pong:from-model\\\"}\")",
            "text TOOL_RESULT_",
            "usage Some(20) Some(40) Some(880)",
            "ended TOOL_RESULT_",
        ]
    );
}

#[test]
fn claude_is_interrupted_and_its_fragments_are_kept() {
    let mut driver = Claude::default();
    let steps = drive(&mut driver, include_str!("../../tests/data/transcripts/claude-interrupt.jsonl"));
    let told = told(&steps);
    assert_eq!(told[..4], ["session", "delta slow 0 ", "delta slow 1 ", "delta slow 2 "]);
    assert_eq!(told[5..], ["text slow 0 slow ", "usage Some(0) Some(0) Some(660)", "failed Canceled"]);
    assert!(matches!(&driver.interrupt()[..], [Step::Write(bytes)] if bytes.ends_with(b"\n")));
}

#[test]
fn claude_says_success_and_means_an_error() {
    let steps = drive(&mut Claude::default(), include_str!("../../tests/data/transcripts/claude-500.jsonl"));
    let told = told(&steps);
    assert_eq!(told[..2], ["session", "retry"]);
    assert_eq!(told.last().unwrap(), "failed HarnessError");
}

#[test]
fn claude_asks_for_a_permission_and_is_answered() {
    let mut driver = Claude::default();
    let steps = drive(&mut driver, include_str!("../../tests/data/transcripts/claude-permission.jsonl"));
    assert_eq!(told(&steps)[0], "may I mcp__bridge__ping_tool");
    let Step::Event(Event::PermissionAsked { id, .. }) = &steps[0] else { panic!() };
    let answer = driver.answer(Permission { id: id.clone(), verdict: Err("no".into()) });
    let [Step::Write(bytes)] = &answer[..] else { panic!() };
    let said: Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(
        (said["response"]["request_id"].as_str(), &said["response"]["response"]["behavior"]),
        (Some(id.as_str()), &json!("deny"))
    );
}

#[test]
fn codex_exec_calls_a_tool_and_answers() {
    let mut driver = Codex::default();
    let steps = drive(&mut driver, include_str!("../../tests/data/transcripts/codex-exec-tool.jsonl"));
    assert_eq!(
        told(&steps),
        [
            "session",
            "note harness",
            "call ping_tool {\"text\":\"from-model\"}",
            "result Ok(\"pong:from-model\")",
            "text TOOL_RESULT_",
            "usage Some(20) Some(10) None",
            "ended TOOL_RESULT_",
        ]
    );
    assert_eq!(driver.describe().interrupt, Interrupt::Signal);
}

#[test]
fn codex_exec_has_no_credentials() {
    let mut driver = Codex::default();
    let steps = drive(&mut driver, include_str!("../../tests/data/transcripts/codex-exec-401.jsonl"));
    assert_eq!(told(&steps), ["session", "note harness", "retry", "retry", "failed Auth"]);
    let ending = driver.classify_exit(Seen { exit: Exit::Code(1), stderr: "" });
    assert!(matches!(ending.turns[..], [Turn::Failed(Failure::Auth, _)]));
}

#[test]
fn codex_app_server_is_a_peer() {
    let mut driver = Codex { server: Some(String::new()), ..Codex::default() };
    let steps = drive(&mut driver, include_str!("../../tests/data/transcripts/codex-app-server.jsonl"));
    let told = told(&steps);
    assert_eq!(told[..4], ["write \"initialized\"", "write \"thread/start\"", "session", "write \"turn/start\""]);
    assert!(told.contains(&"call ping_tool {\"text\":\"from-model\"}".to_owned()));
    assert!(told.contains(&"result Ok(\"pong:from-model\")".to_owned()));
    assert!(told.contains(&"delta slow 1 ".to_owned()));
    assert_eq!(told.last().unwrap(), "failed Canceled");
    assert_eq!(driver.turns.len(), 2);
    let [Step::Write(bytes)] = &driver.interrupt()[..] else { panic!() };
    assert!(String::from_utf8_lossy(bytes).contains(&driver.turn));
}

proptest! {
    #[test]
    fn no_line_makes_a_driver_panic(
        lines in prop::collection::vec(prop_oneof![
            any::<String>(),
            "\\{\"(type|method|id)\":(\"(result|assistant|system|turn/completed|item/completed|item.completed)\"|[0-9]{1,3})\\}",
            "\\{\"type\":\"(assistant|result|stream_event)\",\"(message|event|usage|item)\":[\\[\\{0-9n].{0,8}",
        ], 0..20),
        server: bool,
    ) {
        let codex = Codex { server: server.then(String::new), ..Codex::default() };
        for driver in [&mut Claude::default() as &mut dyn Driver, &mut { codex }] {
            for text in &lines {
                driver.feed(Output::Line { text, ended: true });
            }
            driver.feed(Output::Skipped { len: 1 });
            driver.feed(Output::End);
            driver.classify_exit(Seen { exit: Exit::Code(0), stderr: "" });
        }
    }
}
