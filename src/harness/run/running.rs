//! The one task that runs a harness.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::lines::{Lines, Piece};
use super::proc::{Launcher, Proc};
use super::pumps::{self, Input};
use super::record::Recorder;
use super::stopping::{Effect, Graces, Happening, Life, Phase};
use super::table::{Judgement, judge};
use super::tail::Tail;
use crate::driver::{Description, Driver, Event, Exit, Framing, Interrupt, Output, Plan, Seen, Step};
use crate::harness::{Buried, ExitStatus, ProcessLimits, RunTag, Signal, SpawnError, SpawnRequest, Whom};
use crate::ids::RunId;
use crate::journal::Kind;
use crate::supervision::{ExitClass, StopTimes};
use crate::tree::owned::Owned;

/// That a run is to stop. A later order can only tighten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopOrder {
    /// When to kill, and by when all is to be gone.
    pub times: StopTimes,
}

/// Waits until an event was taken.
pub type Sinking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a run's events go.
pub trait Sink: Send + Sync {
    /// Takes an event. The run reads no more than 1 MiB ahead of what was taken.
    fn event(&self, event: Event) -> Sinking;
    /// Work goes on. Never waits.
    fn progress(&self);
}

/// How a harness is launched, beyond what its driver says.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What the driver is asked to launch.
    pub plan: Plan,
    /// The whole environment: the driver's, the granted and treeward's own, in that order.
    pub env: Vec<(String, String)>,
    /// Where it starts; absolute.
    pub cwd: std::path::PathBuf,
    /// What it may take.
    pub limits: ProcessLimits,
}

/// Everything a run needs.
pub struct Parts<'a, L> {
    /// What spawns.
    pub launcher: &'a L,
    /// Translates; its `launch` was called.
    pub driver: Box<dyn Driver>,
    /// How it is launched.
    pub launch: Launch,
    /// Names this run in records, and tags its processes.
    pub run: RunId,
    /// How long each step may take.
    pub graces: Graces,
    /// Set when it is to stop, and again to tighten.
    pub stop: watch::Receiver<Option<StopOrder>>,
    /// Where records go.
    pub recorder: Arc<dyn Recorder>,
    /// Where events go.
    pub sink: Arc<dyn Sink>,
    /// Bytes of a crash's detail.
    pub detail: usize,
}

/// How a run ended. Nothing of its process is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its exit class.
    pub class: ExitClass,
    /// Its answer, or that it could not; `None` where it ended otherwise.
    pub result: Option<Result<String, String>>,
    /// Why it did not answer, and its last lines of standard error.
    pub detail: Option<String>,
    /// Whether a process was ever there.
    pub spawned: bool,
    /// How many descendants were still there when it ended.
    pub survivors: u32,
}

impl Report {
    pub(super) fn never(class: ExitClass, detail: String) -> Self {
        Self { class, result: None, detail: Some(detail), spawned: false, survivors: 0 }
    }
}

/// How many notes one run may make.
const NOTES: u32 = 64;

/// Runs a harness until nothing of it is left.
///
/// # Cancel safety
/// Not to be dropped where the ending matters: a dropped run buries its process in the background, and says nothing.
/// To end it, set `stop`.
pub async fn run<L: Launcher>(parts: Parts<'_, L>) -> Report {
    let Parts { launcher, driver, launch, run, graces, mut stop, recorder, sink, detail } = parts;
    let description = driver.describe();
    if stop.borrow().is_some() {
        return Report::never(ExitClass::Canceled, "it was stopped before it was started".to_owned());
    }
    let program = launch.plan.argv.first().cloned().unwrap_or_default();
    let starting = Kind::HarnessStarting { driver: description.name.clone(), program };
    if let Err(error) = recorder.commit(run, starting).await {
        return Report::never(ExitClass::Retryable, error);
    }
    let mut life = Life::new(graces, description.interrupt, description.reports.greets);
    let spawned = {
        let mut spawning = std::pin::pin!(launcher.spawn(request(&launch, run)));
        let mut stoppable = true;
        loop {
            tokio::select! {
                biased;
                changed = stop.changed(), if stoppable => {
                    stoppable = changed.is_ok();
                    if let Some(order) = *stop.borrow_and_update() {
                        life.on(Instant::now(), Happening::Stop(order.times));
                    }
                }
                spawned = &mut spawning => break spawned,
            }
        }
    };
    let mut process = match spawned {
        Ok(process) => process,
        Err(error) => {
            recorder.record(run, Kind::HarnessGone { survivors: 0 });
            return Report::never(class_of(&error), error.to_string());
        }
    };
    recorder.record(run, Kind::HarnessStarted {});
    let (input, output, errors) = process.streams();
    let (drain, draining) = watch::channel(None);
    let (out, out_task) = output.map(|pipe| pumps::output(pipe, draining.clone())).unzip();
    let (tail, tail_task) = errors.map(|pipe| pumps::tail(pipe, draining)).unzip();
    let mut running = Running {
        process: &process,
        driver,
        life,
        run,
        recorder: &*recorder,
        sink: &*sink,
        description,
        input: input.map(Input::new),
        lines: Lines::default(),
        drain,
        events: VecDeque::new(),
        notes: 0,
        spoken: false,
        output_open: true,
        draining_since_exit: false,
        force: false,
    };
    running.write(launch.plan.input);
    if launch.plan.close_input {
        running.close_input();
    }
    running.happens(Happening::Spawned);
    let _tasks: [Option<Owned>; 2] = [out_task, tail_task];
    let (tail, buried) = running.until_gone(out, tail, &mut stop).await;
    let report = running.report(tail, buried, detail);
    recorder.record(run, Kind::HarnessGone { survivors: report.survivors });
    report
}

fn request(launch: &Launch, run: RunId) -> SpawnRequest {
    SpawnRequest {
        argv: launch.plan.argv.iter().map(Into::into).collect(),
        cwd: launch.cwd.clone(),
        env: launch.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        tag: RunTag::new(run.bytes()),
        limits: launch.limits,
    }
}

/// What cannot be found is not there a moment later either; what is busy or short may be had then.
fn class_of(error: &SpawnError) -> ExitClass {
    match error {
        SpawnError::NotFound { .. }
        | SpawnError::Directory { .. }
        | SpawnError::PermissionDenied { .. }
        | SpawnError::Refused { .. } => ExitClass::Refused,
        SpawnError::WardenStopped { .. } => ExitClass::Canceled,
        _ => ExitClass::Retryable,
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match status {
        ExitStatus::Code(code) => Exit::Code(code),
        ExitStatus::Signal(number) => Exit::Signal(number),
        ExitStatus::Lost => Exit::Lost,
    }
}

struct Running<'a, P> {
    process: &'a P,
    driver: Box<dyn Driver>,
    life: Life,
    run: RunId,
    recorder: &'a dyn Recorder,
    sink: &'a dyn Sink,
    description: Description,
    input: Option<Input>,
    lines: Lines,
    drain: watch::Sender<Option<Instant>>,
    /// Said and not yet taken.
    events: VecDeque<Event>,
    notes: u32,
    spoken: bool,
    output_open: bool,
    draining_since_exit: bool,
    force: bool,
}

impl<P: Proc> Running<'_, P> {
    async fn until_gone(
        &mut self,
        mut out: Option<mpsc::Receiver<Bytes>>,
        mut tail: Option<oneshot::Receiver<Tail>>,
        stop: &mut watch::Receiver<Option<StopOrder>>,
    ) -> (Tail, Option<Buried>) {
        let process = self.process;
        let mut exited = std::pin::pin!(process.exited());
        let mut burial = std::pin::pin!(process.bury());
        let (mut has_exited, mut buried, mut kept) = (false, None, Tail::default());
        let mut stoppable = true;
        let mut sinking: Option<Sinking> = None;
        while self.life.phase() != Phase::Gone {
            if sinking.is_none() {
                sinking = self.events.pop_front().map(|event| self.sink.event(event));
            }
            let burying = self.draining_since_exit;
            let read = out.is_none() && tail.is_none() && sinking.is_none();
            if burying && read {
                self.happens(Happening::Drained);
                if self.life.phase() == Phase::Gone {
                    break;
                }
            }
            let deadline = self.life.deadline();
            tokio::select! {
                biased;
                changed = stop.changed(), if stoppable => {
                    stoppable = changed.is_ok();
                    let order = *stop.borrow_and_update();
                    if let Some(order) = order {
                        self.happens(Happening::Stop(order.times));
                    }
                }
                status = &mut exited, if !has_exited => {
                    has_exited = true;
                    self.recorder.record(self.run, Kind::HarnessExited { exit: status.to_string() });
                    self.happens(Happening::Exited(exit_of(status)));
                }
                done = &mut burial, if burying && buried.is_none() => {
                    buried = Some(done);
                    self.happens(Happening::Buried);
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.happens(Happening::Tick);
                }
                () = taken(&mut sinking), if sinking.is_some() => sinking = None,
                // Nothing more is read before what was said is taken.
                piece = next(&mut out), if out.is_some() && sinking.is_none() => match piece {
                    Some(piece) => self.take(&piece),
                    None => {
                        out = None;
                        self.output_ended();
                    }
                },
                end = ended(&mut tail), if tail.is_some() => {
                    tail = None;
                    kept = end.unwrap_or_default();
                }
            }
        }
        (kept, buried)
    }

    fn happens(&mut self, happening: Happening) {
        let now = Instant::now();
        for effect in self.life.on(now, happening) {
            match effect {
                Effect::Interrupt => self.interrupt(),
                Effect::CloseInput => self.close_input(),
                Effect::Terminate => self.signal(Signal::Terminate, "SIGTERM"),
                Effect::Kill => {
                    self.force = true;
                    self.signal(Signal::Kill, "SIGKILL");
                }
                Effect::Drain(until) => {
                    self.drain.send_replace(Some(until));
                }
                Effect::Bury => {
                    self.draining_since_exit = true;
                    // Nobody reads it any more.
                    self.input = None;
                }
            }
        }
    }

    fn signal(&mut self, signal: Signal, name: &str) {
        self.recorder.record(self.run, Kind::HarnessKilled { signal: name.to_owned() });
        self.process.signal(signal, Whom::Group);
    }

    fn interrupt(&mut self) {
        let by = match self.description.interrupt {
            Interrupt::Signal => "SIGINT",
            _ => "protocol",
        };
        self.recorder.record(self.run, Kind::HarnessInterrupted { by: by.to_owned() });
        if self.description.interrupt == Interrupt::Signal {
            self.process.signal(Signal::Interrupt, Whom::Leader);
        }
        let steps = self.driver.interrupt();
        self.steps(steps);
    }

    fn write(&mut self, bytes: Vec<u8>) {
        let full = self.input.as_ref().is_some_and(|input| !bytes.is_empty() && !input.write(bytes));
        if full {
            self.note("input_full", "it does not read its input; what was to be written is lost".to_owned());
        }
    }

    fn close_input(&mut self) {
        if let Some(input) = &mut self.input {
            input.close();
        }
    }

    fn take(&mut self, piece: &[u8]) {
        if !std::mem::replace(&mut self.spoken, true) {
            self.happens(Happening::Spoke);
        }
        match self.description.framing {
            Framing::Bytes => {
                // All it writes is its answer: every byte is progress.
                self.sink.progress();
                self.feed(Output::Bytes(piece));
            }
            Framing::Lines => {
                let mut lines = std::mem::take(&mut self.lines);
                lines.feed(piece, |piece| self.line(piece));
                self.lines = lines;
            }
        }
    }

    fn line(&mut self, piece: Piece) {
        match piece {
            Piece::Line { text, replaced, ended } => {
                if replaced > 0 {
                    let text = format!("{replaced} sequences of a line were not UTF-8 and were replaced");
                    self.note("not_utf8", text);
                }
                self.feed(Output::Line { text: &text, ended });
            }
            Piece::Skipped { len } => {
                self.note("line_too_long", format!("a line of {len} bytes was skipped"));
                self.feed(Output::Skipped { len });
            }
        }
    }

    fn output_ended(&mut self) {
        if !std::mem::replace(&mut self.output_open, false) {
            return;
        }
        if self.description.framing == Framing::Lines
            && let Some(last) = self.lines.finish()
        {
            self.line(last);
        }
        self.feed(Output::End);
        // Where results are said on the output, none can be said any more.
        if self.description.reports.turns {
            self.happens(Happening::Over);
        }
    }

    fn feed(&mut self, output: Output<'_>) {
        let steps = self.driver.feed(output);
        self.steps(steps);
    }

    fn steps(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Write(bytes) => self.write(bytes),
                Step::CloseInput => self.close_input(),
                Step::Event(event) => self.event(event),
            }
        }
    }

    fn event(&mut self, event: Event) {
        if event.is_progress() {
            self.sink.progress();
        }
        match event {
            Event::Note { key, text } => self.note(&key, text),
            Event::SessionStarted { id } => {
                self.recorder.record(self.run, Kind::HarnessReady { session: Some(id.clone()) });
                self.events.push_back(Event::SessionStarted { id });
            }
            Event::TurnEnded { .. } | Event::TurnFailed { .. } => self.happens(Happening::Over),
            event => self.events.push_back(event),
        }
    }

    fn note(&mut self, key: &str, text: String) {
        self.notes += 1;
        let kind = match self.notes {
            n if n < NOTES => Kind::Note { key: format!("harness.{key}"), text: text.into() },
            NOTES => Kind::Note { key: "harness.notes".to_owned(), text: "no more notes of this run are kept".into() },
            _ => return,
        };
        self.recorder.record(self.run, kind);
    }

    fn report(&mut self, tail: Tail, buried: Option<Buried>, limit: usize) -> Report {
        let written = tail.bytes();
        let (stderr, replaced) = tail.finish(limit);
        if replaced > 0 {
            self.note("stderr_not_utf8", format!("{replaced} sequences of its standard error were not UTF-8"));
        }
        if written > stderr.len() as u64 + 1 {
            self.note("stderr", format!("{written} bytes of standard error, of which the end is kept"));
        }
        let exit = match (self.life.exit(), buried) {
            // The exit was lost on its way; the burial saw it.
            (Exit::Lost, Some(buried)) => exit_of(buried.exit),
            (exit, _) => exit,
        };
        let ending = self.driver.classify_exit(Seen { exit, stderr: &stderr });
        ending.notes.into_iter().for_each(|(key, text)| self.note(&key, text));
        let Judgement { mut class, result, mut why, odd } = judge(ending.turns, exit, self.force);
        if let Some(odd) = odd {
            self.note("result_and_exit", odd);
        }
        if self.life.failed_to_start() && result.is_none() {
            class = ExitClass::Stalled;
            why = Some("it gave no sign of life when it was started".to_owned());
        }
        let detail = why.map(|why| with_tail(why, &stderr, limit));
        let survivors = buried.map_or(0, |buried| buried.survivors);
        Report { class, result, detail, spawned: true, survivors }
    }
}

/// What happened, and the end of what it wrote as errors, in at most `limit` bytes.
fn with_tail(why: String, stderr: &str, limit: usize) -> String {
    let why = crate::tree::bounded(&why, limit);
    let room = limit.saturating_sub(why.len() + 1);
    let mut from = stderr.len().saturating_sub(room);
    while !stderr.is_char_boundary(from) {
        from += 1;
    }
    match stderr[from..].trim() {
        "" => why,
        end => format!("{why}\n{end}"),
    }
}

async fn taken(sinking: &mut Option<Sinking>) {
    if let Some(sinking) = sinking {
        sinking.await;
    }
}

async fn next(out: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match out {
        Some(out) => out.recv().await,
        None => None,
    }
}

async fn ended(tail: &mut Option<oneshot::Receiver<Tail>>) -> Option<Tail> {
    match tail {
        Some(tail) => tail.await.ok(),
        None => None,
    }
}
