//! A replay on a terminal: keys steer it, and its last line shows where it is.

use super::front::{Front, Rate, give, give_order};
use crate::when;
use anyhow::anyhow;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use feed::session::Nanos;
use net::Waker;
use record::{Order, Overview, Pace, ReplayState, Standing, Steering};
use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, channel};

/// How often the line is drawn.
const FRAME: Nanos = 100_000_000;
/// Messages of the key for many steps.
const STEPS: usize = 10;
/// How far the arrows go, nanoseconds.
const SKIP: i64 = 10_000_000_000;
/// Cells of the bar.
const BAR: usize = 24;
/// Characters that an order may have on this line.
const ORDER_MAX: usize = 80;
const HINTS: &str = "space pause  s step  ←→ 10 s  +- speed  m max  l loop  : order  q quit";

/// Keys of the terminal, and its last line.
pub(super) struct Keys {
    input: Receiver<KeyEvent>,
    drawn: Option<Nanos>,
    rate: Rate,
    /// Messages a second, as they are shown.
    shown_rate: (Nanos, f64),
    /// An order that is being written.
    order: Option<String>,
}

impl Keys {
    /// Takes the terminal; `None` where there is none, or where it belongs to another program (behind `&`), who must not be disturbed.
    ///
    /// # Errors
    /// The terminal cannot be set to give keys.
    pub(super) fn new(waker: &Waker) -> anyhow::Result<Option<Self>> {
        let is_here = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && is_in_foreground();
        if !is_here {
            return Ok(None);
        }
        terminal::enable_raw_mode().map_err(|e| anyhow!("terminal: {e}"))?;
        let (sender, input) = channel();
        let waker = waker.clone();
        std::thread::spawn(move || {
            while let Ok(event) = event::read() {
                let Event::Key(key) = event else { continue };
                if key.kind != KeyEventKind::Release && sender.send(key).is_err() {
                    return;
                }
                waker.wake();
            }
        });
        Ok(Some(Self { input, drawn: None, rate: Rate::default(), shown_rate: (0, 0.0), order: None }))
    }

    fn key(&mut self, key: KeyEvent, steering: &Steering) -> ControlFlow<()> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        let mut said = Vec::new();
        if let Some(order) = &mut self.order {
            match key.code {
                KeyCode::Esc => self.order = None,
                KeyCode::Enter => {
                    give(order, steering, &mut |line| said.push(line.to_owned()));
                    self.order = None;
                }
                KeyCode::Backspace => {
                    order.pop();
                }
                KeyCode::Char(letter) if order.chars().count() < ORDER_MAX => order.push(letter),
                _ => {}
            }
        } else if key.code == KeyCode::Char('q') {
            return ControlFlow::Break(());
        } else if key.code == KeyCode::Char(':') {
            self.order = Some(String::new());
        } else if let Some(order) = order_of(key.code, steering.standing()) {
            give_order(order, steering, &mut |line| said.push(line.to_owned()));
        }
        for line in &said {
            self.say(line);
        }
        self.drawn = None;
        ControlFlow::Continue(())
    }
}

/// What a key wants of a replay that stands so.
fn order_of(code: KeyCode, standing: Standing) -> Option<Order> {
    let speed = match standing.pace {
        Pace::Scaled(speed) => speed,
        Pace::Unpaced => 1.0,
    };
    Some(match code {
        KeyCode::Char(' ') if standing.state == ReplayState::Running => Order::Pause,
        KeyCode::Char(' ') => Order::Go,
        KeyCode::Char('s') => Order::Step(1),
        KeyCode::Char('S') => Order::Step(STEPS),
        KeyCode::Left => Order::Skip(-SKIP),
        KeyCode::Right => Order::Skip(SKIP),
        KeyCode::Char('+' | '=') => Order::Speed(Pace::Scaled(speed * 2.0)),
        KeyCode::Char('-') => Order::Speed(Pace::Scaled(speed / 2.0)),
        KeyCode::Char('1') => Order::Speed(Pace::Scaled(1.0)),
        KeyCode::Char('m') => Order::Speed(Pace::Unpaced),
        KeyCode::Char('l') => Order::Loop(!standing.repeats),
        _ => return None,
    })
}

/// The process is of the group that the terminal belongs to: fields 5 and 8 of `/proc/self/stat`. Where that is not known it is.
fn is_in_foreground() -> bool {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return true };
    // The program's name, in parentheses, may have anything in it.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return true };
    let fields: Vec<&str> = rest.split(' ').collect();
    fields.get(2) == fields.get(5)
}

impl Front for Keys {
    fn say(&mut self, line: &str) {
        // Raw: a line feed alone does not go back to the first column.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}\r\n");
        self.drawn = None;
    }

    fn turn(&mut self, now: Nanos, steering: &Steering) -> ControlFlow<()> {
        while let Ok(key) = self.input.try_recv() {
            self.key(key, steering)?;
        }
        if self.drawn.is_some_and(|at| now < at + FRAME) {
            return ControlFlow::Continue(());
        }
        self.drawn = Some(now);
        let (standing, played) = (steering.standing(), steering.overview());
        if now >= self.shown_rate.0 {
            self.shown_rate = (now + 10 * FRAME, self.rate.of(now, standing.messages));
        }
        let width = terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        let text = match &self.order {
            Some(order) => format!(":{order}"),
            None => line_of(standing, &played, now, self.shown_rate.1),
        };
        let text: String = text.chars().take(width.saturating_sub(1)).collect();
        let cursor = if self.order.is_some() { "" } else { "\r" };
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}{cursor}").and_then(|()| std::io::stderr().flush());
        ControlFlow::Continue(())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = terminal::disable_raw_mode();
        let _ = writeln!(std::io::stderr());
    }
}

/// Where the replay is, in a line.
fn line_of(standing: Standing, played: &Overview, now: Nanos, rate: f64) -> String {
    let time = standing.time_at(now, played.to);
    let length = played.to.saturating_sub(played.from).max(1) as f64;
    let part = (time.saturating_sub(played.from) as f64 / length).clamp(0.0, 1.0);
    let filled = (part * BAR as f64).round() as usize;
    let bar = "━".repeat(filled) + &"─".repeat(BAR - filled);
    let sign = match standing.state {
        ReplayState::Running => "▶",
        ReplayState::Paused => "⏸",
        ReplayState::Waiting(_) => "…",
        ReplayState::Over => "■",
    };
    let speed = match standing.pace {
        Pace::Scaled(speed) => format!("x{speed}"),
        Pace::Unpaced => "max".to_owned(),
    };
    let repeats = if standing.repeats { " loop" } else { "" };
    // Milliseconds: a clock that goes by needs no more.
    let time = when::text(time - time % 1_000_000);
    let Standing { streams, .. } = standing;
    format!("{sign} {time} {bar} {:.0} % {speed}{repeats}  {streams} streams {rate:.0}/s  {HINTS}", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_orders_by_how_it_stands() {
        let paused = Standing::default();
        let running = Standing { state: ReplayState::Running, pace: Pace::Unpaced, repeats: true, ..paused };
        let of = |letter: char, standing| order_of(KeyCode::Char(letter), standing);
        assert_eq!((of(' ', paused), of(' ', running)), (Some(Order::Go), Some(Order::Pause)));
        assert_eq!((of('l', paused), of('l', running)), (Some(Order::Loop(true)), Some(Order::Loop(false))));
        assert_eq!(of('+', paused), Some(Order::Speed(Pace::Scaled(2.0))));
        assert_eq!(of('-', running), Some(Order::Speed(Pace::Scaled(0.5))));
        assert_eq!(order_of(KeyCode::Left, paused), Some(Order::Skip(-SKIP)));
        assert_eq!(of('x', paused), None);
    }

    #[test]
    fn the_line_has_place_and_speed() {
        let played = Overview { from: 0, to: 4_000_000_000, ..Overview::default() };
        let standing = Standing { time: 1_000_000_000, streams: 3, ..Standing::default() };
        let line = line_of(standing, &played, 0, 12.4);
        let expected = "⏸ 1970-01-01T00:00:01Z ━━━━━━────────────────── 25 % x1  3 streams 12/s  space pause";
        assert!(line.starts_with(expected), "{line}");
    }
}
