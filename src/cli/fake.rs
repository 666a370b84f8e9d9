//! `treeward fake`: stand-ins for what treeward talks to, with a taste for trouble.

use treeward::harness::fake::{Script, help, perform};

use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::out::Out;

/// Plays a harness that does what it is told, however hostile: for tests, and for trying things without an account.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// A subprocess that does what its options say, in their order, then exits with 0; `--help` lists them
    #[command(disable_help_flag = true)]
    Harness {
        /// Options; see `treeward fake harness --help`
        #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
}

const BEFORE: &str = "\
Does what its options say, in their order, then exits with 0.

treeward fake harness [OPTION]…
";

const AFTER: &str = "
Examples:
  echo hello | treeward fake harness --plain --read --echo
  command = [\"treeward\", \"fake\", \"harness\", \"--plain\", \"--ignore-term\", \"--setsid-child\", \"1h\", \"--hang\"]";

/// Plays it. Some options never return.
pub fn run(args: &Args) -> Outcome {
    let What::Harness { options } = &args.what;
    if options.iter().any(|option| option == "--help" || option == "-h") {
        let mut out = Out::stdout();
        [BEFORE, &help(), AFTER].iter().flat_map(|page| page.lines()).try_for_each(|line| out.text(line))?;
        out.finish()?;
        return Ok(Exit::Ok);
    }
    let script = Script::parse(options).map_err(|bad| Failure::new(Exit::Usage, bad))?;
    std::process::exit(perform(&script).into())
}
