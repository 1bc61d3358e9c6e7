//! The audit file: a JSON object a line, for each event. Nothing is lost: what the file does not take waits, and with it those who ask
//! for something new.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use config::AuditSync;
use permissions::lock::AnyLock;
use permissions::{AuditEvent, EventKind, Usage, Verdict};
use rwf::Date;
use serde_json::{Map, Value, json};

use crate::rotated::Rotated;

const NANOSECONDS: u64 = 1_000_000_000;
const DAY: u64 = 86_400;
/// How long the thread waits before it tries again to write what the file did not take.
const RETRY: Duration = Duration::from_secs(1);
/// Lines that are written with one call.
const TOGETHER: usize = 256;

/// An event for the audit's thread.
pub(super) enum Line {
    /// An event of a P2PS, with the time of day in nanoseconds since 1970-01-01.
    Event {
        /// Which P2PS of the process.
        shard: u16,
        /// When.
        at: u64,
        /// The event.
        event: Box<AuditEvent>,
    },
    /// The usage of a day that is over.
    Usage {
        /// Which P2PS of the process.
        shard: u16,
        /// The usage by user.
        usage: Box<Usage>,
    },
}

fn date(day: u64) -> String {
    let Date { year, month, day } = Date::from_days(u32::try_from(day).expect("a day of these millennia"));
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time as RFC 3339 writes it, with microseconds, in UTC.
pub(super) fn time(at: u64) -> String {
    let (seconds, micros) = (at / NANOSECONDS, at % NANOSECONDS / 1_000);
    let (day, of_day) = (seconds / DAY, seconds % DAY);
    format!("{}T{:02}:{:02}:{:02}.{micros:06}Z", date(day), of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

/// The event's name in the log.
const fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::StartWatch => "start_watch",
        EventKind::StopWatch => "stop_watch",
        EventKind::Denied => "denied",
        EventKind::Login => "login",
        EventKind::LoginDenied => "login_denied",
        EventKind::Logout => "logout",
        EventKind::ContinueWatch => "continue_watch",
        EventKind::Post => "post",
        EventKind::PostDenied => "post_denied",
        EventKind::Snapshot => "snapshot",
    }
}

fn lock_text(bytes: &[u8]) -> String {
    let text = |lock: &AnyLock| lock.to_string();
    AnyLock::decode(bytes).as_ref().map_or_else(|e| format!("cannot be read: {e}"), text)
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The objects of a line: mostly one.
fn objects(line: &Line) -> Vec<Value> {
    match line {
        Line::Event { shard, at, event } => vec![event_object(*shard, *at, event)],
        Line::Usage { shard, usage } => {
            let row = |(row, opens): (&permissions::UsageRow, &u64)| {
                json!({
                    "event": "usage",
                    "day": date(u64::from(usage.day)),
                    "shard": shard,
                    "user": &*row.user,
                    "service": &*row.service,
                    "subservice": &*row.subservice,
                    "opens": opens,
                })
            };
            usage.opens.iter().map(row).collect()
        }
    }
}

/// The line that says when the audit of a process begins or ends: between an end and the next beginning nobody was served, and a beginning
/// without an end before it tells of a process that was killed.
fn process_line(name: &str, code: u8) -> String {
    let line = json!({
        "time": time(net::clock::wall()), "event": name, "code": code, "process": std::process::id(), "version": env!("CARGO_PKG_VERSION"),
    });
    format!("{line}\n")
}

fn event_object(shard: u16, at: u64, event: &AuditEvent) -> Value {
    let mut out = Map::new();
    let mut set = |key: &str, value: Value| _ = out.insert(key.to_owned(), value);
    set("time", time(at).into());
    set("number", event.number.into());
    set("shard", shard.into());
    set("event", name(event.kind).into());
    set("code", (event.kind as u8).into());
    if event.count > 1 {
        set("count", event.count.into());
    }
    set("user", (*event.actor.user).into());
    set("position", (*event.actor.position).into());
    set("application", event.actor.application.into());
    set("connection", event.actor.connection.into());
    if let Some(service) = &event.service {
        set("service", (**service).into());
    }
    if let Some(item) = &event.item {
        set("item", (**item).into());
    }
    if let Some(lock) = &event.lock {
        set("lock", lock_text(lock).into());
        set("lock_bytes", hex(lock).into());
    }
    let (verdict, failure) = match &event.verdict {
        Verdict::Granted => ("granted", None),
        Verdict::Denied(failure) => ("denied", Some(failure)),
        Verdict::WouldDeny(failure) => ("would_deny", Some(failure)),
    };
    set("verdict", verdict.into());
    if let Some(failure) = failure {
        set("failed", failure.to_string().into());
    }
    set("rights", (*event.rights).into());
    Value::Object(out)
}

/// The file, and when there is to be another one.
pub(super) struct AuditFile {
    file: Rotated,
    sync: AuditSync,
    synced: Instant,
    is_dirty: bool,
}

impl AuditFile {
    /// Opens the file, behind what is in it.
    pub(super) fn open(c: &config::Permissions) -> io::Result<Self> {
        let path = Path::new(&c.audit_file);
        let file = Rotated::open(path, u64::from(c.audit_file_mb) << 20, c.audit_files as usize).map_err(|e| {
            io::Error::new(e.kind(), format!("the audit file {} cannot be opened: {e}", path.display()))
        })?;
        Ok(Self { file, sync: c.audit_sync, synced: Instant::now(), is_dirty: false })
    }

    /// Writes whole lines, however long that takes; gives up only when `stop` is set and the file takes nothing.
    fn write(&mut self, text: &str, stop: &AtomicBool) {
        let mut left = text.as_bytes();
        let mut told = false;
        while !left.is_empty() {
            match self.file.write(left) {
                Ok(written) if written > 0 => {
                    left = &left[written..];
                    self.is_dirty = true;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    let why = outcome.err().map_or_else(|| "it takes nothing".to_owned(), |e| e.to_string());
                    if !std::mem::replace(&mut told, true) {
                        tracing::error!(
                            "the audit file {} cannot be written ({why}): logins and requests wait until it can",
                            self.file.path().display()
                        );
                    }
                    if stop.load(Ordering::Acquire) {
                        tracing::error!("the process ends, and {} bytes of the audit are lost: {why}", left.len());
                        return;
                    }
                    park_timeout(RETRY);
                }
            }
        }
        if told {
            tracing::info!("the audit file {} is written again", self.file.path().display());
        }
    }

    /// Has what was written on its disk, as often as configured.
    fn sync(&mut self, now: Instant) {
        let due = match self.sync {
            AuditSync::Each => true,
            AuditSync::Second => now.duration_since(self.synced) >= Duration::from_secs(1),
            AuditSync::Never => false,
        };
        if self.is_dirty && due {
            self.synced = now;
            self.is_dirty = false;
            if let Err(e) = self.file.sync() {
                tracing::error!("the audit file {} cannot be synchronised: {e}", self.file.path().display());
            }
        }
    }

    /// Begins another file when this one is full: it is kept under a number behind its name, 1 the oldest.
    fn rotate(&mut self) {
        // The file goes on growing; another try comes with the next line.
        if let Err(e) = self.file.rotate() {
            tracing::error!("the audit file {} cannot be rotated: {e}", self.file.path().display());
        }
    }
}

/// Writes what comes until everybody who could send has gone.
pub(super) fn start(mut file: AuditFile, lines: Receiver<Line>, stop: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    Builder::new().name("audit".to_owned()).spawn(move || {
        let mut text = String::new();
        file.write(&process_line("server_start", 7), &stop);
        loop {
            let first = match lines.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    file.sync(Instant::now());
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            text.clear();
            for line in std::iter::once(first).chain(lines.try_iter().take(TOGETHER - 1)) {
                for object in objects(&line) {
                    // Words of peers must not steer the terminal of who reads it either.
                    text.push_str(&net::plain::escaped_json(&object.to_string()));
                    text.push('\n');
                }
            }
            file.rotate();
            file.write(&text, &stop);
            file.sync(Instant::now());
        }
        file.write(&process_line("server_stop", 8), &stop);
        file.sync = if file.sync == AuditSync::Never { AuditSync::Never } else { AuditSync::Each };
        file.sync(Instant::now());
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotated::{numbered, numbers};
    use permissions::Actor;
    use permissions::rights::{Failure, Who};
    use std::fs;
    use std::path::PathBuf;

    fn event(number: u64) -> Line {
        let actor = Actor { user: "alice".into(), position: "10.0.0.1/net".into(), application: 256, connection: 3 };
        let failure = Failure::Pes { who: Who::User, service: "IDN".into(), pes: vec![5625] };
        let event = AuditEvent {
            at: 0,
            number,
            kind: EventKind::Denied,
            count: 1,
            actor,
            service: Some("IDN".into()),
            item: Some("IBM.N".into()),
            lock: Some([3, 1, 1, 0x56, 0x25, 0xC0][..].into()),
            verdict: Verdict::Denied(failure),
            rights: "7".into(),
        };
        Line::Event { shard: 0, at: 1_763_845_323_000_001_999, event: Box::new(event) }
    }

    #[test]
    fn a_line_says_who_what_and_why() {
        let [object] = &objects(&event(5))[..] else { panic!("one object") };
        let expected = json!({
            "time": "2025-11-22T21:02:03.000001Z", "number": 5, "shard": 0, "event": "denied", "code": 3,
            "user": "alice", "position": "10.0.0.1/net", "application": 256, "connection": 3,
            "service": "IDN", "item": "IBM.N", "lock": "257: 5625", "lock_bytes": "0301015625c0",
            "verdict": "denied", "failed": "User has none of PE [5625] of service IDN", "rights": "7",
        });
        assert_eq!(*object, expected);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let known =
            [(0, "1970-01-01"), (58, "1970-02-28"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_514, "2026-03-02")];
        for (day, expected) in known {
            assert_eq!(date(day), expected);
        }
    }

    #[test]
    fn full_files_are_kept_under_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let c = config::Permissions {
            audit_file: path.display().to_string(),
            audit_file_mb: 1,
            audit_files: 2,
            ..config::Permissions::default()
        };
        let mut file = AuditFile::open(&c).unwrap();
        let stop = AtomicBool::new(false);
        for round in 0..5_u8 {
            file.rotate();
            file.write(&format!("{round}{}\n", "x".repeat(1 << 20)), &stop);
        }
        assert_eq!(numbers(&path).unwrap(), [3, 4]);
        let first = |path: PathBuf| fs::read(path).unwrap()[0];
        assert_eq!([first(numbered(&path, 3)), first(numbered(&path, 4)), first(path)], *b"234");
    }

    #[test]
    fn the_thread_writes_all_that_was_sent_before_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let c = config::Permissions { audit_file: path.display().to_string(), ..config::Permissions::default() };
        let (sender, receiver) = std::sync::mpsc::sync_channel(8);
        let thread = start(AuditFile::open(&c).unwrap(), receiver, Arc::default()).unwrap();
        for number in 1..=1_000 {
            sender.send(event(number)).unwrap();
        }
        drop(sender);
        thread.join().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, first) = (lines.pop().unwrap(), lines.remove(0));
        assert_eq!((&first["event"], &first["code"]), (&"server_start".into(), &7.into()));
        assert_eq!((&last["event"], &last["code"]), (&"server_stop".into(), &8.into()));
        let numbers: Vec<u64> = lines.iter().map(|line| line["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=1_000).collect::<Vec<_>>());
    }
}
