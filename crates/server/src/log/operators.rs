//! Actions of operators: drained, reloaded, disconnected, blocked. Each is evidence, so that neither the level of the log nor its limits nor a reader
//! that does not keep up holds it back; and it is appended to a file of its own where one is configured (`[log] operators_file`).

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;

use super::{AS_JSON, Ordering, Work, in_words, keep, object, one_line};

/// Lines that wait for the log's thread: people do not act as often. Beyond it the oldest go; the file has them.
const WAITING_MAX: usize = 4_096;

static STATE: Mutex<State> = Mutex::new(State { waiting: VecDeque::new(), wake: None });
/// Actions that wait for the file's disk, each of at most a line's bytes. Beyond them the log alone has what was done, and says so.
const FILE_WAITING_MAX: usize = 1_024;
/// How long who acts waits for the disk. Beyond it the action stays in the queue: a disk that hangs must not hold the page, the probes and `ctl`.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

static FILE: Mutex<Option<Appended>> = Mutex::new(None);

struct State {
    waiting: VecDeque<Vec<u8>>,
    wake: Option<SyncSender<Work>>,
}

/// Whom to wake for a line.
pub(super) fn wake_by(queue: SyncSender<Work>) {
    STATE.lock().unwrap_or_else(PoisonError::into_inner).wake = Some(queue);
}

/// The lines that wait, oldest first.
pub(super) fn take() -> VecDeque<Vec<u8>> {
    std::mem::take(&mut STATE.lock().unwrap_or_else(PoisonError::into_inner).waiting)
}

/// Appends what operators do from now on to a file, an object of JSON a line: `time`, `who`, `what`. An empty name ends that.
///
/// # Errors
/// The file cannot be opened.
pub fn write_to(path: &str) -> io::Result<()> {
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    if file.as_ref().map_or("", |file| &file.name) == path {
        return Ok(());
    }
    *file = None;
    if !path.is_empty() {
        let failed =
            |e: io::Error| io::Error::new(e.kind(), format!("log.operators_file {path} cannot be opened: {e}"));
        let mut opened = net::output::append_for_group(Path::new(path)).map_err(failed)?;
        let write = move |line: &[u8]| opened.write_all(line).and_then(|()| opened.sync_data());
        *file = Some(Appended::new(path, write).map_err(failed)?);
    }
    Ok(())
}

/// The file, which a thread of its own writes in the order in which people acted.
#[derive(Clone, Debug)]
struct Appended {
    name: String,
    queue: SyncSender<Action>,
    /// The disk has let somebody wait in vain, and has not answered since.
    is_hanging: Arc<AtomicBool>,
}

/// An action on its way to the disk.
struct Action {
    line: String,
    /// Told when it is there, or cannot be.
    written: SyncSender<io::Result<()>>,
}

impl Appended {
    /// # Errors
    /// When the system gives no thread.
    fn new(name: &str, mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let (queue, actions) = sync_channel(FILE_WAITING_MAX);
        let is_hanging = Arc::new(AtomicBool::new(false));
        let answered = is_hanging.clone();
        let mut run = move |actions: Receiver<Action>| {
            for action in actions {
                let done = write(action.line.as_bytes());
                answered.store(false, Ordering::Release);
                // The operator may have stopped waiting.
                let _ = action.written.send(done);
            }
        };
        std::thread::Builder::new().name("operators".to_owned()).spawn(move || run(actions))?;
        Ok(Self { name: name.to_owned(), queue, is_hanging })
    }

    /// Gives an action to the thread, and waits until the disk has it, or for [`DISK_PATIENCE`].
    fn append(&self, line: String) {
        let name = &self.name;
        let (written, done) = sync_channel(1);
        if let Err(e) = self.queue.try_send(Action { line, written }) {
            let why = match e {
                TrySendError::Full(_) => "too many actions wait for its disk",
                TrySendError::Disconnected(_) => "its thread has ended",
            };
            tracing::error!("log.operators_file {name}: {why}, the log alone has what was done");
            return;
        }
        if self.is_hanging.load(Ordering::Acquire) {
            return;
        }
        match done.recv_timeout(DISK_PATIENCE) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => {
                tracing::error!("log.operators_file {name} cannot be written, the log alone has what was done: {e}");
            }
            Err(_) => {
                self.is_hanging.store(true, Ordering::Release);
                let waited = DISK_PATIENCE.as_secs();
                tracing::error!(
                    "log.operators_file {name}: its disk has not answered for {waited} s, so that actions are taken without waiting for it; they are written when it does"
                );
            }
        }
    }
}

/// Says who has done what: `audit: WHO: WHAT` in the log, and an object in the file.
pub fn acted(who: &str, what: &str) {
    let text = one_line(&format!("audit: {who}: {what}"));
    let line = if AS_JSON.load(Ordering::Relaxed) { object("info", &text) } else { in_words("INFO", &text) };
    keep("info", text);
    append(who, what);
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(wake) = state.wake.clone() else { return };
    state.waiting.push_back(line.into_bytes());
    if state.waiting.len() > WAITING_MAX {
        state.waiting.pop_front();
    }
    drop(state);
    // A queue that is full has lines enough to wake for.
    let _ = wake.try_send(Work::Wake);
}

/// Appends an action to the file, if there is one. It is on the disk before the answer, where the disk answers: an action that a crash follows is
/// the one that is asked about.
fn append(who: &str, what: &str) {
    let Some(file) = FILE.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return };
    let object = json!({ "time": super::now(), "who": one_line(who), "what": one_line(what) });
    file.append(format!("{}\n", net::plain::escaped_json(&object.to_string())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_do_passes_by_the_log_s_limits() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("operators.jsonl");
        write_to(&path.display().to_string()).expect("opened");
        let lines = 4 * crate::log::PER_SECOND as usize;
        let (queue, woken) = std::sync::mpsc::sync_channel(1);
        wake_by(queue);
        for n in 0..lines {
            acted("operator root at 10.0.0.1", &format!("client {n} is disconnected: a\n test\u{2028}"));
        }
        assert!(woken.try_recv().is_ok());
        let of_test = |text: &str| text.contains("is disconnected: a");
        let taken: Vec<String> = take().into_iter().map(|line| String::from_utf8(line).expect("text")).collect();
        let taken: Vec<&String> = taken.iter().filter(|line| of_test(line)).collect();
        assert_eq!(taken.len(), lines, "as many as acted, in whatever level and burst");
        let text = taken[7];
        assert!(
            text.ends_with("INFO audit: operator root at 10.0.0.1: client 7 is disconnected: a\\n test\\u{2028}\n"),
            "{text}"
        );
        write_to("").expect("closed");
        acted("nobody", "nothing that the file has");
        // A disk that has once taken longer than people wait for it has the rest later.
        let mut written = String::new();
        while written.lines().filter(|line| of_test(line)).count() < lines {
            std::thread::yield_now();
            written = std::fs::read_to_string(&path).expect("readable");
        }
        assert!(!written.contains("nothing that the file has"));
        let written: Vec<&str> = written.lines().filter(|line| of_test(line)).collect();
        assert_eq!(written.len(), lines);
        let last: serde_json::Value = serde_json::from_str(written[lines - 1]).expect("JSON");
        assert_eq!(last["who"], "operator root at 10.0.0.1");
        assert!(
            last["what"].as_str().is_some_and(|what| what.starts_with(&format!("client {} is", lines - 1))),
            "{last}"
        );
        assert!(write_to("/nowhere/at/all").is_err_and(|e| e.to_string().contains("operators_file")));
    }

    #[test]
    fn a_disk_that_hangs_holds_nobody_and_is_written_when_it_answers() {
        let (go, gate) = sync_channel::<()>(0);
        let (seen, lines) = std::sync::mpsc::channel();
        let write = move |line: &[u8]| {
            // Hangs until the test lets it go on.
            let _ = gate.recv();
            seen.send(line.to_vec()).map_err(io::Error::other)
        };
        let file = Appended::new("operators.jsonl", write).expect("a thread");
        file.append("drained".to_owned());
        assert!(file.is_hanging.load(Ordering::Acquire), "who acted first has waited in vain");
        // A single line is in the thread's hands. Nobody waits again, and lines that find no room are let go.
        let more = FILE_WAITING_MAX + 10;
        let begun = std::time::Instant::now();
        (0..more).for_each(|n| file.append(format!("{n}")));
        assert!(begun.elapsed() < DISK_PATIENCE * 30, "none of {more} actions waits for a disk that is known to hang");
        drop(go);
        let first = lines.recv().expect("written");
        assert_eq!(first, b"drained");
        let others = (0..FILE_WAITING_MAX).map(|_| lines.recv().expect("written"));
        assert!(others.enumerate().all(|(n, line)| line == n.to_string().into_bytes()), "in their order");
        file.append("undrained".to_owned());
        assert_eq!(lines.recv().expect("written"), b"undrained");
        assert!(!file.is_hanging.load(Ordering::Acquire), "it has answered");
    }
}
