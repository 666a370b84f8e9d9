//! Surveys the directory it is lent as `input`: each sub-directory is delegated to this capsule again, each file to a
//! `reader`, and their answers are rolled up as they come. It opens no file itself.
//!
//! The root answers with a table, or with JSON where its task is `json`; the others answer with JSON.

use agent::Guest;
use agent::session::{self, Delegation};
use agent::types::{Completion, CompletionStatus, DelegationRequest, Lend, Refusal, Task};
use figures::{Figures, Outcome, Report, table};
use lent::{Directory, Kind};

struct Survey;

impl Guest for Survey {
    fn run(task: Task) -> Result<String, String> {
        let report = survey()?;
        let for_a_person = session::info().depth == 0 && task.text.trim() != "json";
        Ok(if for_a_person { table(&report) } else { report.to_json() })
    }
}

agent::export!(Survey with_types_in agent::world);

/// How many delegations are held at once. Few, so that a directory of ten thousand files is no burden to anyone.
const AT_ONCE: usize = 32;

/// How many entries of one directory are surveyed.
const MOST_ENTRIES: usize = 250_000;

/// Who is sent to an entry.
#[derive(Clone, Copy)]
enum Helper {
    Reader,
    Survey,
}

struct Job {
    name: String,
    helper: Helper,
}

fn survey() -> Result<Report, String> {
    let input = Directory::lent("input")
        .ok_or("no directory was lent as `input`: try `treeward run examples/survey --input DIR`")?;
    let mut report = Report::of_directory();
    let jobs = match list(&input, &mut report)? {
        Listing::LeftOut => {
            let mut report = Report::default();
            report.add_outcome("", Outcome::LeftOut, Some("left out: it holds a CACHEDIR.TAG".into()));
            return Ok(report);
        }
        Listing::Jobs(jobs) => jobs,
    };
    drop(input);
    let mut team = Team { report, out: Vec::with_capacity(AT_ONCE) };
    for job in jobs {
        team.send(job);
    }
    while team.take_one() {}
    Ok(team.report)
}

enum Listing {
    LeftOut,
    Jobs(Vec<Job>),
}

/// What there is to do in the directory, in the order of names.
fn list(input: &Directory, report: &mut Report) -> Result<Listing, String> {
    let mut jobs = Vec::new();
    let mut unnamed = 0;
    let mut beyond = 0;
    for entry in input.entries().map_err(|fault| format!("cannot be listed: {fault}"))? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(fault) if fault.is_unnameable() => {
                unnamed += 1;
                report.add_outcome("", Outcome::Unnamed, None);
                continue;
            }
            Err(fault) => {
                report.add_outcome("", Outcome::Unreadable, Some(format!("an entry cannot be read: {fault}")));
                continue;
            }
        };
        let helper = match entry.kind {
            Kind::File if entry.name == "CACHEDIR.TAG" => return Ok(Listing::LeftOut),
            // What git and treeward keep beside the files is not of the directory; the journal of this very run is there too.
            _ if entry.name == ".git" || entry.name == ".treeward" => {
                report.add_outcome(&entry.name, Outcome::LeftOut, Some("left out".into()));
                continue;
            }
            Kind::File => Helper::Reader,
            Kind::Directory => Helper::Survey,
            Kind::Link => {
                report.add_outcome(&entry.name, Outcome::Link, None);
                continue;
            }
            Kind::Special => {
                report.add_outcome(&entry.name, Outcome::Special, None);
                continue;
            }
        };
        if jobs.len() < MOST_ENTRIES {
            jobs.push(Job { name: entry.name, helper });
        } else {
            beyond += 1;
            report.add_outcome("", Outcome::NotSurveyed, None);
        }
    }
    if unnamed > 0 {
        report.note("", format!("{unnamed} with a name that is not UTF-8"));
    }
    if beyond > 0 {
        report.note("", format!("{beyond} beyond the first {MOST_ENTRIES} were not surveyed"));
    }
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Listing::Jobs(jobs))
}

/// The delegations that are out, and what is known already.
struct Team {
    report: Report,
    out: Vec<(Delegation, Job)>,
}

impl Team {
    /// Sends somebody, taking answers until there is a place for one more.
    fn send(&mut self, job: Job) {
        while self.out.len() >= AT_ONCE && self.take_one() {}
        loop {
            match session::delegate(&request(&job)) {
                Ok(delegation) => return self.out.push((delegation, job)),
                // A limit on how many live at once lifts when one of them is done.
                Err(refusal) if refusal.key.starts_with("limits.") && self.take_one() => {}
                Err(Refusal { key, reason }) => {
                    let what = Some(format!("not surveyed ({key}: {reason})"));
                    return self.report.add_outcome(&job.name, Outcome::NotSurveyed, what);
                }
            }
        }
    }

    /// Takes the first answer that comes; false where none is to come.
    fn take_one(&mut self) -> bool {
        let among: Vec<&Delegation> = self.out.iter().map(|(delegation, _)| delegation).collect();
        let completion = session::wait_any(&among, None);
        let Some(completion) = completion else {
            for (_, job) in self.out.drain(..) {
                self.report.add_outcome(&job.name, Outcome::Lost, Some("lost (it never ended)".into()));
            }
            return false;
        };
        if let Some(place) = self.out.iter().position(|(delegation, _)| delegation.index() == completion.index) {
            let (_, job) = self.out.swap_remove(place);
            self.add(job, completion);
        }
        true
    }

    fn add(&mut self, Job { name, helper }: Job, completion: Completion) {
        let understood = match (completion.status, helper) {
            (CompletionStatus::Ok, Helper::Reader) => {
                Figures::from_json(&completion.answer).map(|figures| self.report.add_file(&name, figures))
            }
            (CompletionStatus::Ok, Helper::Survey) => {
                Report::from_json(&completion.answer).map(|below| self.report.add_directory(&name, below))
            }
            (CompletionStatus::Error, _) => {
                let why = first_line(completion.detail).unwrap_or_else(|| "not readable".into());
                self.report.add_outcome(&name, Outcome::Unreadable, Some(why));
                return;
            }
            (status, _) => {
                let what = match helper {
                    Helper::Reader => "1 file lost",
                    Helper::Survey => "1 subtree lost",
                };
                let why = first_line(completion.detail).map(|detail| format!(": {detail}")).unwrap_or_default();
                let note = format!("{what} ({}{why})", word(status));
                self.report.add_outcome(&name, Outcome::Lost, Some(note));
                return;
            }
        };
        if understood.is_none() {
            self.report.add_outcome(&name, Outcome::Lost, Some("lost (its answer is not understood)".into()));
        }
    }
}

/// Lends a sub-directory alone to whoever surveys it, this directory to whoever reads a file of it.
fn request(Job { name, helper }: &Job) -> DelegationRequest {
    let (capsule, task, path) = match helper {
        Helper::Reader => ("reader", name.clone(), String::new()),
        Helper::Survey => ("survey", String::new(), name.clone()),
    };
    let lend = Lend { directory: "input".into(), path, name: "input".into(), write: false };
    DelegationRequest { capsule: capsule.into(), task, slice: None, lend: vec![lend], deadline: None }
}

fn word(status: CompletionStatus) -> &'static str {
    match status {
        CompletionStatus::Ok => "ok",
        CompletionStatus::Error => "error",
        CompletionStatus::Crashed => "crashed",
        CompletionStatus::Terminated => "terminated",
        CompletionStatus::Unknown => "unknown",
    }
}

/// The first line of a detail, cut where it gets long.
fn first_line(detail: Option<String>) -> Option<String> {
    const MOST: usize = 160;
    let detail = detail?;
    let line = detail.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(MOST).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    (!short.is_empty()).then_some(short)
}
