//! `quoteway lab`: hands over to `quoteway-lab`, a program of its own that is not needed to run the product.

use anyhow::anyhow;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Name of the program.
pub(crate) const PROGRAM: &str = "quoteway-lab";

/// The command line of `lab`: all of it is `quoteway-lab`'s.
#[derive(Debug, Clone, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What quoteway-lab is given
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// The program beside this binary, else the first on `PATH`.
fn program() -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PROGRAM)));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut candidates = beside.into_iter().chain(env::split_paths(&path).map(|folder| folder.join(PROGRAM)));
    candidates.find(|program| program.is_file())
}

/// Replaces this process by `quoteway-lab` with the same arguments.
///
/// # Errors
/// It is not installed, or cannot be started; a text that says how to get it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let Some(program) = program() else {
        return Err(anyhow!(
            "{PROGRAM} is neither beside this binary nor on PATH. It is a program of its own: \
             `cargo build --release --package {PROGRAM}` makes it, `make install` installs it"
        ));
    };
    let why = Command::new(&program).args(&args.rest).exec();
    Err(anyhow!("{}: {why}", program.display()))
}

/// The command line for completions: where `quoteway-lab` is installed, `lab` knows the names of its scenarios.
pub(crate) fn with_scenarios(command: clap::Command) -> clap::Command {
    let list = program().and_then(|program| Command::new(program).arg("list").output().ok());
    let text = list.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let names = scenarios(&text);
    if names.is_empty() {
        return command;
    }
    // clap wants names that live as long as the program, which ends with the completions.
    let names = names.into_iter().map(|name| &*name.leak());
    let values = clap::builder::PossibleValuesParser::new(names);
    command.mut_subcommand("lab", |lab| lab.mut_arg("rest", |arg| arg.value_parser(values)))
}

/// The names in the list that `quoteway-lab list` prints: a line that is not indented begins with one, of a group with a colon.
fn scenarios(list: &str) -> Vec<String> {
    let words = list.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    let names = words.map(|word| word.trim_end_matches(':')).filter(|word| !word.is_empty());
    let mut names: Vec<String> = ["list", "all"].into_iter().chain(names).map(str::to_owned).collect();
    // Nothing but what is always there: the program has said something else.
    names.truncate(if names.len() > 2 { usize::MAX } else { 0 });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_and_groups_are_read_from_the_list() {
        let list = "codec   Codec: the updates\n        3 s a run\n\nwebsocket: all of these by one name\nhop  One hop\n\nreports: all that. all: everything.\n";
        assert_eq!(scenarios(list), ["list", "all", "codec", "websocket", "hop", "reports"]);
        assert!(scenarios("").is_empty());
    }
}
