//! `capsule.toml`, read strictly: what is not understood is refused, with its line and the nearest known key.

mod error;
mod section;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Component as Part, Path, PathBuf};
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use self::section::{Entry, Section, Source, Strings};
use super::host::Host;
use super::name::{check_name, nearest, shown};
use super::quantity::{duration, micro_usd, size};
use super::terms::{Invalid, MOST_ENTRIES, Terms};
use super::usage::Budget;
use crate::supervision::{Rerun, RestartSpec, RestartType};

pub use error::{ManifestError, Problem};

/// How many bytes a manifest may have.
pub const LONGEST_MANIFEST: usize = 1 << 20;

type Result<T> = std::result::Result<T, ManifestError>;

/// A manifest that makes sense in itself. Files and capsules it names are still only names.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub(super) terms: Terms,
    pub(super) run: RunEntry,
    pub(super) tools: BTreeMap<String, ToolEntry>,
    /// The capsules of `[capsules.NAME]`.
    pub(super) team: BTreeMap<String, Manifest>,
    lines: Lines,
}

/// What `[run]` says thinks.
#[derive(Clone, Debug)]
pub(super) enum RunEntry {
    Guest(PathBuf),
    Command(Vec<String>),
}

/// A `[tools.NAME]`.
#[derive(Clone, Debug)]
pub(super) struct ToolEntry {
    pub(super) component: PathBuf,
    pub(super) changes_world: bool,
}

/// Where keys stand, so that what only shows later can still be told with its line.
#[derive(Clone, Debug)]
struct Lines {
    file: PathBuf,
    /// `capsules.leaf.` for a capsule of an inline team.
    within: String,
    first: u32,
    of: BTreeMap<String, u32>,
}

impl Lines {
    fn put(&mut self, key: &str, line: u32) {
        self.of.insert(key.to_owned(), line);
    }

    /// Complains about `value` under `key`, which is dotted (`grants.delegate`).
    fn error(&self, key: &str, value: Option<&str>, problem: impl FnOnce(&str) -> Problem) -> ManifestError {
        let (section, last) = key.rsplit_once('.').unwrap_or(("", key));
        let exact = value.and_then(|value| self.of.get(&format!("{key}={value}")));
        let line = exact.or_else(|| self.of.get(key)).or_else(|| self.of.get(section)).copied().unwrap_or(self.first);
        let section = format!("{}{section}", self.within);
        let section = section.trim_end_matches('.').to_owned();
        ManifestError { file: self.file.clone(), line, section, problem: problem(last) }
    }
}

impl Manifest {
    /// Reads a manifest. `file` is what it is called in messages; `bytes` is all of it, or just more of it than
    /// [`LONGEST_MANIFEST`].
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self> {
        let whole_file = |line, problem| ManifestError { file: file.to_owned(), line, section: String::new(), problem };
        if bytes.len() > LONGEST_MANIFEST {
            return Err(whole_file(1, Problem::TooLong { limit: LONGEST_MANIFEST }));
        }
        let text = std::str::from_utf8(bytes).map_err(|bad| {
            let offset = bad.valid_up_to();
            let newlines = bytes[..offset].iter().filter(|byte| **byte == b'\n').count();
            whole_file(u32::try_from(newlines + 1).unwrap_or(u32::MAX), Problem::NotUtf8 { offset })
        })?;
        let source = Source::new(file, text);
        let table = DeTable::parse(text).map_err(|bad| syntax(&source, text, &bad))?;
        if table.get_ref().is_empty() {
            return Err(whole_file(1, Problem::Empty));
        }
        let root = Section::root(&source, table.into_inner());
        capsule(root, file, None)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// Complains about `value` under a dotted `key` of this manifest, at the line it stands in.
    pub(super) fn complain(&self, key: &str, value: Option<&str>, reason: impl ToString) -> ManifestError {
        let reason = reason.to_string();
        self.lines.error(key, value, |key| Problem::Value { key: key.to_owned(), reason })
    }

    pub(super) fn invalid(&self, Invalid { key, value, reason }: Invalid) -> ManifestError {
        self.complain(&key, value.as_deref(), reason)
    }
}

fn syntax(source: &Source<'_>, text: &str, bad: &toml::de::Error) -> ManifestError {
    let span = bad.span().unwrap_or(0..0);
    let mut message = bad.message().lines().collect::<Vec<_>>().join("; ");
    let at = text.get(span.clone()).map(str::trim).unwrap_or_default();
    if !at.is_empty() {
        message.push_str(&format!(" at `{}`", shown(at)));
    }
    // A complaint about the end of the file is one about its last line.
    let offset = span.start.min(text.trim_end().len());
    source.error(source.line(offset), "", Problem::Syntax { message })
}

/// One capsule: the whole file, or a `[capsules.NAME]` of it under that name.
fn capsule(mut root: Section<'_, '_>, file: &Path, inline: Option<&str>) -> Result<Manifest> {
    let within = if root.name.is_empty() { String::new() } else { format!("{}.", root.name) };
    let mut lines = Lines { file: file.to_owned(), within, first: root.line, of: BTreeMap::new() };
    let mut text = |root: &mut Section<'_, '_>, key| match root.take(key) {
        Some(entry) => {
            lines.put(key, entry.line);
            root.text(entry, "a string").map(Some)
        }
        None => Ok(None),
    };
    let name = text(&mut root, "name")?;
    let version = text(&mut root, "version")?;
    let description = text(&mut root, "description")?;
    let run = root.section("run")?;
    let grants = root.section("grants")?;
    let tools = root.section("tools")?;
    let hooks = root.take("hooks");
    let budget = root.section("budget")?;
    let limits = root.section("limits")?;
    let restart = root.section("restart")?;
    if inline.is_some()
        && let Some(nested) = root.take("capsules")
    {
        return Err(
            root.refuse(&nested, "a capsule of an inline team has no team of its own; move it up beside this one")
        );
    }
    let team = root.section("capsules")?;
    root.finish()?;

    let hint = "write the capsule's name, like `name = \"reviewer\"`";
    let name = match (name, inline) {
        (Some(name), Some(inline)) if name != inline => {
            let reason =
                format!("`{}` is not the name of its section, `{}`; leave it out", shown(&name), shown(inline));
            return Err(lines.error("name", None, |key| Problem::Value { key: key.to_owned(), reason }));
        }
        (Some(name), _) => name,
        (None, Some(inline)) => inline.to_owned(),
        (None, None) => return Err(root.error(root.line, Problem::Missing { key: "name", hint })),
    };
    let mut terms = Terms::new(name);
    terms.version = version.unwrap_or_default();
    terms.description = description.unwrap_or_default();

    let hint = "write `[run]` with `guest = \"NAME.wasm\"`, or `command = [\"PROGRAM\", …]` and `unconfined = true`";
    let run = run.ok_or_else(|| root.error(root.line, Problem::Missing { key: "run", hint }))?;
    lines.put("run", run.line);
    let run = read_run(run, &mut lines)?;
    if let Some(section) = grants {
        read_grants(section, &mut terms, &mut lines)?;
    }
    let tools = tools.map(|section| read_tools(section, &mut lines)).transpose()?.unwrap_or_default();
    if let Some(hooks) = hooks {
        let instead = "its checks cannot be carried out, so the capsule is refused rather than run without them";
        return Err(root.error(hooks.line, Problem::NotInThisVersion { key: "hooks", instead }));
    }
    if let Some(section) = budget {
        lines.put("budget", section.line);
        terms.budget = read_budget(section)?;
    }
    if let Some(section) = limits {
        read_limits(section, &mut terms, &mut lines)?;
    }
    if let Some(section) = restart {
        terms.restart = read_restart(section)?;
    }
    let team = team.map(|section| read_team(section, file, &terms.name)).transpose()?.unwrap_or_default();
    let manifest = Manifest { terms, run, tools, team, lines };
    manifest.terms.check().map_err(|invalid| manifest.invalid(invalid))?;
    Ok(manifest)
}

/// How many words a command may have, and how many bytes.
const LONGEST_COMMAND: (usize, usize) = (MOST_ENTRIES, 64 << 10);

/// `[run]`: the guest's file, or the program.
fn read_run(mut run: Section<'_, '_>, lines: &mut Lines) -> Result<RunEntry> {
    let guest = run.take("guest");
    let harness = run.take("harness");
    let command = run.take("command");
    let unconfined_at = run.line_of("unconfined");
    let unconfined = run.boolean("unconfined")?;
    let of_a_harness: Vec<Entry<'_>> = ["prompt", "model", "binary", "args", "builtin_tools", "login"]
        .into_iter()
        .filter_map(|key| run.take(key))
        .collect();
    run.finish()?;
    let there: Vec<String> =
        [&guest, &harness, &command].into_iter().flatten().map(|entry| format!("`{}`", entry.key)).collect();
    if there.len() != 1 {
        let there = if there.is_empty() { "none".to_owned() } else { there.join(" and ") };
        return Err(run.error(run.line, Problem::RunNotOne(there)));
    }
    if let Some(entry) = harness {
        let instead = "use `guest = \"NAME.wasm\"` or `command = [\"PROGRAM\", …]`";
        return Err(run.error(entry.line, Problem::NotInThisVersion { key: "harness", instead }));
    }
    if let Some(entry) = of_a_harness.iter().min_by_key(|entry| entry.line) {
        return Err(run.refuse(entry, "goes with `harness`; take it out"));
    }
    if let Some(entry) = command {
        lines.put("run.command", entry.line);
        if unconfined != Some(true) {
            let hint = "files and network of a program are not enforced here, whatever [grants] says: write \
                        `unconfined = true` to run it all the same, or use a guest";
            return Err(run.error(entry.line, Problem::Missing { key: "unconfined", hint }));
        }
        return command_line(&run, entry).map(RunEntry::Command);
    }
    if let (Some(line), Some(_)) = (unconfined_at, unconfined) {
        let reason = "a guest is always confined; take it out".to_owned();
        return Err(run.error(line, Problem::Value { key: "unconfined".to_owned(), reason }));
    }
    let hint = "write `guest = \"NAME.wasm\"`";
    let guest = guest.ok_or_else(|| run.error(run.line, Problem::Missing { key: "guest", hint }))?;
    lines.put("run.guest", guest.line);
    file_path(&run, guest).map(RunEntry::Guest)
}

/// A program and its arguments.
fn command_line(run: &Section<'_, '_>, entry: Entry<'_>) -> Result<Vec<String>> {
    const EXPECTED: &str = "a list of the program and its arguments, like [\"python3\", \"agent.py\"]";
    let DeValue::Array(values) = &entry.value else { return Err(run.wrong_type(&entry, EXPECTED)) };
    let mut argv = Vec::new();
    for value in values {
        let DeValue::String(word) = value.get_ref() else { return Err(run.wrong_type(&entry, EXPECTED)) };
        argv.push(word.to_string());
    }
    let (most, longest) = LONGEST_COMMAND;
    if argv.len() > most || argv.iter().map(String::len).sum::<usize>() > longest {
        return Err(run.refuse(&entry, format!("at most {most} words and {longest} bytes; put long texts into files")));
    }
    if argv.first().is_none_or(String::is_empty) || argv.iter().any(|word| word.contains('\0')) {
        return Err(
            run.refuse(&entry, "must name a program, and hold no NUL; write `command = [\"python3\", \"agent.py\"]`")
        );
    }
    Ok(argv)
}

/// A file of the capsule: a relative path that cannot be spelled to lead out of its directory.
fn file_path(section: &Section<'_, '_>, entry: Entry<'_>) -> Result<PathBuf> {
    let DeValue::String(text) = &entry.value else {
        return Err(section.wrong_type(&entry, "a path of a file in the capsule's directory"));
    };
    let path = Path::new(&**text);
    let plain = |part: Part<'_>| matches!(part, Part::Normal(_));
    // Control characters would reach a terminal with every message about the file.
    if text.is_empty() || text.len() > 1024 || text.contains(char::is_control) || !path.components().all(plain) {
        let reason = format!("`{}` is not a path below the capsule's directory, without `..`", shown(text));
        return Err(section.refuse(&entry, reason));
    }
    Ok(path.to_owned())
}

fn read_grants(mut section: Section<'_, '_>, terms: &mut Terms, lines: &mut Lines) -> Result<()> {
    let mut list = |section: &mut Section<'_, '_>, key: &'static str| -> Result<Vec<(String, u32)>> {
        let Some(Strings { line, of: values }) = section.strings(key, MOST_ENTRIES)? else { return Ok(Vec::new()) };
        lines.put(&format!("grants.{key}"), line);
        for (value, line) in &values {
            lines.put(&format!("grants.{key}={value}"), *line);
        }
        Ok(values)
    };
    let read = list(&mut section, "read")?;
    let write = list(&mut section, "write")?;
    let env = list(&mut section, "env")?;
    let network = list(&mut section, "network")?;
    let delegate = list(&mut section, "delegate")?;
    section.finish()?;
    let values = |list: Vec<(String, u32)>| list.into_iter().map(|(value, _)| value).collect();
    terms.grants.read = values(read);
    terms.grants.write = values(write);
    terms.grants.env = values(env);
    terms.grants.delegate = values(delegate);
    for (text, line) in network {
        let refuse = |reason: String| section.error(line, Problem::Value { key: "network".to_owned(), reason });
        let host: Host = text.parse().map_err(|bad| refuse(format!("{bad}")))?;
        lines.put(&format!("grants.network={host}"), line);
        if !terms.grants.network.insert(host) {
            return Err(refuse(format!("`{}` is there twice", shown(&text))));
        }
    }
    Ok(())
}

fn read_tools(mut section: Section<'_, '_>, lines: &mut Lines) -> Result<BTreeMap<String, ToolEntry>> {
    let entries = section.take_all();
    if entries.len() > MOST_ENTRIES {
        let reason = format!("{} tools; at most {MOST_ENTRIES}", entries.len());
        return Err(section.error(section.line, Problem::Value { key: "tools".to_owned(), reason }));
    }
    let mut tools = BTreeMap::new();
    for entry in entries {
        check_name(&entry.key).map_err(|bad| section.refuse_name(&entry, bad))?;
        let name = entry.key.clone();
        let mut tool = section.open(entry)?;
        let component = tool.take("component");
        let mcp = tool.take("mcp");
        let changes_world = tool.boolean("changes_world")?;
        tool.finish()?;
        if let Some(mcp) = mcp {
            let instead = "use `component = \"NAME.wasm\"`";
            return Err(tool.error(mcp.line, Problem::NotInThisVersion { key: "mcp", instead }));
        }
        let hint = "write `component = \"NAME.wasm\"`";
        let component = component.ok_or_else(|| tool.error(tool.line, Problem::Missing { key: "component", hint }))?;
        lines.put(&format!("tools.{name}.component"), component.line);
        let component = file_path(&tool, component)?;
        // What does not say that it leaves the world alone is taken to change it.
        tools.insert(name, ToolEntry { component, changes_world: changes_world.unwrap_or(true) });
    }
    Ok(tools)
}

fn read_budget(mut section: Section<'_, '_>) -> Result<Budget> {
    let most = i64::MAX as u64;
    let budget = Budget {
        tokens: section.number("tokens", most)?,
        micro_usd: read_usd(&mut section)?,
        tool_calls: section.number("tool_calls", most)?,
        delegations: section.number("delegations", most)?,
        depth: section.number("depth", u64::from(u32::MAX))?.and_then(|depth| u32::try_from(depth).ok()),
        wall: section.read("wall", "a duration like \"30m\"", duration)?,
    };
    section.finish()?;
    Ok(budget)
}

fn read_usd(section: &mut Section<'_, '_>) -> Result<Option<u64>> {
    let Some(entry) = section.take("usd") else { return Ok(None) };
    // Read from the text: a float would already have lost what `0.1` says.
    let text = match &entry.value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        DeValue::String(text) => text,
        _ => return Err(section.wrong_type(&entry, "an amount of US dollars like 1.50")),
    };
    micro_usd(text).map(Some).map_err(|bad| section.refuse(&entry, bad))
}

fn read_limits(mut section: Section<'_, '_>, terms: &mut Terms, lines: &mut Lines) -> Result<()> {
    for key in ["memory", "live_children", "deadline", "stall", "running"] {
        if let Some(line) = section.line_of(key) {
            lines.put(&format!("limits.{key}"), line);
        }
    }
    let expected = "a duration like \"5m\"";
    let limits = &mut terms.limits;
    limits.memory = section.read("memory", "a size like \"256MiB\"", size)?;
    limits.live_children =
        section.number("live_children", u64::from(u32::MAX))?.and_then(|children| u32::try_from(children).ok());
    limits.deadline = section.read("deadline", expected, duration)?;
    limits.stall = section.read("stall", expected, duration)?;
    limits.running = section.read("running", expected, duration)?;
    section.finish()
}

fn read_restart(mut section: Section<'_, '_>) -> Result<RestartSpec> {
    let spec = RestartSpec::default();
    let at = section.line;
    let lines: BTreeMap<&str, u32> = ["max_restarts", "window", "backoff"]
        .into_iter()
        .filter_map(|key| section.line_of(key).map(|line| (key, line)))
        .collect();
    let kind = section.read("type", "a string", |text| {
        word(
            text,
            [
                ("permanent", RestartType::Permanent),
                ("transient", RestartType::Transient),
                ("temporary", RestartType::Temporary),
            ],
        )
    })?;
    let most = section.number("max_restarts", u64::from(u32::MAX))?.and_then(|most| u32::try_from(most).ok());
    let window = section.read("window", "a duration like \"60s\"", duration)?;
    let backoff = section.section("backoff")?;
    let rerun = section
        .read("rerun", "a string", |text| word(text, [("yes", Rerun::Yes), ("no", Rerun::No), ("ask", Rerun::Ask)]))?;
    section.finish()?;
    let (mut initial, mut max): (Option<Duration>, Option<Duration>) = (None, None);
    if let Some(mut backoff) = backoff {
        initial = backoff.read("initial", "a duration like \"200ms\"", duration)?;
        max = backoff.read("max", "a duration like \"10s\"", duration)?;
        backoff.finish()?;
    }
    RestartSpec::new(
        kind.unwrap_or(spec.restart()),
        most.unwrap_or(spec.intensity().max_restarts()),
        window.unwrap_or(spec.intensity().window()),
        (initial.unwrap_or(spec.backoff().initial()), max.unwrap_or(spec.backoff().max())),
        rerun.unwrap_or(spec.rerun()),
    )
    .map_err(|bad| {
        let key = bad.key();
        let line = lines.get(key.split('.').next().unwrap_or(key)).copied().unwrap_or(at);
        section.error(line, Problem::Value { key: key.to_owned(), reason: bad.to_string() })
    })
}

/// One of a few words.
fn word<T, const N: usize>(text: &str, words: [(&'static str, T); N]) -> std::result::Result<T, String> {
    let known = words.each_ref().map(|(word, _)| *word);
    let meant = nearest(text, known).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    let refused = format!("`{}` is none of {}{meant}", shown(text), known.join(", "));
    words.into_iter().find(|(word, _)| *word == text).map(|(_, value)| value).ok_or(refused)
}

fn read_team(mut section: Section<'_, '_>, file: &Path, owner: &str) -> Result<BTreeMap<String, Manifest>> {
    let entries = section.take_all();
    if entries.len() > MOST_ENTRIES {
        let reason = format!("{} capsules; at most {MOST_ENTRIES}", entries.len());
        return Err(section.error(section.line, Problem::Value { key: "capsules".to_owned(), reason }));
    }
    let mut team = BTreeMap::new();
    for entry in entries {
        check_name(&entry.key).map_err(|bad| section.refuse_name(&entry, bad))?;
        let name = entry.key.clone();
        if name == owner {
            return Err(section.refuse_name(&entry, "the capsule of the file has that name already"));
        }
        let capsule = capsule(section.open(entry)?, file, Some(&name))?;
        team.insert(name, capsule);
    }
    Ok(team)
}
