//! `treeward tree --watch`: a running tree as it grows, redrawn in place; a line a change where that cannot be.

use std::io::{ErrorKind, IsTerminal as _};
use std::time::Duration;

use tokio::time::Instant;
use treeward::control::{Client, ClientError, Followed};
use treeward::ids::TreeId;
use treeward::journal::Stored;

use crate::cli::exit::Exit;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::live::{self, PATIENCE};
use crate::cli::out::{Out, wants_colour};
use crate::cli::records::{Record, json};
use crate::cli::run::screen::{Screen, Size};
use crate::cli::view::{Detail, Line, Style, Tree, event};

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(100);

/// Follows the running tree that is meant to its end. `None`: none that is meant runs.
pub fn watch(named: Option<&str>, pid: Option<u32>, as_json: bool) -> Result<Option<Outcome>, Failure> {
    let live = live::look(live::listening(pid)?, None);
    let running = live::trees(&live);
    let named = named.unwrap_or("latest");
    let Some(tree) = live::find(&running, Some(named))? else { return Ok(None) };
    let failed = |error: ClientError| Failure::new(Exit::Failed, format!("process {}: {error}", tree.process.pid));
    let mut client = Client::connect(tree.process, PATIENCE).map_err(failed)?;
    client.follow(tree.id, 1).map_err(failed)?;
    let mut shown = Shown::new(tree.id, as_json);
    Ok(Some(follow(&mut client, tree.id, &mut shown)))
}

fn follow(client: &mut Client, tree: TreeId, shown: &mut Shown) -> Outcome {
    loop {
        // What is not drawn yet is drawn when nothing comes for a frame's time.
        let patience = shown.stale.then_some(FRAME);
        match client.next(tree, patience) {
            Ok(Followed::Record(stored)) => {
                shown.record(&stored)?;
                if !client.has_more() || shown.drawn.elapsed() >= FRAME {
                    shown.flush()?;
                }
            }
            Err(error) if error.is_late() => shown.show(false)?,
            Ok(Followed::Over(ended)) => return shown.over(ended),
            Err(ClientError::Closed) => return shown.over(false),
            Err(error) => return Err(Failure::new(Exit::Failed, error)),
        }
    }
}

enum Mode {
    Screen(Screen),
    Lines,
    Json,
}

/// What was heard, and how it is shown.
struct Shown {
    id: TreeId,
    tree: Tree,
    mode: Mode,
    out: Out,
    stale: bool,
    drawn: Instant,
}

impl Shown {
    fn new(id: TreeId, as_json: bool) -> Self {
        let mode = match (as_json, std::io::stdout().is_terminal()) {
            (true, _) => Mode::Json,
            (false, true) => Mode::Screen(Screen::new(wants_colour())),
            (false, false) => Mode::Lines,
        };
        Self { id, tree: Tree::default(), mode, out: Out::stdout(), stale: false, drawn: Instant::now() }
    }

    fn record(&mut self, stored: &Stored) -> Result<(), Failure> {
        let record = Record::read(stored)?;
        self.tree.apply(&record.body, record.envelope.at);
        match self.mode {
            Mode::Json => self.out.json(&json(stored))?,
            Mode::Lines => {
                let start = self.tree.span.map_or(record.envelope.at, |(start, _)| start);
                if let Some(line) = event(&record.body, stored.seq, record.envelope.at, start, Detail::Watching) {
                    self.out.line(&line)?;
                }
            }
            Mode::Screen(_) => self.stale = true,
        }
        Ok(())
    }

    /// Shows what there is, unless the last frame was drawn just now.
    fn flush(&mut self) -> Result<(), Failure> {
        if self.drawn.elapsed() >= FRAME { self.show(false) } else { self.out.flush() }
    }

    fn show(&mut self, last: bool) -> Result<(), Failure> {
        self.stale = false;
        self.drawn = Instant::now();
        self.out.flush()?;
        let Mode::Screen(screen) = &mut self.mode else { return Ok(()) };
        match screen.show(&self.tree, None, Size::of_stdout(), last, &mut std::io::stdout()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::unheard()),
            Err(error) => Err(Failure::new(Exit::Usage, format!("standard output: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Shows the last of it.
    fn over(&mut self, ended: bool) -> Outcome {
        self.show(true)?;
        if matches!(self.mode, Mode::Json) {
            return Ok(Exit::Ok);
        }
        if ended || self.tree.ended.is_some() {
            self.out.line(&super::about(self.id, &self.tree))?;
        } else {
            let said = "its process ended before the tree did: the next run with its journal says how";
            self.out.line(&Line::new().with(Style::Warn, said))?;
        }
        self.out.flush()?;
        Ok(Exit::Ok)
    }
}
