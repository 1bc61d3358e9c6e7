//! The product that is measured: the binary `quoteway`, in processes of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use measure::process::{Fault, Process};

/// The product is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "quoteway, which is to be measured, is neither beside this program nor on PATH: `cargo build --release` makes it, QUOTEWAY_BIN \
     names another"
)]
pub struct NotThere;

impl From<NotThere> for Fault {
    fn from(error: NotThere) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Where the product is: `QUOTEWAY_BIN`, else beside this program, else the first on `PATH`.
///
/// # Errors
/// It is nowhere.
pub fn binary() -> Result<PathBuf, NotThere> {
    if let Some(named) = env::var_os("QUOTEWAY_BIN") {
        return Ok(named.into());
    }
    let beside = env::current_exe().ok().and_then(|exe| Some(beside(&exe)?.join("quoteway")));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut candidates = beside.into_iter().chain(env::split_paths(&path).map(|folder| folder.join("quoteway")));
    candidates.find(|program| program.is_file()).ok_or(NotThere)
}

/// The folder of binaries that a program is in; those of tests are in `deps` below it.
fn beside(exe: &Path) -> Option<&Path> {
    let folder = exe.parent()?;
    if folder.ends_with("deps") { folder.parent() } else { Some(folder) }
}

/// Starts the product with arguments; `before` are words in front of it that lead to it (`taskset -c 1`).
///
/// # Errors
/// It is not there or cannot be started.
pub fn start(name: &str, before: &[String], args: &[String]) -> Result<Process, Fault> {
    start_program(&binary()?, name, before, args)
}

/// Starts a part of a measurement, which is this program in a process of its own: `args` follow `part`.
///
/// # Errors
/// It cannot be started.
pub fn start_part(name: &str, before: &[String], args: &[String]) -> Result<Process, Fault> {
    let exe = env::current_exe().map_err(|e| format!("where this program is: {e}"))?;
    let args: Vec<String> = ["part".to_owned()].into_iter().chain(args.iter().cloned()).collect();
    start_program(&exe, name, before, &args)
}

fn start_program(program: &Path, name: &str, before: &[String], args: &[String]) -> Result<Process, Fault> {
    let mut words = before.iter().map(Into::into).chain([program.as_os_str().to_owned()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    Process::start(name, command.args(words).args(args).env("QUOTEWAY_LOG", "warn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_sought_in_the_folder_of_binaries() {
        assert_eq!(beside(Path::new("/opt/bin/quoteway-lab")), Some(Path::new("/opt/bin")));
        assert_eq!(beside(Path::new("/t/debug/deps/lab-1234")), Some(Path::new("/t/debug")));
    }
}
