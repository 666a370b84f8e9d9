//! `treeward completions`: what a shell needs to complete the command line.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::exit::Exit;
use super::failure::Outcome;
use super::out::Out;

/// Prints completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  treeward completions bash > ~/.local/share/bash-completion/completions/treeward
  treeward completions zsh > \"${fpath[1]}/_treeward\"
  treeward completions fish > ~/.config/fish/completions/treeward.fish")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Supported,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Supported {
    Bash,
    Zsh,
    Fish,
}

/// Prints them.
pub fn run(args: &Args) -> Outcome {
    let shell = match args.shell {
        Supported::Bash => Shell::Bash,
        Supported::Zsh => Shell::Zsh,
        Supported::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::Cli::command(), "treeward", &mut script);
    let mut out = Out::stdout();
    out.text(String::from_utf8_lossy(&script).trim_end())?;
    out.finish()?;
    Ok(Exit::Ok)
}
