//! Does what its task tells it, step by step: one guest for most tests. The steps are in the README beside it.

mod session;
mod step;
mod world;

use agent::Guest;
use agent::types::Task;
use miniserde::json::{self, Object, Value};

use session::Held;
use step::Step;

struct Script;

impl Guest for Script {
    fn run(task: Task) -> Result<String, String> {
        let steps: Vec<Step> =
            json::from_str(&task.text).map_err(|_| "the task is not a JSON list of steps, each with a `do`")?;
        let mut held = Held::default();
        let mut results = json::Array::new();
        for step in &steps {
            match perform(step, &mut held) {
                Done::Answer(answer) => return answer,
                Done::Result(result) => results.push(recorded(step, result)),
            }
        }
        Ok(json::to_string(&Value::Array(results)))
    }
}

agent::export!(Script with_types_in agent::world);

/// What a step came to.
enum Done {
    /// The session answers with this now.
    Answer(Result<String, String>),
    /// It goes on.
    Result(Result<Value, String>),
}

/// Performs a step as often as it says; the result is that of the last time, or the first that is an error.
fn perform(step: &Step, held: &mut Held) -> Done {
    let mut last = Ok(Value::Null);
    for _ in 0..step.times.unwrap_or(1) {
        match once(step, held) {
            Done::Result(Ok(value)) => last = Ok(value),
            other => return other,
        }
    }
    Done::Result(last)
}

fn once(step: &Step, held: &mut Held) -> Done {
    let text = || step.text.clone().unwrap_or_default();
    match step.what.as_str() {
        "answer" => Done::Answer(Ok(text())),
        "answer-bytes" => Done::Answer(Ok("x".repeat(step.count.unwrap_or(0) as usize))),
        "error" => Done::Answer(Err(text())),
        what => {
            let result = session::perform(what, step, held).or_else(|| world::perform(what, step));
            Done::Result(result.unwrap_or_else(|| Err(format!("there is no step `{what}`"))))
        }
    }
}

fn recorded(step: &Step, result: Result<Value, String>) -> Value {
    let (key, value) = match result {
        Ok(value) => ("ok", value),
        Err(why) => ("error", Value::String(why)),
    };
    object([("do", Value::String(step.what.clone())), (key, value)])
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut object = Object::new();
    for (key, value) in members {
        object.insert(key.to_owned(), value);
    }
    Value::Object(object)
}

fn number(number: u64) -> Value {
    Value::Number(json::Number::U64(number))
}
