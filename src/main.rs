//! The `treeward` command.

mod cli;

fn main() -> std::process::ExitCode {
    // The same binary is the warden, where it is started as one: before anything else, so that it stays small.
    #[cfg(feature = "harness")]
    treeward::harness::warden_main_if_asked();
    cli::run()
}
