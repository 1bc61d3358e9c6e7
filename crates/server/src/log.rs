//! The log: lines to standard error, written by a thread of their own, so that a reader that stops reading stops nobody who serves.
//!
//! Two bounds hold. At most [`QUEUE`] lines wait for their reader; those that find no room are counted, and a line says how many
//! were lost as soon as there is room again. And of one kind (one place in the source) at most [`PER_SECOND`] lines a second are
//! written, because peers cause most of them; a line says that more follow, and another how many there were. And a line that says the
//! same again and again is written [`SAME`] times in [`SAME_FOR`]; then it is counted. `debug` and `trace` have the first bound alone:
//! whoever asks for them wants them all.
//!
//! Lines are text for people, or JSON objects ([`set_format`]). Peers choose part of many of them: what would end a line or steer a terminal is
//! written by its number (`net::plain`), in `text_of` and so in all that becomes of a line. What operators do ([`operators`]) is a line that
//! no level and no limit holds back.

pub mod files;
pub mod operators;
mod syslog;
mod words;

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hub::faults;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, callsite};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, registry, reload};
use words::{in_words, name_of, now, object};

/// Lines that wait to be written.
pub const QUEUE: usize = 1024;
/// Lines of one kind in one second.
pub const PER_SECOND: u32 = 100;
/// Lines of one kind with the same text that are written before further ones are counted, and for how long they are.
pub const SAME: u32 = 3;
/// See [`SAME`].
pub const SAME_FOR: Duration = Duration::from_secs(10);
/// A line is cut off here, in bytes: names that peers choose are part of many.
const LINE_BYTES_MAX: usize = 4096;
/// A kind is shown by so many characters of one of its lines.
const EXAMPLE_CHARS: usize = 100;
/// How long the end of the process waits for the last lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

static STARTED: OnceLock<(Arc<AtomicU64>, Arc<Kinds>)> = OnceLock::new();

/// Lines that are kept for those who ask.
pub const RECENT: usize = 1000;
/// And their bytes together.
const RECENT_BYTES_MAX: usize = 1 << 20;

/// Lines are JSON.
static AS_JSON: AtomicBool = AtomicBool::new(false);
static LEVEL: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();
/// The last lines of this process.
static LATEST: Mutex<Latest> = Mutex::new(Latest::NONE);

hub::counters! {
/// Counters of this process's log, and the faults of the program that it tells of.
pub struct Counters {
    /// Lines that were not written, because their reader did not keep up.
    pub lines_lost: u64,
    /// Lines that were not written, because there were too many of their kind in a second, or they said the same as others.
    pub lines_held_back: u64,
    /// Broken invariants: faults of this program. The log has a line for each place in the source at which there was one.
    pub internal_faults: u64,
}
}

/// The counters since the log was started; 0 without one.
pub fn counters() -> Counters {
    let internal_faults = if faults::places() == 0 { 0 } else { faults::total() };
    let Some((lost, kinds)) = STARTED.get() else { return Counters { internal_faults, ..Counters::default() } };
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Counters { lines_lost: count(lost), lines_held_back: count(&kinds.held_back), internal_faults }
}

/// Tells of places in the source at which an invariant was broken since the last call: a line each, once. Costs a load where there is none.
pub fn tell_faults() {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let told = TOLD.load(Ordering::Relaxed);
    let places = faults::places();
    // Of several threads one tells of them.
    if places == told || TOLD.compare_exchange(told, places, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    for fault in faults::behind(told).iter().take(usize::try_from(places - told).unwrap_or(usize::MAX)) {
        tracing::error!(
            "internal fault at {}: {}. This is a fault of the program, which goes on; further ones there are counted as internal_faults alone. Please report it.",
            fault.place,
            fault.what
        );
    }
}

/// Starts the log of the process on standard error. What is still to be written is written when the result is dropped. Where the screen
/// belongs to something else (`silent`), lines go to those alone who ask for the [`recent`] ones.
///
/// # Errors
/// When the system gives no thread.
pub fn start(filter: EnvFilter, colours: bool, silent: bool) -> io::Result<Log> {
    let standard: Box<dyn Write + Send> = if silent { Box::new(io::sink()) } else { Box::new(io::stderr()) };
    let log = Log::new(files::Outputs(standard), QUEUE)?;
    let _ = STARTED.set((log.lines.lost.clone(), log.limit.0.clone()));
    log.is_of_process.store(true, Ordering::Release);
    operators::wake_by(log.lines.queue.clone());
    let lines = tracing_subscriber::fmt::layer().with_writer(log.lines.clone()).with_ansi(colours).event_format(Lined);
    let (filter, level) = reload::Layer::new(filter);
    let _ = LEVEL.set(level);
    // A log that nobody reads any more must not end the process: what cannot be written is dropped.
    let layers = registry().with(filter).with(log.limit.clone()).with(Recent(&LATEST));
    layers.with(lines.log_internal_errors(false)).init();
    Ok(log)
}

/// Changes how much is logged, until the process ends: a level, or levels by module as in `QUOTEWAY_LOG`.
///
/// # Errors
/// What is wrong with the text.
pub fn set_level(text: &str) -> Result<(), String> {
    let filter = config::log_filter(text)?;
    let level = LEVEL.get().ok_or("this process has no log")?;
    level.reload(filter).map_err(|e| e.to_string())
}

/// Writes lines as JSON from now on, or as text: `{"time":"...","level":"info","text":"..."}`.
pub fn set_format(json: bool) {
    AS_JSON.store(json, Ordering::Relaxed);
}

/// As [`set_format`], unless that is known: the configuration that a process starts with says how its first line is to look.
pub fn set_first_format(json: bool) {
    static KNOWN: AtomicBool = AtomicBool::new(false);
    if !KNOWN.swap(true, Ordering::Relaxed) {
        set_format(json);
    }
}

/// A line in the format of now.
struct Lined;

impl<S, N> FormatEvent<S, N> for Lined
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (level, text) = (*event.metadata().level(), text_of(event));
        if AS_JSON.load(Ordering::Relaxed) {
            return to.write_str(&object(name_of(level), &text));
        }
        if !to.has_ansi_escapes() {
            return to.write_str(&in_words(level.as_str(), &text));
        }
        let colour = match level {
            Level::ERROR => 31,
            Level::WARN => 33,
            Level::INFO => 32,
            Level::DEBUG => 34,
            Level::TRACE => 35,
        };
        writeln!(to, "\u{1b}[2m{}\u{1b}[0m \u{1b}[{colour}m{:>5}\u{1b}[0m {text}", now(), level.as_str())
    }
}

/// A line of the log that was kept for those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentLine {
    /// Each line has the next number, from 1.
    pub number: u64,
    /// When, Unix milliseconds.
    pub time_ms: u64,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// The line's text.
    pub text: String,
}

/// The last [`RECENT`] lines of the log after this number, oldest first.
pub fn recent(after: u64) -> Vec<RecentLine> {
    recent_of(&LATEST, after)
}

fn recent_of(latest: &Mutex<Latest>, after: u64) -> Vec<RecentLine> {
    // The lines themselves are copied behind the lock.
    let kept: Vec<Arc<RecentLine>> = {
        let recent = latest.lock().unwrap_or_else(PoisonError::into_inner);
        recent.lines.iter().filter(|line| line.number > after).cloned().collect()
    };
    kept.iter().map(|line| RecentLine::clone(line)).collect()
}

/// The log's thread, and the way to it.
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    limit: Limit,
    is_of_process: Arc<AtomicBool>,
}

impl Log {
    fn new(out: impl Write + Send + 'static, room: usize) -> io::Result<Self> {
        Self::by(Instant::now, out, room)
    }

    /// A log whose seconds are those of a clock.
    fn by(clock: fn() -> Instant, out: impl Write + Send + 'static, room: usize) -> io::Result<Self> {
        let (queue, work) = sync_channel(room);
        let lines = Lines { queue, lost: Arc::default() };
        let log = Self { lines, limit: Limit(Arc::new(Kinds::by(clock))), is_of_process: Arc::default() };
        let mut scribe = Scribe {
            out,
            lost: log.lines.lost.clone(),
            said: 0,
            limit: log.limit.0.clone(),
            is_of_process: log.is_of_process.clone(),
        };
        std::thread::Builder::new().name("log".to_owned()).spawn(move || scribe.run(&work))?;
        log.limit.0.lines.set(log.lines.clone()).expect("set once");
        Ok(log)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (done, wait) = sync_channel(1);
        let begun = Instant::now();
        let mut last = Work::End(done);
        while let Err(TrySendError::Full(back)) = self.lines.queue.try_send(last) {
            if begun.elapsed() > PATIENCE {
                return;
            }
            last = back;
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = wait.recv_timeout(PATIENCE.saturating_sub(begun.elapsed()));
    }
}

#[derive(Debug)]
enum Work {
    /// There is a line of [`operators`].
    Wake,
    Line(Vec<u8>),
    End(SyncSender<()>),
}

/// Where lines are put; never waits.
#[derive(Clone, Debug)]
struct Lines {
    queue: SyncSender<Work>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    fn put(&self, mut line: Vec<u8>) {
        if line.len() > LINE_BYTES_MAX {
            line.truncate(LINE_BYTES_MAX);
            line.extend_from_slice(b"...\n");
        }
        line.shrink_to_fit();
        if self.queue.try_send(Work::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The formatter writes each line with one call.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The thread that writes.
struct Scribe<W> {
    out: W,
    lost: Arc<AtomicU64>,
    /// Lost lines that a line has told of.
    said: u64,
    limit: Arc<Kinds>,
    /// The log is the process's, and has the operators' actions.
    is_of_process: Arc<AtomicBool>,
}

impl<W: Write> Scribe<W> {
    fn run(&mut self, work: &Receiver<Work>) {
        loop {
            let next = if self.limit.some_held_back.load(Ordering::Acquire) {
                work.recv_timeout(Duration::from_secs(1))
            } else {
                work.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            if matches!(next, Err(RecvTimeoutError::Disconnected)) {
                return;
            }
            let lost = self.lost.load(Ordering::Relaxed);
            if lost > self.said {
                self.warn(&format!(
                    "{} lines of the log were lost here: its reader does not keep up",
                    lost - self.said
                ));
                self.said = lost;
            }
            if self.is_of_process.load(Ordering::Acquire) {
                for line in operators::take() {
                    drop(self.out.write_all(&line));
                }
            }
            let is_end = matches!(next, Ok(Work::End(_)));
            for (example, count) in self.limit.over(is_end) {
                self.warn(&format!("{count} further lines like \"{example}\" were not written"));
            }
            for (text, count) in self.limit.repeated(is_end) {
                self.warn(&format!("said {count} times more: {text}"));
            }
            match next {
                // Lines that cannot be written have no reader.
                Ok(Work::Line(line)) => drop(self.out.write_all(&line)),
                Ok(Work::End(done)) => drop((self.out.flush(), done.send(()))),
                Ok(Work::Wake) | Err(_) => {}
            }
        }
    }

    fn warn(&mut self, text: &str) {
        let _ = self.out.write_all(&warning(text));
    }
}

/// A line about the log itself, which does not pass through it.
fn warning(text: &str) -> Vec<u8> {
    if AS_JSON.load(Ordering::Relaxed) {
        return object("warn", text).into_bytes();
    }
    in_words("WARN", text).into_bytes()
}

/// Holds lines of a kind back of which there were [`PER_SECOND`] in this second.
#[derive(Clone, Debug)]
struct Limit(Arc<Kinds>);

#[derive(Debug)]
struct Kinds {
    clock: fn() -> Instant,
    /// As many as there are places in the source that log.
    places: Mutex<HashMap<callsite::Identifier, Kind>>,
    some_held_back: AtomicBool,
    /// All lines that were held back.
    held_back: AtomicU64,
    lines: OnceLock<Lines>,
}

/// The lines of one place in the source.
#[derive(Debug)]
struct Kind {
    /// When its second began, and lines in that second.
    since: Instant,
    written: u32,
    held_back: u64,
    example: String,
    /// The line that was written last, how often, and how often not since when.
    last: String,
    same: u32,
    repeats: u64,
    same_since: Instant,
}

impl Kinds {
    fn by(clock: fn() -> Instant) -> Self {
        let (places, some_held_back, held_back, lines) = Default::default();
        Self { clock, places, some_held_back, held_back, lines }
    }

    /// Whether a line may be written.
    fn admit(&self, kind: callsite::Identifier, now: Instant, text: &str) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Kind {
            since: now,
            written: 0,
            held_back: 0,
            example: String::new(),
            last: String::new(),
            same: 0,
            repeats: 0,
            same_since: now,
        };
        let kind = places.entry(kind).or_insert_with(fresh);
        if kind.is_repeated(now, text) {
            self.held_back.fetch_add(1, Ordering::Relaxed);
            self.some_held_back.store(true, Ordering::Release);
            return false;
        }
        // A second in which lines were held back ends when that has been told.
        if kind.held_back == 0 && now.duration_since(kind.since) >= Duration::from_secs(1) {
            (kind.since, kind.written) = (now, 0);
        }
        if kind.written < PER_SECOND {
            kind.written += 1;
            return true;
        }
        kind.held_back += 1;
        self.held_back.fetch_add(1, Ordering::Relaxed);
        if kind.held_back == 1 {
            kind.example = start_of(text);
            self.some_held_back.store(true, Ordering::Release);
            if let Some(lines) = self.lines.get() {
                lines.put(warning(&format!(
                    "more than {PER_SECOND} lines like the last in a second: further ones are counted"
                )));
            }
        }
        false
    }

    /// The kinds whose second is over (or all), with how many lines were held back.
    fn over(&self, all: bool) -> Vec<(String, u64)> {
        if !self.some_held_back.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        let second = Duration::from_secs(1);
        let is_over = |kind: &Kind| kind.held_back > 0 && (all || now.saturating_duration_since(kind.since) >= second);
        let told = places.values_mut().filter(|kind| is_over(kind)).map(|kind| {
            (kind.since, kind.written) = (now, 0);
            (std::mem::take(&mut kind.example), std::mem::take(&mut kind.held_back))
        });
        let told = told.collect();
        self.some_held_back.store(places.values().any(Kind::is_held_back), Ordering::Release);
        told
    }

    /// The lines that were repeated for [`SAME_FOR`] (or all), and how often they were not written.
    fn repeated(&self, all: bool) -> Vec<(String, u64)> {
        if !self.some_held_back.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        let is_due =
            |kind: &Kind| kind.repeats > 0 && (all || now.saturating_duration_since(kind.same_since) >= SAME_FOR);
        let told = places.values_mut().filter(|kind| is_due(kind)).map(|kind| {
            kind.same_since = now;
            (start_of(&kind.last), std::mem::take(&mut kind.repeats))
        });
        let told = told.collect();
        self.some_held_back.store(places.values().any(Kind::is_held_back), Ordering::Release);
        told
    }
}

impl Kind {
    fn is_held_back(&self) -> bool {
        self.held_back > 0 || self.repeats > 0
    }

    /// Counts a line that says what the last ones of its kind said, often enough for now.
    fn is_repeated(&mut self, now: Instant, text: &str) -> bool {
        if self.repeats == 0 && (text != self.last || now.duration_since(self.same_since) >= SAME_FOR) {
            (self.same, self.same_since) = (0, now);
            text.clone_into(&mut self.last);
        }
        if text != self.last {
            return false;
        }
        self.same = self.same.saturating_add(1);
        self.repeats += u64::from(self.same > SAME);
        self.same > SAME
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let kind = event.metadata();
        *kind.level() > Level::INFO || self.0.admit(kind.callsite(), (self.0.clock)(), &text_of(event))
    }
}

/// The last lines: at most [`RECENT`], of at most [`RECENT_BYTES_MAX`] bytes.
#[derive(Debug)]
struct Latest {
    lines: VecDeque<Arc<RecentLine>>,
    bytes: usize,
    /// The number of the last line.
    number: u64,
}

/// Keeps a line of this process for those who ask.
fn keep(level: &'static str, text: String) {
    keep_in(&LATEST, level, text);
}

fn keep_in(latest: &Mutex<Latest>, level: &'static str, mut text: String) {
    text.shrink_to_fit();
    latest.lock().unwrap_or_else(PoisonError::into_inner).push(level, text);
}

impl Latest {
    const NONE: Self = Self { lines: VecDeque::new(), bytes: 0, number: 0 };

    fn push(&mut self, level: &'static str, text: String) {
        self.number += 1;
        let (number, time_ms) = (self.number, net::clock::wall() / 1_000_000);
        self.bytes += text.len();
        self.lines.push_back(Arc::new(RecentLine { number, time_ms, level, text }));
        while self.lines.len() > RECENT || self.bytes > RECENT_BYTES_MAX {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }
}

/// Keeps the last lines.
struct Recent(&'static Mutex<Latest>);

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        keep_in(self.0, name_of(*event.metadata().level()), text_of(event));
    }
}

/// A text of bounded length in one line, whoever chose it.
#[derive(Default)]
struct OneLine {
    text: String,
    is_cut: bool,
}

impl fmt::Write for OneLine {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.is_cut {
            return Ok(());
        }
        let room = LINE_BYTES_MAX / 2 - self.text.len();
        // A character beyond the room, so that it shows that there was more.
        let part = net::plain::escaped(&part[..part.floor_char_boundary(part.len().min(room + 4))]);
        self.text.push_str(&part[..part.floor_char_boundary(part.len().min(room))]);
        if part.len() > room {
            self.text.push_str("...");
            self.is_cut = true;
        }
        Ok(())
    }
}

/// A line's text: one line, cut off where it is long.
fn text_of(event: &Event<'_>) -> String {
    struct Text(OneLine);
    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            let _ = match field.name() {
                "message" => write!(self.0, "{value:?}"),
                // The words that a log of another kind says of its own place.
                name if name.starts_with("log.") => Ok(()),
                name => write!(self.0, " {name}={value:?}"),
            };
        }
    }
    let mut text = Text(OneLine::default());
    event.record(&mut text);
    text.0.text
}

/// A text of whoever in one line of bounded length.
fn one_line(text: &str) -> String {
    let mut line = OneLine::default();
    let _ = line.write_str(text);
    line.text
}

/// The beginning of a line's text.
fn start_of(text: &str) -> String {
    text.chars().take(EXAMPLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// A reader that takes each line only when it is let.
    struct Slow(Receiver<()>, Sender<String>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            let _ = self.1.send(String::from_utf8_lossy(line).into_owned());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines of a log, without colours.
    fn plainly<S: Subscriber + for<'a> LookupSpan<'a>>(log: &Log) -> impl Layer<S> + use<S> {
        tracing_subscriber::fmt::layer().with_writer(log.lines.clone()).with_ansi(false).event_format(Lined)
    }

    /// A clock that stands: a machine that stops the test for a second ends no second of the log.
    fn standing() -> Instant {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        *BEGUN.get_or_init(Instant::now)
    }

    /// Last lines of a test's own: other tests log, too.
    fn latest() -> &'static Mutex<Latest> {
        Box::leak(Box::new(Mutex::new(Latest::NONE)))
    }

    #[test]
    fn lines_that_find_no_room_are_counted_and_told_of() {
        let ((go, gate), (seen, lines)) = (channel(), channel());
        let log = Log::new(Slow(gate, seen), 4).expect("a thread");
        // A line may be in the writer's hands, four wait.
        for n in 0..20 {
            log.lines.put(format!("line {n}\n").into_bytes());
        }
        let lost = log.lines.lost.load(Ordering::Relaxed);
        assert!((15..=16).contains(&lost), "{lost}");
        drop(go);
        let written: Vec<String> = (0..=20 - lost).map(|_| lines.recv().expect("a line")).collect();
        let told = written.iter().filter(|line| line.contains("lines of the log were lost")).collect::<Vec<_>>();
        assert!(told.len() == 1 && told[0].contains(&format!("  WARN {lost} lines")), "{written:?}");
    }

    #[test]
    fn a_log_without_a_reader_ends_with_its_process() {
        let ((go, gate), (seen, _lines)) = (channel::<()>(), channel());
        let log = Log::new(Slow(gate, seen), 2).expect("a thread");
        for _ in 0..9 {
            log.lines.put(b"line\n".to_vec());
        }
        let begun = Instant::now();
        drop(log);
        assert!(begun.elapsed() < Duration::from_secs(30));
        drop(go);
    }

    #[test]
    fn a_flood_of_one_kind_is_cut_and_told_of() {
        let ((go, gate), (seen, lines)) = (channel(), channel());
        drop(go);
        let log = Log::by(standing, Slow(gate, seen), QUEUE).expect("a thread");
        let latest = latest();
        let layers = registry().with(log.limit.clone()).with(Recent(latest));
        let layers = layers.with(plainly(&log));
        tracing::subscriber::with_default(layers, || {
            for n in 0..PER_SECOND + 50 {
                tracing::info!("client {n} refused\nby name");
            }
            tracing::warn!("something else");
        });
        assert_eq!(log.limit.0.held_back.load(Ordering::Relaxed), 50);
        drop(log);
        // Only written lines are kept for those who ask.
        let kept = recent_of(latest, 0);
        let of_kind = |text: &str| kept.iter().filter(|line| line.text.contains(text)).count();
        assert_eq!((of_kind("refused\\nby name"), of_kind("something else")), (PER_SECOND as usize, 1));
        let last = kept.last().expect("a line");
        assert_eq!((recent_of(latest, last.number).len(), last.level), (0, "warn"));
        let written: Vec<String> = lines.try_iter().collect();
        let count = |what: &str| written.iter().filter(|line| line.contains(what)).count();
        assert_eq!(count("INFO"), PER_SECOND as usize);
        assert_eq!(count("lines like the last in a second"), 1);
        assert_eq!(count("something else"), 1);
        let rest = format!("50 further lines like \"client {PER_SECOND} refused\\nby name\" were not written");
        assert_eq!(count(&rest), 1, "{:?}", written.last());
    }

    #[test]
    fn what_is_said_again_and_again_is_counted() {
        let ((go, gate), (seen, lines)) = (channel(), channel());
        drop(go);
        let log = Log::by(standing, Slow(gate, seen), QUEUE).expect("a thread");
        let layers = registry().with(log.limit.clone());
        let layers = layers.with(plainly(&log));
        tracing::subscriber::with_default(layers, || {
            for n in 0..20 {
                // Another line between them is written, and does not end the count.
                let what = if n == 10 { "another" } else { "the same" };
                tracing::info!("{what}");
            }
        });
        drop(log);
        let written: Vec<String> = lines.try_iter().collect();
        let count = |what: &str| written.iter().filter(|line| line.contains(what)).count();
        let same = written.iter().filter(|line| line.contains("INFO") && line.contains("the same")).count();
        assert_eq!((same, count("another")), (SAME as usize, 1), "{written:?}");
        assert_eq!(count("said 16 times more: the same"), 1, "{written:?}");
    }

    #[test]
    fn a_peer_writes_no_line_of_its_own() {
        let ((go, gate), (seen, lines)) = (channel(), channel());
        drop(go);
        let log = Log::new(Slow(gate, seen), QUEUE).expect("a thread");
        let latest = latest();
        let layers = registry().with(Recent(latest));
        let layers = layers.with(plainly(&log));
        let hostile = "x\r\n2026-01-01T00:00:00.000000Z  INFO audit: operator root: drained\u{1b}[2J\u{2028}\u{9b}";
        let long = "\n".repeat(50_000);
        tracing::subscriber::with_default(layers, || {
            tracing::info!("a peer says {hostile}");
            tracing::info!(text = hostile, "a field");
            tracing::info!("a peer says {long}");
        });
        drop(log);
        let written: Vec<String> = lines.try_iter().collect();
        assert_eq!(written.len(), 3, "{written:?}");
        for line in &written {
            let text = line.strip_suffix('\n').expect("a line");
            assert!(!text.contains(net::plain::is_unprintable) && line.len() < LINE_BYTES_MAX, "{line:?}");
        }
        assert!(written[0].contains(r"x\r\n2026-01-01T00:00:00.000000Z  INFO audit:"), "{written:?}");
        let kept = recent_of(latest, 0);
        assert!(kept.iter().all(|line| !line.text.contains(net::plain::is_unprintable)), "{kept:?}");
        let kept: Vec<_> = kept.iter().filter(|line| line.text.contains(r"\n\n")).collect();
        assert!(kept.iter().all(|line| line.text.capacity() < LINE_BYTES_MAX), "cut lines keep no room");
    }

    #[test]
    fn kept_lines_are_bounded_by_their_bytes() {
        let mut latest = Latest::NONE;
        for n in 0..RECENT {
            latest.push("info", format!("{n:06}{}", "k".repeat(4_000)));
        }
        let bytes: usize = latest.lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes == latest.bytes && bytes <= RECENT_BYTES_MAX && bytes > RECENT_BYTES_MAX / 2, "{bytes}");
        for _ in 0..2 * RECENT {
            latest.push("info", String::new());
        }
        assert_eq!((latest.lines.len(), latest.bytes), (RECENT, 0));
    }

    #[test]
    fn a_line_is_an_object_where_that_is_wanted() {
        let line = object("info", "a \"b\"\nc");
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((read["level"].as_str(), read["text"].as_str()), (Some("info"), Some("a \"b\"\nc")));
        assert!(read["time"].as_str().is_some_and(|time| time.contains('T')) && line.ends_with("}\n"), "{line}");
    }

    #[test]
    fn a_long_line_is_cut() {
        let ((go, gate), (seen, lines)) = (channel(), channel());
        drop(go);
        let log = Log::new(Slow(gate, seen), 4).expect("a thread");
        log.lines.put(vec![b'x'; 100_000]);
        drop(log);
        let line = lines.recv().expect("a line");
        assert!(line.len() < LINE_BYTES_MAX + 10 && line.ends_with("...\n"));
    }
}
