//! The command line: one file per command, over the library's public interface.

#[cfg(feature = "harness")]
mod call;
mod check;
mod completions;
mod diff;
mod doctor;
mod exit;
mod failure;
#[cfg(feature = "harness")]
mod fake;
mod faults;
mod live;
mod new;
mod out;
mod place;
mod ps;
mod records;
mod run;
mod soak;
mod source;
mod stop;
mod trace;
mod tree;
mod verify;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs trees of agent capsules in one process, under supervision.
#[derive(Debug, Parser)]
#[command(
    name = "treeward",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = format!("{EXAMPLES}\n\n{}", exit::HELP)
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  treeward run examples/survey --input .     a capsule on a directory, its tree on the screen
  treeward tree                              the latest tree again
  treeward trace --path 0.1                  what one session did, record by record
  treeward ps                                what runs now, in every process
  treeward stop 0.1                          one session of it, with everything below
  treeward new mine --template guest         a capsule of your own";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Tree(tree::Args),
    Trace(trace::Args),
    Verify(verify::Args),
    Diff(diff::Args),
    Check(check::Args),
    Faults(faults::Args),
    Ps(ps::Args),
    Stop(stop::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    New(new::Args),
    #[cfg(feature = "harness")]
    Call(call::Args),
    #[cfg(feature = "harness")]
    Fake(fake::Args),
    Soak(soak::Args),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Command::Run(args) => run::run(args),
        Command::Tree(args) => tree::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Check(args) => check::run(args),
        Command::Faults(args) => faults::run(args),
        Command::Ps(args) => ps::run(args),
        Command::Stop(args) => stop::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => completions::run(args),
        Command::New(args) => new::run(args),
        #[cfg(feature = "harness")]
        Command::Call(args) => call::run(args),
        #[cfg(feature = "harness")]
        Command::Fake(args) => fake::run(args),
        Command::Soak(args) => soak::run(args),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // Where standard error is gone too there is nobody left to tell.
            let _unheard = std::io::Write::write_all(&mut std::io::stderr(), failure.lines().as_bytes());
            failure.exit().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
