//! The rights file: watched, and taken as a whole or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, SystemTime};

use std::os::unix::fs::MetadataExt as _;

use permissions::rights::Rights;

use super::{Mail, Office};
use crate::config;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What tells one state of a file from another: time of its last change, length, inode.
type Mark = (Option<SystemTime>, u64, u64);

/// The file, and what it said last.
pub(super) struct Source {
    path: PathBuf,
    mark: Mark,
    rights: Arc<Rights>,
    text: String,
    is_lost: bool,
}

/// What a look at the file has brought.
enum Look {
    Same,
    New,
    Lost,
    Back,
}

impl Source {
    /// Reads the file for the first time.
    pub(super) fn open(c: &config::Permissions) -> io::Result<Self> {
        let path = PathBuf::from(&c.rights_file);
        let mark = mark(&path).unwrap_or_default();
        let (text, rights) = read(&path)?;
        Ok(Self { path, mark, rights: rights.into(), text, is_lost: false })
    }

    pub(super) fn rights(&self) -> Arc<Rights> {
        self.rights.clone()
    }

    fn look(&mut self) -> Look {
        let Ok(mark) = mark(&self.path) else {
            let was_lost = std::mem::replace(&mut self.is_lost, true);
            self.mark = Mark::default();
            return if was_lost { Look::Same } else { Look::Lost };
        };
        if mark == self.mark {
            return Look::Same;
        }
        self.mark = mark;
        match read(&self.path) {
            Ok((text, rights)) => {
                let was_lost = std::mem::take(&mut self.is_lost);
                if text == self.text {
                    return if was_lost { Look::Back } else { Look::Same };
                }
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

/// Watches the file until `stop`.
pub(super) fn start(mut source: Source, office: Arc<Office>, stop: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    Builder::new().name("rights".to_owned()).spawn(move || {
        while !stop.load(Ordering::Acquire) {
            match source.look() {
                Look::Same => {}
                Look::New => {
                    tracing::info!("new rights: version {:?} of {}", source.rights.version(), source.path.display());
                    office.publish(&source.rights());
                }
                Look::Lost => {
                    tracing::error!("the rights file {} is gone", source.path.display());
                    office.tell_all(|| Mail::Lost);
                }
                Look::Back => {
                    tracing::info!("the rights file {} is back", source.path.display());
                    office.tell_all(|| Mail::Back);
                }
            }
            park_timeout(LOOK);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHTS: &str = "version = \"1\"\n[services.FEED]\nid = 1\n[users.alice]\n";

    #[test]
    fn a_bad_file_changes_nothing_and_a_lost_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rights.toml");
        let c = config::Permissions { rights_file: path.display().to_string(), ..config::Permissions::default() };
        assert!(Source::open(&c).is_err_and(|e| e.to_string().contains("rights.toml cannot be read")));
        std::fs::write(&path, RIGHTS).unwrap();
        let mut source = Source::open(&c).unwrap();
        assert!(matches!(source.look(), Look::Same));
        std::fs::write(&path, format!("{RIGHTS}[users.bob]\ngruops = []\n")).unwrap();
        assert!(matches!(source.look(), Look::Same), "a fault");
        assert_eq!(source.rights().users().collect::<Vec<_>>(), ["alice"]);
        std::fs::write(&path, format!("{RIGHTS}[users.bobby]\n")).unwrap();
        assert!(matches!(source.look(), Look::New));
        assert_eq!(source.rights().users().collect::<Vec<_>>(), ["alice", "bobby"]);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(source.look(), Look::Lost));
        assert!(matches!(source.look(), Look::Same));
        std::fs::write(&path, format!("{RIGHTS}[users.bobby]\n")).unwrap();
        assert!(matches!(source.look(), Look::Back));
    }
}
