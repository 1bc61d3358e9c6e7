//! An order of items as recorded trades and quotes come: in bursts, some items far more often than others.
//!
//! The recording has a few shares, and no million of them. So each second of each share's quotes and of its trades stands for an item of its own: within a
//! second one item comes again and again, as it does in a market, beside the few others of that second.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::scenario::Scenario;
use feed::random::hash;
use feed::replay::ticks::TickFile;
use measure::process::Fault;

/// The order that is made here.
const TICKS: &str = "ticks";

/// What a source's `--order` is to be; `None` where the scenario says nothing of it. A trace is written into the folder.
///
/// # Errors
/// There are no recorded ticks, or the trace cannot be written.
pub fn order(scenario: &Scenario, folder: &Path) -> Result<Option<String>, Fault> {
    if scenario.order != TICKS {
        return Ok(Some(scenario.order.clone()).filter(|order| !order.is_empty()));
    }
    let (from, to) = (recorded(), folder.join("order"));
    write(&from, &to).map_err(|e| {
        let from = from.display();
        Fault::Failed(format!(
            "the order of recorded ticks out of {from}: {e}; QUOTEWAY_DATA names the folder above it"
        ))
    })?;
    Ok(Some(to.display().to_string()))
}

/// The recorded ticks, outside of the project as everywhere.
fn recorded() -> PathBuf {
    let folder = std::env::var_os("QUOTEWAY_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    folder.join("us-equity-ticks")
}

/// Writes the item numbers of all ticks in a folder, one a line.
fn write(folder: &Path, to: &Path) -> io::Result<()> {
    let mut files: Vec<TickFile> =
        std::fs::read_dir(folder)?.flatten().filter_map(|entry| TickFile::of(&entry.path())).collect();
    files.sort_by_cached_key(|file| file.path.clone());
    let mut ticks = Vec::new();
    for (number, file) in (0_u8..).zip(&files) {
        let mut rows = file.rows()?;
        while let Some(tick) = rows.next_row()? {
            ticks.push((tick.millis, number));
        }
    }
    if ticks.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no recorded ticks there"));
    }
    ticks.sort_by_key(|(millis, _)| *millis);
    let mut file = io::BufWriter::new(std::fs::File::create(to)?);
    for (millis, number) in ticks {
        let [a, b, c, d] = (millis / 1_000).to_le_bytes();
        writeln!(file, "{}", hash(0, &[a, b, c, d, number]) as u32)?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_ticks_come_in_bursts_of_their_items() {
        let folder = tempfile::tempdir().unwrap();
        if !recorded().is_dir() {
            println!("no recorded ticks in {}: set QUOTEWAY_DATA", recorded().display());
            return;
        }
        let to = folder.path().join("order");
        write(&recorded(), &to).unwrap();
        let numbers: Vec<u32> =
            std::fs::read_to_string(to).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        let items: std::collections::HashSet<_> = numbers.iter().collect();
        assert!(
            numbers.len() > 1_000_000 && (50_000..300_000).contains(&items.len()),
            "{} of {}",
            items.len(),
            numbers.len()
        );
        let again = numbers.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(again * 3 > numbers.len(), "{again} of {} are of the item before", numbers.len());
    }

    #[test]
    fn a_folder_without_ticks_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(folder.path(), &folder.path().join("order")).unwrap_err();
        assert_eq!(error.to_string(), "no recorded ticks there");
    }
}
