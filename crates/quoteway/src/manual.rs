//! Man pages and shell completions, made from what the command line declares.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;

/// Writes the page of a program (`quoteway.1`) and of each subcommand (`quoteway-serve.1`) into `dir`, which is made if it is not there.
/// Returns the files.
///
/// # Errors
/// A file cannot be written.
pub fn man_pages(command: Command, name: &str, dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(dir)?;
    let mut written = Vec::new();
    let mut command = command.disable_help_subcommand(true);
    command.build();
    page(&command, name, dir, &mut written)?;
    Ok(written)
}

fn page(command: &Command, name: &str, dir: &Path, written: &mut Vec<PathBuf>) -> io::Result<()> {
    let file = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone().display_name(name));
    man.manual("Quoteway").source(concat!("quoteway ", env!("CARGO_PKG_VERSION"))).render(&mut text)?;
    fs::write(&file, text)?;
    written.push(file);
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        page(sub, &format!("{name}-{}", sub.get_name()), dir, written)?;
    }
    Ok(())
}

/// The completions of a program for a shell, to be put where it looks for them.
pub fn completions(mut command: Command, name: &str, shell: clap_complete::Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    text
}
