//! `quoteway config`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{Config, Selection, Weight, files, import, json, load, search};

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

/// What can be done with a file.
#[derive(Debug, Subcommand)]
pub enum FileCommand {
    /// Check a configuration file (TOML or rmds.cnf) and print what it amounts to
    Check {
        /// The file
        file: PathBuf,
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
        (Some(FileCommand::Check { file, selection }), _) => check(file, selection),
        (Some(FileCommand::Import { file, output, selection }), _) => {
            let text = import(file, selection).map_err(|e| e.to_string())?;
            let Some(path) = output else { return Ok(text) };
            std::fs::write(path, text).map_err(|e| format!("{}: cannot be written: {e}", path.display()))?;
            Ok(format!("{} is written\n", path.display()))
        }
        (None, Some(name)) => search(name),
        (None, None) if command.json => Ok(json() + "\n"),
        (None, None) => Ok(Config::default().document()),
    }
}

fn check(file: &Path, selection: &Selection) -> Result<String, String> {
    let loaded = load(file, selection).map_err(|e| e.to_string())?;
    for note in &loaded.notes {
        let word = if note.weight == Weight::Warning { "warning" } else { "note" };
        eprintln!("{word}: {note}");
    }
    // The file may be for another machine, so these are no faults of it.
    for fault in files::faults(&loaded.config) {
        eprintln!("warning: {fault}");
    }
    Ok(loaded.config.document())
}
