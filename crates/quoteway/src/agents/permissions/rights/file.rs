//! The rights file: watched, and taken as a whole or not at all.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use permissions::rights::Rights;

use super::Look;
use crate::config;

/// How often the file is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// What tells one state of a file from another: time of its last change, length, inode.
type Mark = (Option<SystemTime>, u64, u64);

/// The file, and what it said last.
pub(in crate::agents::permissions) struct RightsFile {
    path: PathBuf,
    mark: Mark,
    rights: Arc<Rights>,
    text: String,
}

impl RightsFile {
    /// Reads the file for the first time.
    pub(super) fn open(c: &config::Permissions) -> io::Result<Self> {
        let path = PathBuf::from(&c.rights_file);
        let mark = mark(&path).unwrap_or_default();
        let (text, rights) = read(&path)?;
        Ok(Self { path, mark, rights: rights.into(), text })
    }

    pub(super) fn rights(&self) -> Arc<Rights> {
        self.rights.clone()
    }

    pub(super) fn name(&self) -> String {
        format!("the rights file {}", self.path.display())
    }

    pub(super) fn look(&mut self) -> Look {
        let mark = match mark(&self.path) {
            Ok(mark) => mark,
            Err(error) => {
                self.mark = Mark::default();
                return Look::Gone(error.to_string());
            }
        };
        if mark == self.mark {
            return Look::Same;
        }
        self.mark = mark;
        match read(&self.path) {
            Ok((text, _)) if text == self.text => Look::Same,
            Ok((text, rights)) => {
                (self.text, self.rights) = (text, rights.into());
                Look::New
            }
            Err(e) => {
                tracing::error!("the rights stay as they were: {e}");
                Look::Same
            }
        }
    }
}

fn mark(path: &Path) -> io::Result<Mark> {
    let found = std::fs::metadata(path)?;
    Ok((found.modified().ok(), found.len(), found.ino()))
}

fn read(path: &Path) -> io::Result<(String, Rights)> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| io::Error::new(e.kind(), format!("the rights file {name} cannot be read: {e}")))?;
    let rights = Rights::parse(&name, &text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
    Ok((text, rights))
}

/// What is wrong with a rights file: nothing, or every fault.
pub(crate) fn faults(path: &str) -> Option<String> {
    read(Path::new(path)).err().map(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHTS: &str = "version = \"1\"\n[services.FEED]\nid = 1\n[users.alice]\n";

    #[test]
    fn a_bad_file_changes_nothing_and_one_that_is_gone_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rights.toml");
        let c = config::Permissions { rights_file: path.display().to_string(), ..config::Permissions::default() };
        assert!(RightsFile::open(&c).is_err_and(|e| e.to_string().contains("rights.toml cannot be read")));
        std::fs::write(&path, RIGHTS).unwrap();
        let mut source = RightsFile::open(&c).unwrap();
        assert_eq!(source.look(), Look::Same);
        std::fs::write(&path, format!("{RIGHTS}[users.bob]\ngruops = []\n")).unwrap();
        assert_eq!(source.look(), Look::Same, "a fault");
        assert_eq!(source.rights().users().collect::<Vec<_>>(), ["alice"]);
        std::fs::write(&path, format!("{RIGHTS}[users.bobby]\n")).unwrap();
        assert_eq!(source.look(), Look::New);
        assert_eq!(source.rights().users().collect::<Vec<_>>(), ["alice", "bobby"]);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(source.look(), Look::Gone(_)));
        assert!(matches!(source.look(), Look::Gone(_)));
        std::fs::write(&path, format!("{RIGHTS}[users.bobby]\n")).unwrap();
        assert_eq!(source.look(), Look::Same);
    }
}
