//! Loading capsules from files: the only place here that touches the file system.
//!
//! Nothing a manifest names is trusted: only regular files below the directory it is looked for in are opened, links
//! that lead out are refused, and no more is read than a file may have.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::grants::Wider;
use super::manifest::{LONGEST_MANIFEST, Manifest, ManifestError, RunEntry};
use super::team::{MOST_CAPSULES, Team, TeamError};
use super::value::{Capsule, CommandLine, Component, Run, Tool, ToolRun};
use crate::ids::Digest;

/// How many bytes a component file may have.
pub const LONGEST_COMPONENT: usize = 64 << 20;
/// How many bytes all component files of a team may have together.
pub const LONGEST_TEAM: usize = 512 << 20;

/// Why a capsule could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A manifest is wrong, or names what is.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The manifest itself cannot be read.
    #[error("{}: {problem}", .file.display())]
    Unreadable {
        /// What was to be read.
        file: PathBuf,
        /// Why it cannot be, and what to do.
        problem: FileProblem,
    },
    /// The capsules make no team.
    #[error(transparent)]
    Team(#[from] TeamError),
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// Nothing there.
    #[error("no such file{0}")]
    Missing(&'static str),
    /// Neither a regular file nor a link to one.
    #[error("{0}, not a regular file")]
    NotAFile(&'static str),
    /// It lies outside the directory it belongs to.
    #[error("a link that leads out of {}; copy the file in", .0.display())]
    LeadsOut(PathBuf),
    /// Longer than it may be.
    #[error("longer than {0} bytes, the most it may have")]
    TooLong(usize),
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// The system refuses.
    #[error("cannot be read: {0}")]
    Io(#[source] io::Error),
}

impl Team {
    /// Loads the capsule at `path` (a directory with a `capsule.toml`, or a lone `NAME.toml`) and every capsule it can
    /// come to delegate to, with their components.
    ///
    /// A delegate is looked for as the capsule itself, in the file's inline team, then as `NAME/` or `NAME.toml` in the
    /// capsule's directory, then beside that directory. Blocks on the file system.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let unreadable = |file: &Path, problem| LoadError::Unreadable { file: file.to_owned(), problem };
        let metadata = std::fs::metadata(path).map_err(|error| {
            let hint = "; give a directory with a `capsule.toml`, or a `NAME.toml`";
            unreadable(
                path,
                if error.kind() == io::ErrorKind::NotFound { FileProblem::Missing(hint) } else { error.into() },
            )
        })?;
        let home = if metadata.is_dir() {
            let file = path.join("capsule.toml");
            Home::read(&file, Place::directory(path), |file| read_below(path, file, LONGEST_MANIFEST + 1))
        } else {
            // The user named this very file: that it is a link is their business.
            Home::read(path, Place::beside(path), |file| read_regular(file, LONGEST_MANIFEST + 1))
        }?;
        Loader::default().load(home)
    }
}

impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing(""),
            _ => Self::Io(error),
        }
    }
}

/// Where a capsule's files lie and its delegates are looked for.
#[derive(Debug)]
struct Place {
    directory: PathBuf,
    around: Option<PathBuf>,
}

impl Place {
    fn directory(directory: &Path) -> Self {
        // `.` and `..` have no name to take off.
        let around = match directory.file_name() {
            Some(_) => parent(directory),
            None => directory.join(".."),
        };
        Self { directory: directory.to_owned(), around: Some(around) }
    }

    fn beside(file: &Path) -> Self {
        Self { directory: parent(file), around: None }
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// One manifest file.
#[derive(Debug)]
struct Home {
    file: PathBuf,
    place: Place,
    manifest: Manifest,
    digest: Digest,
}

impl Home {
    fn read(
        file: &Path,
        place: Place,
        read: impl FnOnce(&Path) -> Result<Vec<u8>, FileProblem>,
    ) -> Result<Arc<Self>, LoadError> {
        let bytes = read(file).map_err(|problem| LoadError::Unreadable { file: file.to_owned(), problem })?;
        let manifest = Manifest::parse(file, &bytes)?;
        Ok(Arc::new(Self { file: file.to_owned(), place, manifest, digest: Digest::of(&bytes) }))
    }

    /// The capsule of that name in this file.
    fn find(&self, name: &str) -> Option<&Manifest> {
        if self.manifest.name() == name { Some(&self.manifest) } else { self.manifest.team.get(name) }
    }
}

/// A capsule of a file, by its name there.
#[derive(Clone, Debug)]
struct Found {
    home: Arc<Home>,
    name: String,
}

impl Found {
    fn manifest(&self) -> &Manifest {
        self.home.find(&self.name).unwrap_or(&self.home.manifest)
    }
}

#[derive(Default)]
struct Loader {
    homes: BTreeMap<PathBuf, Arc<Home>>,
    found: BTreeMap<String, Found>,
    components: BTreeMap<PathBuf, Component>,
    bytes: usize,
}

impl Loader {
    fn load(mut self, home: Arc<Home>) -> Result<Team, LoadError> {
        self.homes.insert(identity(&home.file), home.clone());
        let root = Found { name: home.manifest.name().to_owned(), home };
        self.found.insert(root.name.clone(), root.clone());
        let mut queue = VecDeque::from([root.clone()]);
        while let Some(found) = queue.pop_front() {
            for delegate in &found.manifest().terms.grants.delegate {
                let child = self.resolve(&found, delegate)?;
                if let Some(known) = self.found.get(delegate) {
                    if Arc::ptr_eq(&known.home, &child.home) {
                        continue;
                    }
                    let (one, two) = (known.home.file.display(), child.home.file.display());
                    let reason =
                        format!("two capsules of this team are called `{delegate}`: {one} and {two}; rename one");
                    return Err(found.manifest().complain("grants.delegate", Some(delegate), reason).into());
                }
                if self.found.len() == MOST_CAPSULES {
                    let reason = format!(
                        "`{delegate}` would be capsule {} of a team of at most {MOST_CAPSULES}",
                        MOST_CAPSULES + 1
                    );
                    return Err(found.manifest().complain("grants.delegate", Some(delegate), reason).into());
                }
                self.found.insert(delegate.clone(), child.clone());
                queue.push_back(child);
            }
        }
        self.check_envelopes()?;
        let found = std::mem::take(&mut self.found);
        let capsule = Arc::new(self.capsule(&root)?);
        let others = found.values().filter(|other| other.name != root.name);
        let others: Vec<Arc<Capsule>> =
            others.map(|found| self.capsule(found).map(Arc::new)).collect::<Result<_, ManifestError>>()?;
        Ok(Team::new(capsule, others)?)
    }

    fn check_envelopes(&self) -> Result<(), ManifestError> {
        for parent in self.found.values() {
            for delegate in &parent.manifest().terms.grants.delegate {
                let Some(child) = self.found.get(delegate) else { continue };
                child.manifest().terms.grants.within(&parent.manifest().terms.grants).map_err(|wider| {
                    let Wider { key, value, .. } = &wider;
                    let wider = Wider { parent: parent.name.clone(), ..wider.clone() };
                    let reason =
                        format!("{wider}; add it to the {key} in {}, or take it out here", parent.home.file.display());
                    child.manifest().complain(key, Some(value), reason)
                })?;
            }
        }
        Ok(())
    }

    fn resolve(&mut self, from: &Found, name: &str) -> Result<Found, LoadError> {
        if from.home.find(name).is_some() {
            return Ok(Found { home: from.home.clone(), name: name.to_owned() });
        }
        let complain = |reason: String| from.manifest().complain("grants.delegate", Some(name), reason);
        let place = &from.home.place;
        let mut looked = vec![format!("[capsules.{name}]")];
        for base in [Some(&place.directory), place.around.as_ref()].into_iter().flatten() {
            let as_directory = base.join(name).join("capsule.toml");
            let as_file = base.join(format!("{name}.toml"));
            let there = |file: &Path| std::fs::symlink_metadata(file).is_ok();
            let (file, place) = match (there(&as_directory), there(&as_file)) {
                (true, true) => {
                    let (one, two) = (as_directory.display(), as_file.display());
                    return Err(complain(format!("`{name}` is both {one} and {two}; remove one")).into());
                }
                (true, false) => (as_directory, Place::directory(&base.join(name))),
                (false, true) => {
                    let place = Place::beside(&as_file);
                    (as_file, place)
                }
                (false, false) => {
                    looked.extend([as_directory.display().to_string(), as_file.display().to_string()]);
                    continue;
                }
            };
            let home = match self.homes.get(&identity(&file)) {
                Some(home) => home.clone(),
                None => Home::read(&file, place, |file| read_below(base, file, LONGEST_MANIFEST + 1))?,
            };
            if home.manifest.name() != name {
                let (is, by) = (home.manifest.name(), from.home.file.display());
                let reason = format!("is `{is}`, but {by} delegates to it as `{name}`; use one name");
                return Err(home.manifest.complain("name", None, reason).into());
            }
            self.homes.insert(identity(&file), home.clone());
            return Ok(Found { home, name: name.to_owned() });
        }
        Err(complain(format!("there is no capsule `{name}`; looked for {}", looked.join(", "))).into())
    }

    fn capsule(&mut self, found: &Found) -> Result<Capsule, ManifestError> {
        let manifest = found.manifest();
        let directory = &found.home.place.directory;
        let run = match &manifest.run {
            RunEntry::Guest(file) => {
                Run::Guest(self.component(directory, file).map_err(|why| manifest.complain("run.guest", None, why))?)
            }
            RunEntry::Command(argv) => {
                let directory = directory
                    .canonicalize()
                    .map_err(|why| manifest.complain("run.command", None, format!("{}: {why}", directory.display())))?;
                Run::Command(CommandLine { argv: argv.clone(), directory })
            }
        };
        let mut tools = BTreeMap::new();
        for (name, tool) in &manifest.tools {
            let component = self
                .component(directory, &tool.component)
                .map_err(|why| manifest.complain(&format!("tools.{name}.component"), None, why))?;
            let run = ToolRun::Component(component);
            tools.insert(name.clone(), Tool { run, changes_world: tool.changes_world });
        }
        Capsule::new(manifest.terms.clone(), run, tools, Some(found.home.digest))
            .map_err(|invalid| manifest.invalid(invalid))
    }

    fn component(&mut self, directory: &Path, path: &Path) -> Result<Component, String> {
        let file = directory.join(path);
        let failed = |problem: FileProblem| format!("{}: {problem}", file.display());
        let identity = identity(&file);
        if let Some(component) = self.components.get(&identity) {
            return Ok(component.clone());
        }
        let left = LONGEST_TEAM - self.bytes;
        let bytes = read_below(directory, &file, LONGEST_COMPONENT.min(left) + 1).map_err(failed)?;
        match bytes.len() {
            0 => return Err(failed(FileProblem::Empty)),
            len if len > LONGEST_COMPONENT => return Err(failed(FileProblem::TooLong(LONGEST_COMPONENT))),
            len if len > left => {
                return Err(format!(
                    "{}: all components together are longer than {LONGEST_TEAM} bytes",
                    file.display()
                ));
            }
            len => self.bytes += len,
        }
        let component = Component { path: file.clone(), digest: Digest::of(&bytes), bytes: bytes.into() };
        self.components.insert(identity, component.clone());
        Ok(component)
    }
}

/// What tells two files apart, however their paths are spelled.
fn identity(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_owned())
}

/// The beginning of a regular file below `directory`, at most `most` bytes of it. No link may lead out.
fn read_below(directory: &Path, file: &Path, most: usize) -> Result<Vec<u8>, FileProblem> {
    let directory = directory.canonicalize()?;
    let real = file.canonicalize()?;
    if !real.starts_with(&directory) {
        return Err(FileProblem::LeadsOut(directory));
    }
    read_regular(&real, most)
}

fn read_regular(file: &Path, most: usize) -> Result<Vec<u8>, FileProblem> {
    // Looked at before it is opened, since opening a device can do things; and again after, since it may be another
    // file by then. Opening a FIFO this way does not wait for its writer.
    regular(&std::fs::metadata(file)?)?;
    let opened: File =
        OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY).open(file)?;
    let metadata = opened.metadata()?;
    regular(&metadata)?;
    // The length is a hint: what is read is counted.
    let hint = usize::try_from(metadata.len()).unwrap_or(usize::MAX).min(most);
    let mut bytes = Vec::with_capacity(hint.min(1 << 20));
    opened.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn regular(metadata: &std::fs::Metadata) -> Result<(), FileProblem> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(FileProblem::NotAFile(if metadata.is_dir() { "a directory" } else { "a device, a pipe or a socket" }))
}
