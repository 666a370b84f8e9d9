//! Steps that look at the world, as far as it was lent, and steps that go wrong.

use std::hint::black_box;

use lent::{Directory, Kind};
use miniserde::json::Value;
use wasip2::cli::{environment, stderr};
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::random::{insecure, random};

use crate::step::Step;
use crate::{number, object};

type Done = Result<Value, String>;

/// Performs `what` where it is one of these steps.
pub fn perform(what: &str, step: &Step) -> Option<Done> {
    Some(match what {
        "dirs" => Ok(Value::Array(Directory::names().into_iter().map(Value::String).collect())),
        "list" => list(step),
        "read" => read(step),
        "write" => {
            let text = step.text.as_deref().unwrap_or_default();
            directory(step).and_then(|dir| {
                dir.write(path(step), text.as_bytes()).map(|()| Value::Null).map_err(|fault| fault.to_string())
            })
        }
        "env" => Ok(variables()),
        "clock" => Ok(clock()),
        "random" => {
            let count = step.count.unwrap_or(16);
            let chance = [random::get_random_bytes(count), insecure::get_insecure_random_bytes(count)];
            Ok(Value::Array(chance.iter().map(|bytes| Value::String(hex(bytes))).collect()))
        }
        "print" => print(step.text.as_deref().unwrap_or_default()),
        "sleep" => {
            let ms = step.ms.unwrap_or(0);
            monotonic_clock::subscribe_duration(ms.saturating_mul(1_000_000)).block();
            Ok(Value::Null)
        }
        "burn" => {
            let mut n = 0u64;
            (0..step.count.unwrap_or(0)).for_each(|i| n = black_box(n ^ i));
            Ok(Value::Null)
        }
        "spin" => loop {
            black_box(());
        },
        "recurse" => Ok(number(recurse(0))),
        "grow" => Ok(number(grow(step.count))),
        "exhaust" => exhaust(),
        "trap" => trap(),
        _ => return None,
    })
}

fn path(step: &Step) -> &str {
    step.path.as_deref().unwrap_or_default()
}

fn directory(step: &Step) -> Result<Directory, String> {
    let name = step.dir.as_deref().unwrap_or("input");
    Directory::lent(name).ok_or_else(|| format!("no directory was lent as `{name}`"))
}

fn list(step: &Step) -> Done {
    let entries = directory(step)?.entries().map_err(|fault| fault.to_string())?;
    Ok(Value::Array(
        entries
            .map(|entry| match entry {
                Ok(entry) => {
                    let kind = match entry.kind {
                        Kind::File => "file",
                        Kind::Directory => "directory",
                        Kind::Link => "link",
                        Kind::Special => "special",
                    };
                    object([("name", Value::String(entry.name)), ("kind", Value::String(kind.to_owned()))])
                }
                Err(fault) => object([("error", Value::String(fault.to_string()))]),
            })
            .collect(),
    ))
}

fn read(step: &Step) -> Done {
    let bytes = directory(step)?.read(path(step)).map_err(|fault| fault.to_string())?;
    Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned()))
}

fn variables() -> Value {
    let mut variables = miniserde::json::Object::new();
    for (name, value) in environment::get_environment() {
        variables.insert(name, Value::String(value));
    }
    object([
        ("variables", Value::Object(variables)),
        ("arguments", Value::Array(environment::get_arguments().into_iter().map(Value::String).collect())),
    ])
}

fn clock() -> Value {
    let wall = wall_clock::now();
    object([
        ("seconds", number(wall.seconds)),
        ("nanoseconds", number(wall.nanoseconds.into())),
        ("monotonic_ns", number(monotonic_clock::now())),
    ])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn print(text: &str) -> Done {
    let stream = stderr::get_stderr();
    // More than 4 KiB at once is refused by the interface.
    for piece in text.as_bytes().chunks(4096) {
        stream.blocking_write_and_flush(piece).map_err(|_| "the stream is closed".to_owned())?;
    }
    Ok(Value::Null)
}

/// Small frames: the host's stack for the guest ends before the guest's own, which lies in its memory.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    // Never equal; without it the compiler would make a loop of this.
    if depth == black_box(u64::MAX) { depth } else { recurse(depth + 1) ^ depth }
}

/// Takes memory page by page until there is none, or `count` pages; how many it got. It is still alive then.
fn grow(count: Option<u64>) -> u64 {
    let most = count.unwrap_or(u64::MAX);
    let mut pages = 0;
    while pages < most && core::arch::wasm32::memory_grow::<0>(1) != usize::MAX {
        pages += 1;
    }
    pages
}

/// Allocates as a program does, and dies of it as a program does.
fn exhaust() -> Done {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(black_box(vec![1; 1 << 20]));
    }
}

fn trap() -> Done {
    core::arch::wasm32::unreachable()
}
