//! How far a call of the lab is: a bar that moves while a run goes on, or lines where nobody watches.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use net::clock;

/// Between two states of the bar. A wake-up a second is nothing that a figure shows.
const REDRAWN: Duration = Duration::from_secs(1);
/// Cells of the bar.
const BAR: usize = 20;
/// Of a terminal that does not tell.
const WIDTH: usize = 100;

/// Progress so far, and how long the rest will take.
pub struct Progress {
    state: Arc<Mutex<State>>,
    /// The thread that redraws; it ends when the sender goes.
    redraw: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct State {
    expected_s: f64,
    done_s: f64,
    started: u64,
    /// When so much was done.
    advanced: u64,
    what: String,
}

impl Progress {
    /// Begins; all is expected to take so many seconds.
    pub fn begin(expected_s: f64) -> Self {
        let now = clock::now();
        let state = State { expected_s, started: now, advanced: now, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let redraw = std::io::stderr().is_terminal().then(|| {
            let (sender, ended) = channel();
            let shown = Arc::clone(&state);
            let turns = move || {
                while ended.recv_timeout(REDRAWN) == Err(RecvTimeoutError::Timeout) {
                    draw(&locked(&shown));
                }
            };
            (sender, std::thread::spawn(turns))
        });
        Self { state, redraw }
    }

    /// Shows what is being done from now on.
    pub fn say(&self, what: &str) {
        let mut state = locked(&self.state);
        what.clone_into(&mut state.what);
        match self.redraw {
            Some(_) => draw(&state),
            None => eprintln!("{}", state.line(clock::now())),
        }
    }

    /// Says what remains to be read.
    pub fn note(&self, text: &str) {
        let state = locked(&self.state);
        if self.redraw.is_none() {
            eprintln!("{}  {text}", state.share(clock::now()));
            return;
        }
        eprint!("\r\x1b[K{text}\r\n");
        draw(&state);
    }

    /// So much of what was expected is done.
    pub fn advance(&self, seconds: f64) {
        let mut state = locked(&self.state);
        state.done_s += seconds;
        state.advanced = clock::now();
    }
}

impl Progress {
    /// So much of what was expected is over, however much of it was done.
    pub fn reach(&self, seconds: f64) {
        let mut state = locked(&self.state);
        state.done_s = seconds;
        state.advanced = clock::now();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.redraw.take() {
            drop(sender);
            let _ = thread.join();
            eprint!("\r\x1b[K");
        }
    }
}

/// The state; one that was left by a panic is still good to be shown.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the line over the one before, cut to the terminal's width.
fn draw(state: &State) {
    let width = crossterm::terminal::size().ok().map_or(0, |(columns, _)| usize::from(columns));
    let width = if width == 0 { WIDTH } else { width.max(20) };
    let line: String = state.bar(clock::now()).chars().take(width - 1).collect();
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\r\x1b[K{line}");
    let _ = out.flush();
}

impl State {
    /// Share of what was expected, and seconds left. What goes on counts as far as time has passed, as slow as it was so far.
    fn ahead(&self, now: u64) -> (f64, u64) {
        let since = |then: u64| now.saturating_sub(then) as f64 / 1e9;
        // As slow as it was so far, once enough is done to tell.
        let so_far = self.advanced.saturating_sub(self.started) as f64 / 1e9;
        let pace = if self.done_s > 5.0 { (so_far / self.done_s).clamp(0.5, 5.0) } else { 1.0 };
        let left = ((self.expected_s - self.done_s).max(0.0) * pace - since(self.advanced)).max(0.0);
        let share = (self.done_s / self.expected_s.max(1e-9)).clamp(0.0, 1.0);
        (share, left.round() as u64)
    }

    fn share(&self, now: u64) -> String {
        let (share, left) = self.ahead(now);
        format!("{:3.0} % {}:{:02} left", share * 100.0, left / 60, left % 60)
    }

    fn line(&self, now: u64) -> String {
        format!("{}  {}", self.share(now), self.what)
    }

    fn bar(&self, now: u64) -> String {
        let full = (self.ahead(now).0 * BAR as f64) as usize;
        format!("[{}{}] {}", "#".repeat(full), ".".repeat(BAR - full), self.line(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_time_left_follows_the_pace_and_runs_on_during_a_run() {
        let mut state = State { expected_s: 100.0, what: "chain 1k: ours".to_owned(), ..State::default() };
        assert_eq!(state.line(0), "  0 % 1:40 left  chain 1k: ours");
        assert_eq!(state.line(4 * SECOND), "  0 % 1:36 left  chain 1k: ours");
        // A quarter is done in twice the time that was expected.
        (state.done_s, state.advanced) = (25.0, 50 * SECOND);
        assert_eq!(state.bar(50 * SECOND), "[#####...............]  25 % 2:30 left  chain 1k: ours");
        assert_eq!(state.bar(60 * SECOND), "[#####...............]  25 % 2:20 left  chain 1k: ours");
        // Longer than expected: nothing left, and not less.
        assert_eq!(state.ahead(600 * SECOND).1, 0);
        state.done_s = 120.0;
        assert!(state.bar(600 * SECOND).starts_with("[####################] 100 % 0:00 left"));
    }
}
