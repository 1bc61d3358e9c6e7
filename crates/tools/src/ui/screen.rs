//! The loop of the view: on a terminal a screen, anywhere else a line an interval.

use super::feed::WatchClient;
use super::{draw, plain};
use anyhow::anyhow;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{IsTerminal as _, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is shown, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server that the watchlist is opened on.
    pub address: SocketAddr,
    /// Its service.
    pub service: String,
    /// The watchlist.
    pub names: Vec<String>,
    /// Lines under it, and behind the first plain line: how to connect something else.
    pub hints: Vec<String>,
    /// Plain lines even on a terminal.
    pub plain: bool,
    /// Time between two plain lines.
    pub interval: Duration,
    /// Stop after this time.
    pub limit: Option<Duration>,
}

/// Shows the watchlist until `stop` is set, or the person quits.
///
/// # Errors
/// A text for the user.
pub fn run(settings: &Settings, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut client = WatchClient::new(settings.address, &settings.service, &settings.names)
        .map_err(|e| anyhow!("no sockets: {e}"))?;
    client.snapshot().hints.clone_from(&settings.hints);
    if settings.plain || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return lines(&mut client, settings, stop, &mut std::io::stdout().lock());
    }
    screen(&mut client, settings, stop)
}

fn end_of(settings: &Settings) -> u64 {
    settings.limit.map_or(u64::MAX, |limit| net::clock::now().saturating_add(limit.as_nanos() as u64))
}

/// How often the screen is drawn.
const FRAME: u64 = 100_000_000;
/// How often the stop flag is looked at.
const CHECK: u64 = 50_000_000;

fn lines(client: &mut WatchClient, settings: &Settings, stop: &AtomicBool, out: &mut impl Write) -> anyhow::Result<()> {
    let every = settings.interval.as_nanos().max(1) as u64;
    let end = end_of(settings);
    let mut next: Option<u64> = None;
    while !stop.load(Ordering::Acquire) {
        let now = net::clock::now();
        if now >= end {
            break;
        }
        client.turn(next.unwrap_or(u64::MAX).min(now + CHECK).min(end)).map_err(|e| anyhow!("sockets: {e}"))?;
        let now = net::clock::now();
        let text = match next {
            None if client.snapshot().is_ready() => {
                next = Some(now + every);
                plain::ready(client.snapshot())
            }
            Some(at) if now >= at => {
                next = Some((at + every).max(now + 1));
                plain::line(client.snapshot())
            }
            _ => continue,
        };
        // A reader that went away ends the view, not the program with a panic.
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn screen(client: &mut WatchClient, settings: &Settings, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().map_err(|e| anyhow!("terminal: {e}; use --no-ui"))?;
    let end = end_of(settings);
    let result = loop {
        let now = net::clock::now();
        if stop.load(Ordering::Acquire) || now >= end {
            break Ok(());
        }
        let deadline = now + FRAME;
        while net::clock::now() < deadline {
            if let Err(e) = client.turn(deadline) {
                ratatui::restore();
                return Err(anyhow!("sockets: {e}"));
            }
        }
        match pressed(client) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(e) => break Err(anyhow!("terminal: {e}")),
        }
        let snapshot = client.snapshot();
        if let Err(e) = terminal.draw(|frame| draw::draw(frame, snapshot)) {
            break Err(anyhow!("terminal: {e}"));
        }
    };
    ratatui::restore();
    result
}

/// Takes the keys that were pressed; true when the person wants to leave.
fn pressed(client: &mut WatchClient) -> std::io::Result<bool> {
    while event::poll(Duration::ZERO)? {
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event::read()? else { continue };
        let snapshot = client.snapshot();
        let last = snapshot.rows.len().saturating_sub(1);
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
            KeyCode::Down => snapshot.scroll = (snapshot.scroll + 1).min(last),
            KeyCode::Up => snapshot.scroll = snapshot.scroll.saturating_sub(1),
            KeyCode::PageDown => snapshot.scroll = (snapshot.scroll + 20).min(last),
            KeyCode::PageUp => snapshot.scroll = snapshot.scroll.saturating_sub(20),
            KeyCode::Home => snapshot.scroll = 0,
            _ => {}
        }
    }
    Ok(false)
}
