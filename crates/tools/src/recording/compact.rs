//! A recording becomes smaller.

use super::counted;
use anyhow::anyhow;
use record::{Compacted, Folder, Left};
use std::path::Path;

/// Compacts the segments of a recording, one line each.
///
/// # Errors
/// A text for the user: there is no such recording, somebody writes it, or the disk does not take the smaller one.
pub(super) fn run(folder: &Path) -> anyhow::Result<()> {
    if !folder.is_dir() {
        return Err(anyhow!("{} is no folder of a recording", folder.display()));
    }
    let (mut before, mut after) = (0, 0);
    record::compact(Folder::to_write(folder)?, |done| {
        before += done.before;
        after += done.after;
        eprintln!("{}", line(done));
    })?;
    eprintln!("{before} bytes became {after}");
    Ok(())
}

fn line(done: &Compacted) -> String {
    let Compacted { segment, records, before, after, left } = done;
    let records = counted(*records, "record");
    let left = match left {
        None => return format!("{segment}: {records}, {before} bytes became {after}"),
        Some(Left::Open) => "it has no end: whoever wrote it was killed, or writes it still",
        Some(Left::Damaged) => "it is damaged, which a copy would hide",
        Some(Left::Small) => "it would not become smaller",
    };
    format!("{segment}: {records}, {before} bytes, left as it is: {left}")
}
