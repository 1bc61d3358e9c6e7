//! A journal in the format of before recordings, which is not read any more: it is said, and not taken for an empty folder.

use std::io;
use std::path::Path;

/// Ending of its files.
const ENDING: &str = ".journal";

/// Looks whether a folder has such a journal. A folder that is not there has none.
///
/// # Errors
/// The folder has one, with what to do about it, or cannot be read.
pub(super) fn refuse(folder: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| is_segment(name)).map(str::to_owned));
    }
    let Some(first) = names.iter().min() else { return Ok(()) };
    let count = names.len();
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!(
            "{count} files such as {first} are a journal of a version before journals were recordings, which this one cannot play; let that \
             version publish what they have, or move them away, and start again: without them the delayed service begins anew"
        ),
    ))
}

/// Names were the time of the beginning in nanoseconds, and whether a process had begun with the file.
fn is_segment(name: &str) -> bool {
    let Some((start, kind)) = name.strip_suffix(ENDING).and_then(|name| name.split_once('-')) else { return false };
    start.len() == 20 && start.bytes().all(|byte| byte.is_ascii_digit()) && matches!(kind, "begin" | "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_journal_is_told_with_what_to_do_and_nothing_else_is_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        refuse(&folder.path().join("none")).unwrap();
        for name in ["0000000001.qwr", "alive", "lock", "notes.journal", "1-begin.journal"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        refuse(folder.path()).unwrap();
        for name in ["01764486000000000000-begin.journal", "01764486060000000000-on.journal"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let error = refuse(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("2 files such as 01764486000000000000-begin.journal are a journal"), "{error}");
        assert!(error.contains("move them away"), "{error}");
    }
}
