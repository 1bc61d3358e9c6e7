//! What operators do: drained, reloaded, disconnected, blocked. Each is evidence, so that neither the level of the log nor its limits nor a reader
//! that does not keep up holds it back; and it is appended to a file of its own where one is configured (`[log] operators_file`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use super::{AS_JSON, Ordering, Work, in_words, keep, object, one_line};

/// Lines that wait for the log's thread: people do not act as often. Beyond it the oldest go; the file has them.
const WAITING_MAX: usize = 4_096;

static STATE: Mutex<State> = Mutex::new(State { waiting: VecDeque::new(), wake: None });
/// The file and its name. A lock of its own: a disk that is slow must not stop the log.
static FILE: Mutex<Option<(String, File)>> = Mutex::new(None);

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
    if file.as_ref().map_or("", |(name, _)| name) == path {
        return Ok(());
    }
    *file = None;
    if !path.is_empty() {
        let failed =
            |e: io::Error| io::Error::new(e.kind(), format!("log.operators_file {path} cannot be opened: {e}"));
        *file = Some((path.to_owned(), net::output::append_for_group(Path::new(path)).map_err(failed)?));
    }
    Ok(())
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

/// Appends an action to the file, if there is one. It is on the disk before the answer: an action that a crash follows is the one that is asked
/// about.
fn append(who: &str, what: &str) {
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((name, file)) = &mut *file else { return };
    let object = json!({ "time": super::now(), "who": one_line(who), "what": one_line(what) });
    let object = format!("{}\n", net::plain::escaped_json(&object.to_string()));
    if let Err(e) = file.write_all(object.as_bytes()).and_then(|()| file.sync_data()) {
        tracing::error!("log.operators_file {name} cannot be written, the log alone has what was done: {e}");
    }
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
        let written = std::fs::read_to_string(&path).expect("readable");
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
}
