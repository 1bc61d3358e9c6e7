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

/// Replaces this process by `quoteway-lab` with the same arguments: the one beside this binary, else the first on `PATH`.
///
/// # Errors
/// It is not installed, or cannot be started; a text that says how to get it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PROGRAM)));
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates = beside.into_iter().chain(env::split_paths(&path).map(|folder| folder.join(PROGRAM)));
    let found: Option<PathBuf> = candidates.into_iter().find(|program| program.is_file());
    let Some(program) = found else {
        return Err(anyhow!(
            "{PROGRAM} is neither beside this binary nor on PATH. It is a program of its own: \
             `cargo build --release --package {PROGRAM}` makes it, `make install` installs it"
        ));
    };
    let why = Command::new(&program).args(&args.rest).exec();
    Err(anyhow!("{}: {why}", program.display()))
}
