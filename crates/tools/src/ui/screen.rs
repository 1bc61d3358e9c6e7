//! The loop of the view: on a terminal a screen, anywhere else a line an interval.

use super::draw::Areas;
use super::feed::WatchClient;
use super::navigation::{Navigation, Pane, Wish};
use super::{ClientLine, draw, plain};
use anyhow::anyhow;
use crossterm::event::{self, Event, KeyEventKind};
use std::io::{IsTerminal as _, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is shown, and how.
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
    /// Tells who is connected to the server; asked once a second while that is shown.
    pub clients: Option<Box<dyn Fn() -> Vec<ClientLine>>>,
    /// What keys do to the system.
    pub commands: Vec<Command>,
}

/// A key that does something to the system.
pub struct Command {
    /// The key, a letter that nothing else uses: not one of `/ ? c h j k q s S`.
    pub key: char,
    /// What the key does, in a few words.
    pub what: &'static str,
    /// Does so, and says what was done.
    pub run: Box<dyn FnMut() -> String>,
}

/// Shows the watchlist until `stop` is set, or the person quits.
///
/// # Errors
/// A text for the user.
pub fn run(mut settings: Settings, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut client = WatchClient::new(settings.address, &settings.service, &settings.names)
        .map_err(|e| anyhow!("no sockets: {e}"))?;
    client.snapshot().hints.clone_from(&settings.hints);
    if settings.plain || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return lines(&mut client, &settings, stop, &mut std::io::stdout().lock());
    }
    screen(&mut client, &mut settings, stop)
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

/// How often clients are asked for while they are shown.
const CLIENTS_EVERY: u64 = 1_000_000_000;

fn screen(client: &mut WatchClient, settings: &mut Settings, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().map_err(|e| anyhow!("terminal: {e}; use --no-ui"))?;
    let result = follow(client, settings, stop, &mut terminal);
    ratatui::restore();
    result
}

fn follow(
    client: &mut WatchClient,
    settings: &mut Settings,
    stop: &AtomicBool,
    terminal: &mut ratatui::DefaultTerminal,
) -> anyhow::Result<()> {
    let end = end_of(settings);
    let mut navigation = Navigation::default();
    let mut clients_due = 0;
    client.snapshot().commands = settings.commands.iter().map(|command| (command.key, command.what)).collect();
    client.snapshot().clients = settings.clients.as_ref().map(|_| Vec::new());
    loop {
        let now = net::clock::now();
        if stop.load(Ordering::Acquire) || now >= end {
            return Ok(());
        }
        let deadline = now + FRAME;
        while net::clock::now() < deadline {
            client.turn(deadline).map_err(|e| anyhow!("sockets: {e}"))?;
        }
        let size = terminal.size().map_err(|e| anyhow!("terminal: {e}"))?;
        // A terminal that has gone is not asked for keys.
        while !stop.load(Ordering::Acquire) && event::poll(Duration::ZERO).map_err(|e| anyhow!("terminal: {e}"))? {
            let Event::Key(key) = event::read().map_err(|e| anyhow!("terminal: {e}"))? else { continue };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            let lines = Areas::of(size.into(), client.snapshot(), navigation.pane).lines();
            match navigation.press(key, client.snapshot(), lines) {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Watch(name)) => match client.watch(&name) {
                    Ok(row) => navigation.selected = row,
                    Err(e) => client.snapshot().notice = format!("{name}: {e}"),
                },
                Some(Wish::Command(number)) => {
                    let done = (settings.commands[number].run)();
                    let snapshot = client.snapshot();
                    snapshot.done = format!("{} {done}", draw::clock(snapshot.uptime_s));
                }
                None => {}
            }
        }
        client.look_at((navigation.pane == Pane::Detail).then_some(navigation.selected));
        if let Some(ask) = settings.clients.as_ref().filter(|_| navigation.pane == Pane::Clients && now >= clients_due)
        {
            client.snapshot().clients = Some(ask());
            clients_due = now + CLIENTS_EVERY;
        }
        let snapshot = client.snapshot();
        terminal.draw(|frame| draw::draw(frame, snapshot, &navigation)).map_err(|e| anyhow!("terminal: {e}"))?;
    }
}
