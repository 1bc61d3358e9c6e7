//! `quoteway config`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{Config, Selection, Weight, files, import, json, load, ports, search};

/// Shows parameters, or works on a file.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ConfigCommand {
    /// Show only parameters whose name (ours or RMDS's) or meaning has this in it
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Every parameter as JSON, for programs
    #[arg(long, conflicts_with = "name")]
    pub json: bool,
    /// Check or import
    #[command(subcommand)]
    pub file: Option<FileCommand>,
}

/// Actions on a file.
#[derive(Debug, Subcommand)]
pub enum FileCommand {
    /// Check a configuration file (TOML or rmds.cnf) and print what differs from the defaults
    Check {
        /// The file
        file: PathBuf,
        /// Print every parameter, those included that have their default
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        selection: Selection,
    },
    /// Write an rmds.cnf as TOML, with comments on where each value comes from and on what has no effect
    #[command(
        after_help = "Examples:\n  quoteway config import rmds.cnf\n  quoteway config import rmds.cnf --host mdhost1 --instance 2 -o mdhost1.toml"
    )]
    Import {
        /// The file
        file: PathBuf,
        /// Where to write; without it, to standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Write over a file that is there
        #[arg(long)]
        force: bool,
        /// What is not understood becomes a comment instead of ending the import
        #[arg(long)]
        lenient: bool,
        #[command(flatten)]
        #[allow(missing_docs, reason = "clap would show it")]
        selection: Selection,
    },
}

/// Does what is asked; the result is for standard output.
///
/// # Errors
/// Every fault of the file; a name that nothing has; an output file that cannot be written.
pub fn run(command: &ConfigCommand) -> Result<String, String> {
    match (&command.file, &command.name) {
        (Some(FileCommand::Check { file, all, selection }), _) => check(file, *all, selection),
        (Some(FileCommand::Import { file, output, force, lenient, selection }), _) => {
            let text = import(file, selection, *lenient).map_err(|e| e.to_string())?;
            let Some(path) = output else { return Ok(text) };
            write(path, &text, *force)?;
            Ok(format!("{} is written\n", path.display()))
        }
        (None, Some(name)) => search(name),
        (None, None) if command.json => Ok(json() + "\n"),
        (None, None) => Ok(Config::default().document()),
    }
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!("{}: is there already: choose another name, or overwrite it with --force", path.display())
        }
        _ => format!("{}: cannot be written: {e}", path.display()),
    };
    let open = if force { net::output::create } else { net::output::create_new };
    open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)
}

fn check(file: &Path, all: bool, selection: &Selection) -> Result<String, String> {
    let loaded = load(file, selection).map_err(|e| e.to_string())?;
    for note in &loaded.notes {
        let word = if note.weight == Weight::Warning { "warning" } else { "note" };
        net::output::tell(format_args!("{word}: {note}"));
    }
    let faults = ports::faults(&loaded.config);
    if !faults.is_empty() {
        let named = |fault: &String| format!("{}: {fault}", file.display());
        return Err(faults.iter().map(named).collect::<Vec<_>>().join("\n"));
    }
    // The file may be for another machine, so these are no faults of it.
    for fault in files::faults(&loaded.config) {
        net::output::tell(format_args!("warning: {fault}"));
    }
    if all {
        return Ok(loaded.config.document());
    }
    let changes = loaded.config.changes();
    let count = changes.lines().filter(|line| line.contains(" = ")).count();
    Ok(match count {
        0 => format!("{}: OK, every parameter has its default\n", file.display()),
        1 => format!("{}: OK, 1 parameter differs from its default\n{changes}", file.display()),
        count => format!("{}: OK, {count} parameters differ from their defaults\n{changes}", file.display()),
    })
}
