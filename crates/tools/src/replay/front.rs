//! Who is in front of a replay: steers it, and is told of it.

use feed::session::Nanos;
use net::Waker;
use record::{Order, ReplayState, Standing, Steering};
use std::ops::ControlFlow;
use std::sync::mpsc::Receiver;

use crate::when;

/// Steers a replay, and is told of it.
pub(super) trait Front {
    /// A line for people.
    fn say(&mut self, line: &str);

    /// Gives what orders there are, and shows how the replay stands; called at the end of each turn. A break ends the replay.
    fn turn(&mut self, now: Nanos, steering: &Steering) -> ControlFlow<()>;
}

/// The order of a line of text, given; a fault is said. An empty line is none.
pub(super) fn give(line: &str, steering: &Steering, say: &mut dyn FnMut(&str)) {
    if line.trim().is_empty() {
        return;
    }
    match line.parse::<Order>() {
        Ok(order) => give_order(order, steering, say),
        Err(error) => say(&error.to_string()),
    }
}

pub(super) fn give_order(order: Order, steering: &Steering, say: &mut dyn FnMut(&str)) {
    if let Err(error) = steering.give(order) {
        say(&error.to_string());
    }
}

/// Messages a second, from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Rate {
    last: Option<(Nanos, u64)>,
}

impl Rate {
    pub(super) fn of(&mut self, now: Nanos, messages: u64) -> f64 {
        let (at, before) = self.last.replace((now, messages)).unwrap_or((now, messages));
        messages.saturating_sub(before) as f64 * 1e9 / now.saturating_sub(at).max(1) as f64
    }
}

/// Orders by lines of standard input, progress by lines on standard error.
pub(super) struct Lines {
    input: Receiver<String>,
    every: Nanos,
    due: Nanos,
    rate: Rate,
}

impl Lines {
    /// With so long between two lines of progress; 0 for none.
    pub(super) fn new(waker: Waker, every: Nanos) -> Self {
        let now = net::clock::now();
        let mut rate = Rate::default();
        rate.of(now, 0);
        Self { input: crate::command_line::lines_of_input(waker), every, due: now.saturating_add(every), rate }
    }
}

impl Front for Lines {
    fn say(&mut self, line: &str) {
        eprintln!("{line}");
    }

    fn turn(&mut self, now: Nanos, steering: &Steering) -> ControlFlow<()> {
        while let Ok(line) = self.input.try_recv() {
            give(&line, steering, &mut |line| eprintln!("{line}"));
        }
        if self.every > 0 && now >= self.due {
            self.due = now + self.every;
            let standing = steering.standing();
            let Standing { streams, messages, .. } = standing;
            let time = when::text(standing.time_at(now, steering.overview().to));
            let state = if standing.state == ReplayState::Running { "" } else { standing.state.name() };
            let state = if state.is_empty() { String::new() } else { format!(", {state}") };
            eprintln!("{time}: {streams} streams, {messages} messages, {:.0}/s{state}", self.rate.of(now, messages));
        }
        ControlFlow::Continue(())
    }
}

/// A server's replay: the log is told, and orders come from elsewhere.
pub(super) struct Logged {
    name: String,
}

impl Logged {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }
}

impl Front for Logged {
    fn say(&mut self, line: &str) {
        tracing::info!("replay {}: {line}", self.name);
    }

    fn turn(&mut self, _: Nanos, _: &Steering) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
