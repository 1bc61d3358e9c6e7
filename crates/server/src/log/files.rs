//! The log in a file, beside standard error or in its place (`[log] file`), and in that of the system (`[log] syslog`).

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::syslog::Syslog;
use crate::rotated::Rotated;

/// Where the lines of this process go.
static TARGET: Mutex<Target> =
    Mutex::new(Target { file: None, settings: None, spares_standard: false, is_failing: false, system: None });

/// Where lines go.
#[derive(Debug)]
struct Target {
    file: Option<Rotated>,
    /// What `file` was opened with: path, bytes, files.
    settings: Option<(String, u32, u32)>,
    /// Lines go to the file alone.
    spares_standard: bool,
    /// The file could not be written, and standard error has been told so.
    is_failing: bool,
    system: Option<Syslog>,
}

/// Appends the lines of the log to a file from now on, and sends them to the system, as the configuration says; an empty name ends that.
///
/// # Errors
/// The file cannot be opened, or the system gives no socket: the lines go where they went.
pub fn write_to(c: &config::Log) -> io::Result<()> {
    let mut target = TARGET.lock().unwrap_or_else(PoisonError::into_inner);
    target.set(c)
}

impl Target {
    fn set(&mut self, c: &config::Log) -> io::Result<()> {
        let wanted = (!c.file.is_empty()).then(|| (c.file.clone(), c.file_mb, c.files));
        if self.settings != wanted {
            let opened = wanted.as_ref().map(|(name, mb, files)| {
                Rotated::open(Path::new(name), u64::from(*mb) << 20, *files as usize)
                    .map_err(|e| io::Error::new(e.kind(), format!("log.file {name} cannot be opened: {e}")))
            });
            self.file = opened.transpose()?;
            self.settings = wanted;
            self.is_failing = false;
        }
        self.spares_standard = !c.standard_error;
        if self.system.as_ref().map(Syslog::selector) != c.syslog.0 {
            let failed = |e: io::Error| io::Error::new(e.kind(), format!("log.syslog cannot be had: {e}"));
            self.system = c.syslog.0.map(Syslog::new).transpose().map_err(failed)?;
        }
        Ok(())
    }

    /// Writes a line to the file; an error where standard error is to have it.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        // A file that cannot be put aside goes on growing, and is tried again with the next line.
        let rotated = file.rotate();
        let mut left = line;
        while !left.is_empty() {
            match file.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => left = &left[written..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        rotated
    }

    /// Writes a line where it belongs.
    fn put(&mut self, line: &[u8], standard: &mut impl Write) -> io::Result<()> {
        let told = self.system.as_mut().and_then(|system| system.send(&without_colours(line)));
        if let Some(told) = told {
            self.put_here(&super::warning(&told), standard)?;
        }
        self.put_here(line, standard)
    }

    /// Writes a line to the file and standard error, as far as they are to have it.
    fn put_here(&mut self, line: &[u8], standard: &mut impl Write) -> io::Result<()> {
        if self.file.is_none() {
            return standard.write_all(line);
        }
        let failed = self.write(&without_colours(line)).err();
        if let Some(why) = failed.as_ref().filter(|_| !self.is_failing) {
            let name = self.file.as_ref().map(|file| file.path().display().to_string()).unwrap_or_default();
            let text = format!("log.file {name} cannot be written or rotated, and lines are here until it can: {why}");
            standard.write_all(&super::warning(&text))?;
        }
        self.is_failing = failed.is_some();
        if self.is_failing || !self.spares_standard { standard.write_all(line) } else { Ok(()) }
    }
}

/// A line without the sequences that colour it on a terminal. There are no others: those of peers are written by their numbers.
fn without_colours(line: &[u8]) -> Vec<u8> {
    let (mut plain, mut inside) = (Vec::with_capacity(line.len()), false);
    for &byte in line {
        match (inside, byte) {
            (false, 0x1B) => inside = true,
            (false, byte) => plain.push(byte),
            (true, b'm') => inside = false,
            (true, _) => {}
        }
    }
    plain
}

/// The process's standard error, and the file where one is configured. Each write is a line.
#[derive(Debug)]
pub(super) struct Outputs<W>(pub(super) W);

impl<W: Write> Write for Outputs<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        TARGET.lock().unwrap_or_else(PoisonError::into_inner).put(line, &mut self.0)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::Target;
    use crate::rotated::numbered;
    use std::path::Path;

    fn nowhere() -> Target {
        Target { file: None, settings: None, spares_standard: false, is_failing: false, system: None }
    }

    fn log(file: &Path, standard_error: bool) -> config::Log {
        config::Log { file: file.display().to_string(), file_mb: 1, files: 1, standard_error, ..config::Log::default() }
    }

    #[test]
    fn lines_go_to_the_file_and_to_standard_error_if_that_is_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (mut target, mut standard) = (nowhere(), Vec::new());
        target.put(b"one\n", &mut standard).expect("written");
        target.set(&log(&path, true)).expect("opened");
        target.put(b"\x1b[2mtwo\x1b[0m \x1b[31mERROR\x1b[0m\n", &mut standard).expect("written");
        target.set(&log(&path, false)).expect("opened");
        target.put(b"three\n", &mut standard).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "two ERROR\nthree\n");
        assert_eq!(standard, b"one\n\x1b[2mtwo\x1b[0m \x1b[31mERROR\x1b[0m\n");
        target.set(&config::Log::default()).expect("nothing to open");
        target.put(b"four\n", &mut standard).expect("written");
        assert!(standard.ends_with(b"\nfour\n"));
        let gone = target.set(&log(Path::new("/nowhere/at/all"), false)).expect_err("no such folder");
        assert!(gone.to_string().contains("log.file /nowhere/at/all"), "{gone}");
    }

    #[test]
    fn full_files_are_kept_and_a_file_that_fails_leaves_lines_to_standard_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (mut target, mut standard) = (nowhere(), Vec::new());
        target.set(&log(&path, false)).expect("opened");
        for round in 0..3_u8 {
            let line = [vec![b'0' + round], vec![b'x'; 1 << 20], vec![b'\n']].concat();
            target.put(&line, &mut standard).expect("written");
        }
        let first = |path: &Path| std::fs::read(path).expect("a file")[0];
        assert_eq!((first(&numbered(&path, 2)), first(&path)), (b'1', b'2'));
        assert!(!numbered(&path, 1).exists() && standard.is_empty());
        // Nothing can be put aside where the folder is gone.
        drop(folder);
        target.put(b"four\n", &mut standard).expect("written");
        target.put(b"five\n", &mut standard).expect("written");
        let told = String::from_utf8(standard).expect("text");
        assert_eq!(told.matches("cannot be written or rotated").count(), 1, "{told}");
        assert!(told.ends_with("four\nfive\n"), "{told}");
    }
}
