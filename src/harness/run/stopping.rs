//! The life of a harness's process as a pure state machine: starting, running, interrupting, terminating, draining,
//! burying, gone.
//!
//! Its exit and the end of its output are two events with two deadlines: neither waits for the other. Burying begins at
//! the exit, or without one when it does not come in time, and *gone* is reached only when the burial is confirmed and
//! nothing more of the output is to be read.

use std::time::Duration;

use tokio::time::Instant;

use crate::driver::{Exit, Interrupt};
use crate::supervision::StopTimes;

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    /// From the spawn to the first sign of life, where the driver's harness gives one.
    pub greeting: Duration,
    /// For the turn to end after an interrupt; never past the middle of what is left before the kill.
    pub interrupt: Duration,
    /// A harness that has said its result may run on for this long before it is ended.
    pub linger: Duration,
    /// From SIGTERM to SIGKILL, where no stop says when to kill.
    pub terminate: Duration,
    /// How long output is waited for after the exit, at most.
    pub drain: Duration,
    /// From SIGKILL to burying without having seen the exit.
    pub lost_exit: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            greeting: Duration::from_secs(60),
            interrupt: Duration::from_secs(10),
            linger: Duration::from_secs(2),
            terminate: Duration::from_secs(2),
            drain: Duration::from_millis(500),
            lost_exit: Duration::from_secs(1),
        }
    }
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It is being spawned.
    Starting,
    /// It works.
    Running,
    /// It has said its result and still runs.
    Lingering,
    /// Its turn was interrupted.
    Interrupting,
    /// It was told to end, or killed.
    Terminating,
    /// It has ended; its output is read, and its descendants are buried.
    Draining,
    /// Its output is read; its descendants are buried.
    Burying,
    /// Nothing of it is left.
    Gone,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It was spawned.
    Spawned,
    /// It was not, and nothing of it is there.
    NotSpawned,
    /// It said something.
    Spoke,
    /// It said its result, or closed the output it would have said it on.
    Over,
    /// It ended.
    Exited(Exit),
    /// All its output is read, or given up.
    Drained,
    /// Nothing of it is left.
    Buried,
    /// It is to stop.
    Stop(StopTimes),
    /// Time passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Interrupt the turn, as the driver says.
    Interrupt,
    /// Close its input.
    CloseInput,
    /// SIGTERM to its group.
    Terminate,
    /// SIGKILL to its group.
    Kill,
    /// Read what was written, until then at most.
    Drain(Instant),
    /// Kill and reap everything of it.
    Bury,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Life {
    graces: Graces,
    interrupt: Interrupt,
    /// Whether silence at the start is a failed start.
    greets: bool,
    phase: Phase,
    /// When the phase is over without anything else happening.
    until: Option<Instant>,
    stop: Option<StopTimes>,
    killed: bool,
    ended_by_us: bool,
    failed_start: bool,
    /// It said its result, or can say none any more.
    over: bool,
    exit: Option<Exit>,
    drained: bool,
    buried: bool,
    burying: bool,
}

impl Life {
    /// The life of a process that is about to be spawned.
    pub fn new(graces: Graces, interrupt: Interrupt, greets: bool) -> Self {
        Self {
            graces,
            interrupt,
            greets,
            phase: Phase::Starting,
            until: None,
            stop: None,
            killed: false,
            ended_by_us: false,
            failed_start: false,
            over: false,
            exit: None,
            drained: false,
            buried: false,
            burying: false,
        }
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// When [`Happening::Tick`] is next to be told.
    pub fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Whether it was killed with SIGKILL from here.
    pub fn was_killed(&self) -> bool {
        self.killed
    }

    /// Whether it gave no sign of life when it was started.
    pub fn failed_to_start(&self) -> bool {
        self.failed_start
    }

    /// How it ended, as far as a driver is concerned. Whatever it did after it was told to end is not its own doing.
    pub fn exit(&self) -> Exit {
        match self.exit {
            _ if self.ended_by_us && self.over && self.stop.is_none() => Exit::StillRunning,
            _ if self.ended_by_us => Exit::ByUs,
            Some(exit) => exit,
            None => Exit::Lost,
        }
    }

    /// Takes one happening.
    pub fn on(&mut self, now: Instant, happening: Happening) -> Vec<Effect> {
        let mut effects = Vec::new();
        match happening {
            Happening::Spawned => self.spawned(now, &mut effects),
            Happening::NotSpawned => self.go(Phase::Gone, None),
            Happening::Spoke => {
                if self.phase == Phase::Running {
                    self.until = None;
                }
            }
            Happening::Over => self.over(now, &mut effects),
            Happening::Exited(exit) => self.exited(now, exit, &mut effects),
            Happening::Drained => self.drained = true,
            Happening::Buried => self.buried(now, &mut effects),
            Happening::Stop(times) => self.stop(now, times, &mut effects),
            Happening::Tick => {}
        }
        while self.until.is_some_and(|until| until <= now) && self.phase != Phase::Gone {
            self.elapsed(now, &mut effects);
        }
        self.settle();
        effects
    }

    fn go(&mut self, phase: Phase, until: Option<Instant>) {
        self.phase = phase;
        self.until = until;
    }

    fn spawned(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Starting {
            return;
        }
        self.go(Phase::Running, self.greets.then(|| now + self.graces.greeting));
        if let Some(times) = self.stop {
            self.end(now, times, effects);
        }
    }

    fn over(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let first = !std::mem::replace(&mut self.over, true);
        let until = now + self.graces.linger;
        match self.phase {
            Phase::Running => self.go(Phase::Lingering, Some(until)),
            // The interrupted turn is over: what is left is that it exits.
            Phase::Interrupting if first => self.until = self.until.map(|earlier| earlier.min(until)),
            _ => return,
        }
        effects.push(Effect::CloseInput);
    }

    fn exited(&mut self, now: Instant, exit: Exit, effects: &mut Vec<Effect>) {
        if self.exit.is_some() || self.phase == Phase::Gone {
            return;
        }
        self.exit = Some(exit);
        self.bury(now, effects);
    }

    fn bury(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.burying {
            return;
        }
        self.burying = true;
        let until = now + self.graces.drain;
        effects.extend([Effect::Drain(until), Effect::Bury]);
        // What was read is waited for until the session took it; where it is stopped, no longer than this.
        self.go(Phase::Draining, self.stop.map(|_| until));
    }

    fn buried(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        // A burial nobody asked for: the warden ended everything.
        self.bury(now, effects);
        self.buried = true;
    }

    fn stop(&mut self, now: Instant, times: StopTimes, effects: &mut Vec<Effect>) {
        let times = self.stop.map_or(times, |earlier| earlier.tighten(times));
        let first = self.stop.replace(times).is_none();
        match self.phase {
            Phase::Running if first => self.end(now, times, effects),
            Phase::Lingering => self.terminate(now, effects),
            // A later stop can only tighten.
            Phase::Interrupting => self.until = self.until.map(|until| until.min(self.interrupt_until(now, times))),
            Phase::Terminating if !self.killed => self.until = self.until.map(|until| until.min(times.kill_at())),
            Phase::Draining if first => self.until = Some(now + self.graces.drain),
            _ => {}
        }
    }

    fn interrupt_until(&self, now: Instant, times: StopTimes) -> Instant {
        let left = times.kill_at().saturating_duration_since(now);
        now + self.graces.interrupt.min(left / 2)
    }

    fn end(&mut self, now: Instant, times: StopTimes, effects: &mut Vec<Effect>) {
        if self.interrupt == Interrupt::None || times.kill_at() <= now {
            return self.terminate(now, effects);
        }
        self.ended_by_us = true;
        effects.push(Effect::Interrupt);
        self.go(Phase::Interrupting, Some(self.interrupt_until(now, times)));
    }

    fn terminate(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        self.ended_by_us = true;
        let kill_at = match self.stop {
            Some(times) => times.kill_at(),
            None => now + self.graces.terminate,
        };
        if kill_at > now {
            effects.push(Effect::Terminate);
        }
        self.go(Phase::Terminating, Some(kill_at));
    }

    /// The phase's time is over.
    fn elapsed(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match self.phase {
            // Nothing came of it in all the time it had: it may be stopped, where no SIGTERM reaches it.
            Phase::Running => {
                self.failed_start = true;
                self.terminate(now, effects);
            }
            Phase::Lingering | Phase::Interrupting => self.terminate(now, effects),
            Phase::Terminating if !self.killed => {
                self.killed = true;
                effects.push(Effect::Kill);
                self.until = Some(now + self.graces.lost_exit);
            }
            Phase::Terminating => self.bury(now, effects),
            Phase::Draining => {
                self.drained = true;
                self.until = None;
            }
            Phase::Starting | Phase::Burying | Phase::Gone => self.until = None,
        }
    }

    fn settle(&mut self) {
        if !self.burying || self.phase == Phase::Gone {
            return;
        }
        match (self.drained, self.buried) {
            (true, true) => self.go(Phase::Gone, None),
            (true, false) => self.go(Phase::Burying, None),
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests;
