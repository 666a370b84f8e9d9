//! Appends a second where each session waits for its commit, against a plain file with grouped writes and syncs.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use treeward::env::Env;
use treeward::ids::{SessionPath, Strand, TreeId};
use treeward::journal::{
    AgentKind, Entry, Journal, Kind, Options, Reader, SCHEMA, Source as _, SqliteOptions, SqliteStore, Text,
};

use crate::report::{Figure, Goal, Report, Samples};
use crate::{Effort, machine};

/// What a record says: with what the journal puts around it some 450 bytes.
const TEXT: usize = 100;

pub fn measure(report: &mut Report, effort: Effort) {
    for (name, sessions) in [("appends-1", 1), ("appends-8", 8), ("appends-64", 64)] {
        if !report.wants(name) {
            continue;
        }
        let (rounds, time) = effort.pick((4, 200), (10, 600));
        let time = Duration::from_millis(time);
        let (mut rate, mut floor) = (Samples::default(), Samples::default());
        machine::tokio().block_on(async {
            let place = machine::disk();
            let (journal, bytes) = Writers::start(&place.path().join("journal.db"), sessions).await;
            for round in 0..=rounds {
                let (appended, written) =
                    (journal.appends(time).await, raw(&place.path().join("raw"), sessions, bytes, time).await);
                if round > 0 {
                    rate.extend([appended]);
                    floor.extend([written]);
                }
            }
            journal.journal.finish().await.expect("it closes");
        });
        report.figure(Figure {
            name,
            value: rate.median(),
            unit: "appends/s",
            floor: Some((
                floor.median(),
                "the same bytes and writers, grouped into write and fdatasync of a plain file",
            )),
            goal: Goal::RatioAtLeast(0.5),
        });
    }
}

struct Writers {
    journal: Journal,
    trees: Vec<TreeId>,
}

impl Writers {
    /// A journal with so many trees of one session each, and how many bytes a record of it has.
    async fn start(file: &Path, sessions: usize) -> (Self, usize) {
        let env = Env::real(Some(1), None);
        let store = SqliteStore::open(file, SqliteOptions::default()).expect("a journal");
        let journal = Journal::start(&env, Box::new(store), Options::default(), None, None).await.expect("it starts");
        let path = SessionPath::root();
        let mut trees = Vec::new();
        for number in 0..sessions as u64 {
            let tree = TreeId::new(env.ids_of(number, &path).uuid());
            let entry = |attempt, strand, kind| Entry::new(tree, path.clone(), attempt, strand, kind);
            let digest = treeward::ids::Digest::of(b"bench");
            let (capsule, budget) = ("bench".to_owned(), Default::default());
            let started = Kind::TreeStarted { schema: SCHEMA, capsule: capsule.clone(), seed: 1, budget };
            let _later = journal.open_tree(entry(0, Strand::Tree, started), Arc::default());
            let task = Kind::TaskSubmitted { task: Text::Inline("bench".into()) };
            journal.record(entry(0, Strand::Tree, task));
            let (agent, lent, changes_world) = (AgentKind::Native, Vec::new(), false);
            let started = Kind::SessionStarted { capsule, digest, agent, lent, changes_world };
            journal.append(entry(1, Strand::Main, started)).await.expect("it is taken");
            trees.push(tree);
        }
        let writers = Self { journal, trees };
        writers.append(0).await;
        let page = Reader::open(file).expect("it was written").read(writers.trees[0], 4, Default::default());
        let bytes = page.expect("it is read").records[0].size();
        (writers, bytes)
    }

    async fn append(&self, writer: usize) {
        let text = Kind::Text { text: Text::Inline("x".repeat(TEXT)) };
        let entry = Entry::new(self.trees[writer], SessionPath::root(), 1, Strand::Main, text);
        self.journal.append(entry).await.expect("it is committed");
    }

    /// Every session appends and waits, for so long: appends a second.
    async fn appends(&self, time: Duration) -> f64 {
        let begin = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..self.trees.len() {
            let own = Self { journal: self.journal.clone(), trees: self.trees.clone() };
            tasks.spawn(async move {
                let mut count = 0_u64;
                while begin.elapsed() < time {
                    own.append(writer).await;
                    count += 1;
                }
                count
            });
        }
        let count: u64 = tasks.join_all().await.iter().sum();
        count as f64 / begin.elapsed().as_secs_f64()
    }
}

/// The floor: a thread that writes all that waits, syncs once, and tells everybody.
async fn raw(file: &Path, writers: usize, bytes: usize, time: Duration) -> f64 {
    let mut file = File::create(file).expect("a file");
    let (sender, waiting) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>();
    let thread = std::thread::spawn(move || {
        while let Ok(first) = waiting.recv() {
            let all: Vec<_> = std::iter::once(first).chain(waiting.try_iter()).collect();
            let group: Vec<u8> = all.iter().flat_map(|(bytes, _)| bytes).copied().collect();
            file.write_all(&group).and_then(|()| file.sync_data()).expect("it is written");
            all.into_iter().for_each(|(_, done)| done.send(()).expect("it waits"));
        }
    });
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..writers {
        let sender = sender.clone();
        tasks.spawn(async move {
            let mut count = 0_u64;
            while begin.elapsed() < time {
                let (done, written) = oneshot::channel();
                sender.send((vec![b'x'; bytes], done)).expect("its thread lives");
                written.await.expect("it is written");
                count += 1;
            }
            count
        });
    }
    let count: u64 = tasks.join_all().await.iter().sum();
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    drop(sender);
    thread.join().expect("no panic");
    rate
}
