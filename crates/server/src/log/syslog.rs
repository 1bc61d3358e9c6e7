//! Lines to the system's log (`[log] syslog`): a datagram a line to the socket at which the system takes them, as RFC 3164 has them without a time, which
//! whoever takes them adds.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use config::Selector;

/// Where a Unix system takes lines.
const SOCKET: &str = "/dev/log";

/// The way to the system's log.
#[derive(Debug)]
pub(super) struct Syslog {
    selector: Selector,
    place: PathBuf,
    socket: UnixDatagram,
    /// Nobody takes them, which has been said.
    is_failing: bool,
}

impl Syslog {
    /// Nobody has to be there yet.
    ///
    /// # Errors
    /// The system gives no socket.
    pub(super) fn new(selector: Selector) -> io::Result<Self> {
        Self::at(selector, Path::new(SOCKET))
    }

    fn at(selector: Selector, place: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A reader that does not keep up loses lines, and stops nobody.
        socket.set_nonblocking(true)?;
        Ok(Self { selector, place: place.to_owned(), socket, is_failing: false })
    }

    pub(super) fn selector(&self) -> Selector {
        self.selector
    }

    /// Sends a line without colours, if it is one of those that are wanted. A line about that is to be written elsewhere where nobody takes it any
    /// more, or again.
    pub(super) fn send(&mut self, line: &[u8]) -> Option<String> {
        let line = line.trim_ascii_end();
        let severity = severity_of(line);
        if severity > self.selector.severity {
            return None;
        }
        let priority = self.selector.facility * 8 + severity;
        let mut message = format!("<{priority}>quoteway[{}]: ", std::process::id()).into_bytes();
        message.extend_from_slice(text_of(line));
        let failed = self.socket.send_to(&message, &self.place).err();
        let was_failing = std::mem::replace(&mut self.is_failing, failed.is_some());
        match failed {
            Some(why) if !was_failing => Some(format!(
                "lines are not in the system's log (log.syslog): {} takes none: {why}; they are tried again",
                self.place.display()
            )),
            None if was_failing => Some("lines are in the system's log again (log.syslog)".to_owned()),
            _ => None,
        }
    }
}

/// The severity of a line by its level: text has it behind the time, JSON as a member.
fn severity_of(line: &[u8]) -> u8 {
    let level = if line.starts_with(b"{") {
        let after = b"\"level\":\"";
        let begin = line.windows(after.len()).position(|part| part == after).map_or(line.len(), |at| at + after.len());
        line[begin..].split(|byte| *byte == b'"').next()
    } else {
        line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).nth(1)
    };
    match level.unwrap_or_default().to_ascii_lowercase().as_slice() {
        b"error" => 3,
        b"warn" => 4,
        b"debug" | b"trace" => 7,
        _ => 6,
    }
}

/// A line without its time, of which the system's log has its own; an object goes as it is.
fn text_of(line: &[u8]) -> &[u8] {
    if line.starts_with(b"{") {
        return line;
    }
    let end_of_time = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
    line[end_of_time..].trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::Syslog;
    use config::Selector;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn lines_go_to_the_system_with_their_severity() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("log");
        let mut syslog = Syslog::at(Selector { facility: 16, severity: 4 }, &place).expect("a socket");
        let line = b"2026-11-30T08:00:00.000001Z  WARN provider x is gone\n";
        let told = syslog.send(line).expect("nobody is there");
        assert!(told.contains("takes none") && told.contains("log.syslog"), "{told}");
        assert_eq!(syslog.send(line), None, "said once");
        let system = UnixDatagram::bind(&place).expect("a socket");
        assert_eq!(syslog.send(line).as_deref(), Some("lines are in the system's log again (log.syslog)"));
        assert_eq!(syslog.send(b"2026-11-30T08:00:00.000001Z  INFO WARN in its text\n"), None);
        assert_eq!(syslog.send(b"{\"time\":\"x\",\"level\":\"error\",\"text\":\"y\"}\n"), None);
        let mut buf = [0; 256];
        let mut next = || {
            let length = system.recv(&mut buf).expect("a line");
            String::from_utf8_lossy(&buf[..length]).into_owned()
        };
        let of = |priority: u8, text: &str| format!("<{priority}>quoteway[{}]: {text}", std::process::id());
        assert_eq!(next(), of(132, "WARN provider x is gone"));
        assert_eq!(next(), of(131, "{\"time\":\"x\",\"level\":\"error\",\"text\":\"y\"}"));
        system.set_nonblocking(true).expect("a socket");
        assert!(system.recv(&mut [0; 8]).is_err(), "information is not wanted");
    }
}
