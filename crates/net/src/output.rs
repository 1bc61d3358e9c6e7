//! Files that a tool writes where its user said: the one place that opens them. And what it tells people beside.
//!
//! A symbolic link at the end of the path is not followed. Tools run as root, and write into folders where others may write: a link there
//! would have them overwrite any file of the system. Links in the folders above are the business of those who own the folders, and a
//! device (`/dev/full`) is a file like any other.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Tells people a line on standard error. `eprintln!` panics when nobody reads there any more (`2>&1 | head`): that is no fault of the program, which
/// is asked to stop in order, as by a signal. Another failure is nobody's to hear of.
pub fn tell(line: fmt::Arguments<'_>) {
    let told = io::stderr().write_all(format!("{line}\n").as_bytes());
    if told.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) && crate::signal::stop_requested() == 0 {
        crate::signal::request_stop();
    }
}

/// What it means for a program that nothing more can be written to standard output: a reader that has gone (`| head`) has seen what was wanted.
///
/// # Errors
/// Anything else, with the name of the place.
pub fn ended(error: &io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(io::Error::new(error.kind(), format!("standard output: {error}")))
    }
}

/// A file to write: made if there is none, emptied if there is one.
///
/// # Errors
/// The path is a symbolic link, or the file cannot be opened for writing.
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// A file to write that was not there before.
///
/// # Errors
/// There is something of this name, a symbolic link included, or the file cannot be made.
pub fn create_new(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create_new(true), path)
}

/// A file to write at its end: made if there is none.
///
/// # Errors
/// As for [`create`].
pub fn append(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().append(true).create(true), path)
}

/// As [`append`], for a file that a group may read and others may not (mode 0640, if it is made).
///
/// # Errors
/// As for [`create`].
pub fn append_for_group(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().append(true).create(true).mode(0o640), path)
}

/// A file to read and to write, as it is: made if there is none, for its owner alone (mode 0600).
///
/// # Errors
/// As for [`create`].
pub fn keep(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600), path)
}

/// Makes a file of these bytes, in place of what it had.
///
/// # Errors
/// As for [`create`], or the bytes cannot be written.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(bytes.as_ref())
}

pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options.custom_flags(libc::O_NOFOLLOW).open(path);
    opened.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP) => {
            let why = "a symbolic link, which is not followed when a file is written: name the file that is meant";
            io::Error::new(io::ErrorKind::InvalidInput, why)
        }
        _ => e,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("quoteway-output-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn no_link_is_followed_whether_or_not_it_leads_somewhere() {
        let folder = Folder::new("links");
        let (target, nowhere) = (folder.0.join("target"), folder.0.join("nowhere"));
        fs::write(&target, "as it was").expect("written");
        for leads_to in [&target, &nowhere] {
            let link = folder.0.join("link");
            symlink(leads_to, &link).expect("a link");
            for open in [create, append] {
                let why = open(&link).expect_err("a link").to_string();
                assert!(why.contains("symbolic link"), "{why}");
            }
            assert!(write(&link, "new").expect_err("a link").to_string().contains("symbolic link"));
            assert_eq!(create_new(&link).expect_err("a link").kind(), io::ErrorKind::AlreadyExists);
            fs::remove_file(&link).expect("removed");
        }
        assert_eq!(fs::read(&target).expect("readable"), b"as it was");
        assert!(!nowhere.exists());
    }

    #[test]
    fn files_are_made_emptied_and_appended_to() {
        let folder = Folder::new("files");
        let path = folder.0.join("file");
        write(&path, "first").expect("made");
        write(&path, "2").expect("emptied");
        append(&path).expect("opened").write_all(b"3").expect("written");
        assert_eq!(fs::read(&path).expect("readable"), b"23");
        assert_eq!(create_new(&path).expect_err("there").kind(), io::ErrorKind::AlreadyExists);
        // A link above the file is its owner's business.
        let beside = folder.0.join("beside");
        symlink(&folder.0, &beside).expect("a link");
        write(&beside.join("file"), "4").expect("written");
        assert_eq!(fs::read(&path).expect("readable"), b"4");
    }
}
