//! What an agent hands over is bounded before anything is made of it. Guests are held to this, and to less, on their
//! way in; a native agent can ask for anything.

use crate::agent::Call;
use crate::limits::{Limits, NAME};

/// A call that hands over more than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {bytes} bytes, {limit} is {most}")]
pub(super) struct TooLarge {
    what: &'static str,
    bytes: usize,
    limit: &'static str,
    most: usize,
}

/// Whether `call` hands over too much.
pub(super) fn too_large(call: &Call, limits: &Limits) -> Option<TooLarge> {
    let whole = limits.answer_whole;
    let text = |what, bytes| (what, bytes, "limits.answer_whole", whole);
    let name = |what, bytes| (what, bytes, "limits.name", NAME);
    let parts = match call {
        Call::Emit { text: emitted, .. } => vec![text("a text", emitted.len())],
        Call::Tool { name: tool, input, .. } => vec![name("a tool's name", tool.len()), text("an input", input.len())],
        Call::Checkpoint { label, state, .. } => vec![name("a label", label.len()), text("a state", state.len())],
        Call::Ask { question, .. } => vec![text("a question", question.text.len())],
        Call::Http { method, url, .. } => {
            vec![name("a method", method.len()), ("a URL", url.len(), "limits.field", limits.field)]
        }
        _ => return None,
    };
    let over = parts.into_iter().find(|(_, bytes, _, most)| bytes > most);
    over.map(|(what, bytes, limit, most)| TooLarge { what, bytes, limit, most })
}

/// An answer within the limits, or the error that says which it is over.
pub(super) fn within<T: AsRef<str>>(answer: T, limits: &Limits) -> Result<T, String> {
    let (bytes, most) = (answer.as_ref().len(), limits.answer_whole);
    if bytes <= most {
        return Ok(answer);
    }
    Err(format!(
        "the answer is {bytes} bytes and limits.answer_whole is {most}: write long results to a lent directory, or answer in parts"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emit(bytes: usize) -> Call {
        Call::Emit { text: "x".repeat(bytes), done: true, reply: tokio::sync::oneshot::channel().0 }
    }

    #[test]
    fn exactly_the_limit_is_taken_and_one_byte_more_is_not() {
        let limits = Limits { answer_whole: 2048, ..Limits::default() };
        assert_eq!(too_large(&emit(2048), &limits), None);
        let said = too_large(&emit(2049), &limits).unwrap().to_string();
        assert_eq!(said, "a text of 2049 bytes, limits.answer_whole is 2048");
        assert_eq!(within("x".repeat(2048), &limits).unwrap().len(), 2048);
        assert!(within("x".repeat(2049), &limits).unwrap_err().contains("limits.answer_whole is 2048"));
        let tool = |name: usize, input: usize| Call::Tool {
            name: "n".repeat(name),
            input: "i".repeat(input),
            reply: tokio::sync::oneshot::channel().0,
        };
        assert_eq!(too_large(&tool(NAME, 2048), &limits), None);
        assert!(too_large(&tool(NAME + 1, 0), &limits).is_some() && too_large(&tool(1, 2049), &limits).is_some());
    }
}
