//! The rights file: watched, and taken as a whole or not at all. It may be written in place, and slowly: it counts when it has not changed for a
//! while, longer where users would lose all that they have.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use permissions::rights::Rights;

use super::{Look, complete};

/// How often the file is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// How long the file has to be as it is before it counts.
const SETTLED: Duration = Duration::from_secs(1);
/// And where it is shorter, or lacks users that are known: that looks like a file that somebody is still writing.
const SETTLED_WITH_LESS: Duration = Duration::from_secs(3);

/// The marks that tell one state of a file from another: time of its last change, length, inode.
type Mark = (Option<SystemTime>, u64, u64);

/// The file, and what it said last.
pub(in crate::agents::permissions) struct RightsFile {
    path: PathBuf,
    mark: Mark,
    /// Another state than the one that was read, and since when it is that.
    next: Option<(Mark, Instant)>,
    rights: Arc<Rights>,
    text: String,
}

impl RightsFile {
    /// Reads the file for the first time.
    pub(super) fn open(c: &config::Permissions) -> io::Result<Self> {
        let path = PathBuf::from(&c.rights_file);
        let mark = mark(&path).unwrap_or_default();
        let (text, rights) = config::rights_file(&path)?;
        Ok(Self { path, mark, next: None, rights: rights.into(), text })
    }

    pub(super) fn rights(&self) -> Arc<Rights> {
        self.rights.clone()
    }

    pub(super) fn name(&self) -> String {
        format!("the rights file {}", self.path.display())
    }

    pub(super) fn look(&mut self) -> Look {
        self.look_at(Instant::now())
    }

    fn look_at(&mut self, now: Instant) -> Look {
        let mark = match mark(&self.path) {
            Ok(mark) => mark,
            Err(error) => {
                (self.mark, self.next) = (Mark::default(), None);
                return Look::Gone(error.to_string());
            }
        };
        if mark == self.mark {
            self.next = None;
            return Look::Same;
        }
        let since = match self.next {
            Some((next, since)) if next == mark => since,
            _ => now,
        };
        self.next = Some((mark, since));
        if now.duration_since(since) < SETTLED {
            return Look::Same;
        }
        let found = config::rights_file(&self.path);
        let is_less = found.as_ref().is_ok_and(|(text, rights)| {
            let there: BTreeSet<&str> = rights.users().collect();
            text.len() < self.text.len() || self.rights.users().any(|user| !there.contains(user))
        });
        if is_less && now.duration_since(since) < SETTLED_WITH_LESS {
            return Look::Same;
        }
        if self::mark(&self.path).ok() != Some(mark) {
            // The file has changed while it was read.
            self.next = None;
            return Look::Same;
        }
        (self.mark, self.next) = (mark, None);
        match found.and_then(|(text, rights)| {
            complete(&text, Some(&self.text))
                .map_err(|why| io::Error::other(format!("{}: {why}", self.path.display())))?;
            Ok((text, rights))
        }) {
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
        let mut now = Instant::now();
        // Looks until what was written counts.
        let mut settled = |source: &mut RightsFile| {
            assert_eq!(source.look_at(now), Look::Same, "it may be being written");
            now += SETTLED_WITH_LESS;
            source.look_at(now)
        };
        assert_eq!(settled(&mut source), Look::Same);
        std::fs::write(&path, format!("{RIGHTS}[users.bob]\ngruops = []\n")).unwrap();
        assert_eq!(settled(&mut source), Look::Same, "a fault");
        assert_eq!(source.rights().users().collect::<Vec<_>>(), ["alice"]);
        std::fs::write(&path, format!("{RIGHTS}[users.bobby]\n")).unwrap();
        assert_eq!(settled(&mut source), Look::New);
        assert_eq!(source.rights().users().collect::<Vec<_>>(), ["alice", "bobby"]);
        for unfinished in ["", "version = \"2\"\n", "version = \"2\"\n[services.FEED]\nid = 1\n", "[users.al"] {
            std::fs::write(&path, unfinished).unwrap();
            assert_eq!(settled(&mut source), Look::Same, "{unfinished:?} is no rights file");
            assert_eq!(source.rights().users().count(), 2);
        }
        std::fs::write(&path, format!("{RIGHTS}[users.bobby]\nitem_limit = 1")).unwrap();
        assert_eq!(settled(&mut source), Look::Same, "its last line may go on");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(source.look(), Look::Gone(_)));
        assert!(matches!(source.look(), Look::Gone(_)));
        std::fs::write(&path, format!("{RIGHTS}[users.bobby]\n")).unwrap();
        assert_eq!(settled(&mut source), Look::Same);
    }

    #[test]
    fn a_file_that_is_written_slowly_throws_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rights.toml");
        let c = config::Permissions { rights_file: path.display().to_string(), ..config::Permissions::default() };
        let whole = format!("{RIGHTS}[users.bob]\n[users.carol]\n");
        std::fs::write(&path, &whole).unwrap();
        let mut source = RightsFile::open(&c).unwrap();
        let (mut now, new) = (Instant::now(), format!("{}[users.dave]\n[end]\n", whole.replace('1', "2")));
        for length in 0..new.len() {
            std::fs::write(&path, &new[..length]).unwrap();
            assert_eq!(source.look_at(now), Look::Same);
            // A writer that pauses: for longer than what is whole has to be still.
            now += SETTLED * 2;
            let look = source.look_at(now);
            assert!(source.rights().users().count() >= 3, "{look:?} at {:?}", &new[..length]);
            now += Duration::from_millis(1);
        }
        std::fs::write(&path, &new).unwrap();
        assert_eq!(source.look_at(now), Look::Same);
        assert_eq!(source.look_at(now + SETTLED), Look::New);
        // A file that has said how it ends ends so again.
        now += SETTLED * 9;
        std::fs::write(&path, &new[..new.len() - "[users.dave]\n[end]\n".len()]).unwrap();
        assert_eq!(source.look_at(now), Look::Same);
        assert_eq!(source.look_at(now + SETTLED_WITH_LESS), Look::Same);
        assert_eq!(source.rights().users().count(), 4);
    }
}
