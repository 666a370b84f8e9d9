//! `treeward new`: a capsule to start from.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use treeward::capsule::check_name;

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;
use super::place::quoted;

/// Makes a directory with a capsule of your own, ready to run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is overwritten: the directory must not exist yet, or be empty.

Examples:
  treeward new mine --template guest
  treeward new mine --template command
  treeward run mine --task 'Hello'")]
pub struct Args {
    /// The directory to make; its last part becomes the capsule's name
    #[arg(value_name = "NAME")]
    name: PathBuf,
    /// What to start from
    #[arg(long, value_enum, default_value = "guest")]
    template: Template,
    /// What was made as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Template {
    /// A WebAssembly component written in Rust, with its built component
    Guest,
    /// A program, written in Python: any other will do
    Command,
}

/// A file of a template: its path in the new directory, and what is in it.
type File = (&'static str, &'static [u8]);

macro_rules! file {
    ($to:literal, $from:literal) => {
        ($to, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $from)))
    };
}

/// Where a template says `{{name}}` the capsule's name is put. No component holds that text.
const NAME: &str = "{{name}}";

const GUEST: &[File] = &[
    file!("capsule.toml", "templates/guest/capsule.toml"),
    file!("Cargo.toml", "templates/guest/Cargo.toml.in"),
    file!("Cargo.lock", "templates/guest/Cargo.lock"),
    file!("README.md", "templates/guest/README.md"),
    file!(".gitignore", "templates/guest/.gitignore"),
    file!("src/lib.rs", "templates/guest/src/lib.rs"),
    file!("guest.wasm", "templates/guest/guest.wasm"),
    file!("wit/treeward.wit", "wit/treeward.wit"),
];

const COMMAND: &[File] = &[
    file!("capsule.toml", "templates/command/capsule.toml"),
    file!("README.md", "templates/command/README.md"),
    file!("agent.py", "templates/command/agent.py"),
];

impl Template {
    fn files(self) -> &'static [File] {
        match self {
            Self::Guest => GUEST,
            Self::Command => COMMAND,
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Guest => "a capsule that runs as it is; its README.md says how to build it anew",
            Self::Command => "a capsule that runs as it is; its README.md says what a program has to do",
        }
    }
}

/// Makes the directory.
pub fn run(args: &Args) -> Outcome {
    let name = args.name.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check_name(name)
        .map_err(|bad| Failure::new(Exit::Usage, bad).help("treeward new NAME, like `treeward new mine`"))?;
    make(&args.name, name, args.template.files())?;
    let mut out = Out::stdout();
    if args.json {
        let files: Vec<&str> = args.template.files().iter().map(|(path, _)| *path).collect();
        out.json(&json!({ "name": name, "directory": args.name, "files": files }).to_string())?;
    } else {
        let directory = args.name.display().to_string();
        out.text(&format!("{directory}: {}", args.template.about()))?;
        out.text(&format!("next: treeward run {} --task 'Hello'", quoted(&directory)))?;
    }
    out.finish()?;
    Ok(Exit::Ok)
}

fn make(directory: &Path, name: &str, files: &[File]) -> Result<(), Failure> {
    let failed = |path: &Path, error: io::Error| {
        let failure = Failure::new(Exit::Usage, format!("{}: {error}", path.display()));
        match error.kind() {
            ErrorKind::AlreadyExists => failure.help("nothing is overwritten: choose another name, or move it away"),
            ErrorKind::NotFound => failure.help("make the directory above it first"),
            _ => failure,
        }
    };
    match DirBuilder::new().create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_empty(directory) => {}
        made => made.map_err(|error| failed(directory, error))?,
    }
    for (path, content) in files {
        let path = directory.join(path);
        let content = filled(content, name);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        // `create_new`: not even a file that appeared meanwhile is overwritten, nor a link followed.
        let written = OpenOptions::new().write(true).create_new(true).open(&path);
        written.and_then(|mut file| file.write_all(&content)).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

fn filled(content: &[u8], name: &str) -> Vec<u8> {
    match std::str::from_utf8(content) {
        Ok(text) => text.replace(NAME, name).into_bytes(),
        Err(_) => content.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use treeward::capsule::Team;

    use super::*;

    #[test]
    fn what_is_made_is_a_capsule_of_that_name() {
        for template in [Template::Guest, Template::Command] {
            let place = tempfile::tempdir().unwrap();
            let directory = place.path().join("mine");
            make(&directory, "mine", template.files()).unwrap();
            assert_eq!(Team::load(&directory).unwrap().root().name(), "mine");
            for (path, _) in template.files() {
                let content = fs::read(directory.join(path)).unwrap();
                assert!(!content.windows(NAME.len()).any(|part| part == NAME.as_bytes()), "{path} still has a hole");
            }
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("mine");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("capsule.toml"), "precious").unwrap();
        let failure = make(&directory, "mine", GUEST).unwrap_err();
        assert!(failure.lines().contains("nothing is overwritten"), "{}", failure.lines());
        assert_eq!(fs::read(directory.join("capsule.toml")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        let file = place.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert!(make(&file, "file", GUEST).is_err());
        assert!(make(&place.path().join("no/mine"), "mine", GUEST).unwrap_err().lines().contains("directory above"));
    }

    #[test]
    fn a_name_that_is_none_is_refused_before_anything_is_made() {
        for name in ["Mine", "..", "/", "", "a b", "\u{1b}[2J"] {
            let args = Args { name: name.into(), template: Template::Guest, json: false };
            assert_eq!(run(&args).unwrap_err().exit(), Exit::Usage, "{name:?}");
        }
    }
}
