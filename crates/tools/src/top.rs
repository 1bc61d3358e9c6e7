//! `quoteway top`: the terminal view of a running process for operators, by its administration: near or remote.

use anyhow::anyhow;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use serde_json::Value;

use super::ctl::Process;
use crate::administration::Client;
use crate::ui::plain::thousands;

/// The command line.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Keys: q ends, Tab and 1 to 4 change the list, up and down scroll.\n\n\
    Examples:\n  quoteway top\n  quoteway top --at mdhost1:8080 --user ops\n  quoteway top --once | head")]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub process: Process,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = super::flags::seconds)]
    pub interval: f64,
    /// Print one look as text, and end
    #[arg(long)]
    pub once: bool,
}

/// The lists that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum List {
    #[default]
    Clients,
    Services,
    Providers,
    Events,
}

impl List {
    const ALL: [Self; 4] = [Self::Clients, Self::Services, Self::Providers, Self::Events];

    fn title(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Services => "services",
            Self::Providers => "providers",
            Self::Events => "events",
        }
    }

    /// Title, member of the answer, width; numbers are right-aligned. 0: what is left.
    fn columns(self) -> &'static [(&'static str, &'static str, u16)] {
        match self {
            Self::Clients => &[
                ("id", "id", 7),
                ("address", "address", 22),
                ("user", "user", 14),
                ("application", "application", 0),
                ("protocol", "protocol", 9),
                ("items", "items", 9),
                ("waiting", "queued_bytes", 11),
                ("seconds", "connected_s", 9),
            ],
            Self::Services => &[
                ("service", "name", 0),
                ("up", "up", 4),
                ("accepting", "accepting", 9),
                ("waiting", "waiting", 9),
                ("suspect", "suspect", 9),
                ("served by", "providers", 0),
            ],
            Self::Providers => &[
                ("id", "id", 7),
                ("kind", "kind", 15),
                ("address", "address", 0),
                ("state", "state", 14),
                ("services", "services", 0),
            ],
            Self::Events => &[("number", "number", 7), ("level", "level", 6), ("what", "text", 0)],
        }
    }
}

/// What is shown.
#[derive(Debug, Default)]
struct View {
    target: String,
    process: Value,
    rows: Vec<Value>,
    list: List,
    scroll: usize,
    /// Updates in and out, bytes in and out, a second.
    rates: Option<[f64; 4]>,
    last: Option<(Instant, [f64; 4])>,
    fault: Option<String>,
}

/// Shows the view until the person ends it.
///
/// # Errors
/// The first look fails, or the terminal does.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.process.client()?;
    let mut view = View { target: args.process.at.to_string(), ..View::default() };
    view.look(&client)?;
    if args.once || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        print!("{}", view.text());
        return Ok(());
    }
    let mut terminal = ratatui::try_init().map_err(|e| anyhow!("terminal: {e}; use --once"))?;
    let every = Duration::from_secs_f64(args.interval.clamp(0.1, 3600.0));
    let mut due = Instant::now() + every;
    let result = loop {
        if let Err(e) = terminal.draw(|frame| view.draw(frame)) {
            break Err(anyhow!("terminal: {e}"));
        }
        match view.pressed(due.saturating_duration_since(Instant::now())) {
            Ok(Pressed::Leave) => break Ok(()),
            Ok(Pressed::Nothing) if Instant::now() < due => continue,
            Ok(_) => {}
            Err(e) => break Err(anyhow!("terminal: {e}")),
        }
        view.fault = view.look(&client).err().map(|e| e.to_string());
        due = Instant::now() + every;
    };
    ratatui::restore();
    result
}

/// What a key meant.
enum Pressed {
    Nothing,
    Look,
    Leave,
}

impl View {
    fn look(&mut self, client: &Client) -> anyhow::Result<()> {
        self.process = client.get("/api/v1/process")?;
        let list = self.list.title();
        let answer =
            client.get(&format!("/api/v1/{list}{}", if self.list == List::Clients { "?limit=1000" } else { "" }))?;
        let rows = if answer.is_array() { &answer } else { &answer["found"] };
        self.rows = rows.as_array().cloned().unwrap_or_default();
        if self.list == List::Events {
            self.rows.reverse();
        }
        self.measure(Instant::now());
        Ok(())
    }

    fn measure(&mut self, now: Instant) {
        let totals = &self.process["totals"];
        let threads = self.process["threads"].as_array().map_or(&[][..], Vec::as_slice);
        let sum = |name: &str| threads.iter().filter_map(|thread| thread[name].as_f64()).sum::<f64>();
        let number = |name: &str| totals[name].as_f64().unwrap_or(0.0);
        let counted = [number("updates_in"), number("updates_out"), sum("bytes_received"), sum("bytes_sent")];
        if let Some((at, before)) = self.last {
            let seconds = now.duration_since(at).as_secs_f64().max(1e-3);
            let rate = |n: usize| ((counted[n] - before[n]) / seconds).max(0.0);
            self.rates = Some([rate(0), rate(1), rate(2), rate(3)]);
        }
        self.last = Some((now, counted));
    }

    fn pressed(&mut self, wait: Duration) -> std::io::Result<Pressed> {
        if !event::poll(wait)? {
            return Ok(Pressed::Look);
        }
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event::read()? else {
            return Ok(Pressed::Nothing);
        };
        Ok(self.key(code, modifiers))
    }

    fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Pressed {
        let last = self.rows.len().saturating_sub(1);
        let at = List::ALL.iter().position(|list| *list == self.list).unwrap_or(0);
        let list = match code {
            KeyCode::Char('q') | KeyCode::Esc => return Pressed::Leave,
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return Pressed::Leave,
            KeyCode::Tab => List::ALL[(at + 1) % List::ALL.len()],
            KeyCode::BackTab => List::ALL[(at + List::ALL.len() - 1) % List::ALL.len()],
            KeyCode::Char(digit @ '1'..='4') => List::ALL[digit as usize - '1' as usize],
            _ => {
                self.scroll = match code {
                    KeyCode::Down | KeyCode::Char('j') => (self.scroll + 1).min(last),
                    KeyCode::Up | KeyCode::Char('k') => self.scroll.saturating_sub(1),
                    KeyCode::PageDown => (self.scroll + 20).min(last),
                    KeyCode::PageUp => self.scroll.saturating_sub(20),
                    KeyCode::Home => 0,
                    KeyCode::End => last,
                    _ => self.scroll,
                };
                return Pressed::Nothing;
            }
        };
        self.scroll = 0;
        if list == self.list {
            return Pressed::Nothing;
        }
        self.list = list;
        self.rows.clear();
        Pressed::Look
    }

    /// Title and figures.
    fn head(&self) -> Vec<String> {
        let (process, totals) = (&self.process, &self.process["totals"]);
        let text = |name: &str| process[name].as_str().unwrap_or_default().replace(char::is_control, "?");
        let count = |name: &str| thousands(totals[name].as_f64().unwrap_or(0.0));
        let uptime = process["uptime_s"].as_u64().unwrap_or(0);
        let drained = if process["draining"] == true { ", DRAINING" } else { "" };
        let rate = |n: usize| self.rates.map_or_else(|| "-".to_owned(), |rates| thousands(rates[n]));
        let threads = process["threads"].as_array().map_or(&[][..], Vec::as_slice);
        let slowest = |name: &str| {
            threads
                .iter()
                .filter_map(|thread| thread[name].as_f64())
                .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))))
        };
        let micros = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |us| format!("{us:.0}"));
        vec![
            format!(
                "{} {} on {} ({}), up {}:{:02}:{:02}{drained}",
                text("role"),
                text("version"),
                text("host"),
                self.target,
                uptime / 3600,
                uptime / 60 % 60,
                uptime % 60
            ),
            format!("updates/s: {} in, {} out   bytes/s: {} in, {} out", rate(0), rate(1), rate(2), rate(3)),
            format!(
                "{} clients ({} behind), {} items, {} watchers, {} items wait   turns, us: 50% {} 99% {}",
                count("clients"),
                count("clients_behind"),
                count("items"),
                count("watchers"),
                count("items_waiting"),
                micros(slowest("latency_p50_us")),
                micros(slowest("latency_p99_us"))
            ),
        ]
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(3), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
        let mut lines: Vec<Line<'_>> = self.head().into_iter().map(Line::from).collect();
        lines[0] = Line::from(vec![" Quoteway ".bold().reversed(), Span::raw(" "), Span::raw(lines[0].to_string())]);
        frame.render_widget(Paragraph::new(lines), head);
        self.draw_list(frame, body);
        let keys = "q quit  Tab list  up/down scroll".dim();
        let foot_line = match &self.fault {
            Some(fault) => Line::from(vec![keys, Span::raw("  "), fault.clone().red()]),
            None => Line::from(vec![keys]),
        };
        frame.render_widget(Paragraph::new(foot_line), foot);
    }

    fn draw_list(&self, frame: &mut Frame<'_>, area: Rect) {
        let columns = fitting(self.list, area.width.saturating_sub(2));
        let widths = columns
            .iter()
            .map(|(_, _, width)| if *width == 0 { Constraint::Fill(1) } else { Constraint::Length(*width) });
        let rows = self.rows.iter().skip(self.scroll).map(|row| {
            let style = if is_sick(self.list, row) { Style::new().fg(Color::Red) } else { Style::new() };
            Row::new(columns.iter().map(|(_, member, _)| cell(&row[*member]))).style(style)
        });
        let heading = Row::new(columns.iter().map(|(title, ..)| Cell::from(*title))).style(Style::new().bold());
        let tabs: Vec<Span<'_>> = List::ALL
            .into_iter()
            .zip(1..)
            .map(|(list, n)| {
                let text = format!(" {n} {} ", list.title());
                if list == self.list { text.reversed() } else { Span::raw(text) }
            })
            .collect();
        let block = Block::bordered().title(Line::from(tabs));
        frame.render_widget(Table::new(rows, widths).header(heading).block(block), area);
    }

    /// The view as text.
    fn text(&self) -> String {
        let mut out = self.head().join("\n") + "\n\n";
        let columns = self.list.columns();
        let line = |cells: Vec<String>| {
            let padded = cells.iter().zip(columns).map(|(cell, (_, _, width))| {
                let width = usize::from(if *width == 0 { 24 } else { *width });
                format!("{cell:width$}")
            });
            padded.collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
        };
        out += &line(columns.iter().map(|(title, ..)| (*title).to_owned()).collect());
        for row in &self.rows {
            out += &line(columns.iter().map(|(_, member, _)| shown(&row[*member])).collect());
        }
        out
    }
}

/// The columns that fit: numbers are shown whole or not at all, so that the last ones give way.
fn fitting(list: List, room: u16) -> Vec<(&'static str, &'static str, u16)> {
    let mut columns = list.columns().to_vec();
    let total = |columns: &[(&str, &str, u16)]| {
        columns.iter().map(|(_, _, width)| if *width == 0 { 12 } else { *width } + 1).sum::<u16>()
    };
    while columns.len() > 1 && total(&columns) > room + 1 {
        columns.pop();
    }
    columns
}

fn is_sick(list: List, row: &Value) -> bool {
    match list {
        List::Clients => row["held_back"] == true,
        List::Services => row["up"] == false,
        List::Providers => row["state"] != "ready",
        List::Events => row["level"] == "error" || row["level"] == "warn",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Object(_) => String::new(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.as_f64().map_or_else(String::new, thousands),
        Value::String(text) => text.replace(char::is_control, "?"),
        Value::Array(list) => list
            .iter()
            .map(|one| one["address"].as_str().map_or_else(|| shown(one), str::to_owned))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn cell(value: &Value) -> Cell<'static> {
    let line = Line::from(shown(value));
    Cell::from(if value.is_number() { line.right_aligned() } else { line })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn view() -> View {
        let client = json!({ "id": "0.3", "address": "10.0.0.7:51544", "user": "ann", "application": "EMA", "protocol": "rssl",
            "items": 100_000, "queued_bytes": 1_234_567, "connected_s": 86_400, "held_back": false });
        let totals =
            json!({ "clients": 1, "items": 100_000, "watchers": 100_000, "updates_in": 5000, "updates_out": 5000 });
        let process = json!({ "role": "serve", "version": "0.1.0", "host": "md1", "uptime_s": 3_725, "totals": totals,
            "threads": [{ "bytes_received": 10, "bytes_sent": 20, "latency_p50_us": 20.0, "latency_p99_us": 50.0 }] });
        View { target: "md1:8080".into(), process, rows: vec![client; 60], ..View::default() }
    }

    fn drawn(view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let symbols: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        symbols.chunks(usize::from(width)).map(|line| line.concat().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn the_screen_shows_what_the_process_says() {
        let mut view = view();
        view.measure(Instant::now());
        view.process["totals"]["updates_out"] = json!(15_000);
        let (at, counted) = view.last.unwrap();
        view.last = Some((at.checked_sub(Duration::from_secs(1)).unwrap(), counted));
        view.measure(at);
        let screen = drawn(&view, 120, 20);
        for part in
            ["serve 0.1.0 on md1 (md1:8080), up 1:02:05", "10,000 out", "100,000 items", "0.3", "ann", "1,234,567"]
        {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
        assert!(view.text().contains("10.0.0.7:51544"));
    }

    #[test]
    fn keys_and_sizes_at_random_break_no_line() {
        let mut view = view();
        let mut random = 7_u64;
        for _ in 0..200 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let keys = [
                KeyCode::Tab,
                KeyCode::BackTab,
                KeyCode::Down,
                KeyCode::Up,
                KeyCode::PageDown,
                KeyCode::PageUp,
                KeyCode::End,
                KeyCode::Home,
                KeyCode::Char('2'),
                KeyCode::Char('x'),
            ];
            let list = view.list;
            view.key(keys[(random >> 33) as usize % keys.len()], KeyModifiers::NONE);
            if view.list != list {
                view.rows = self::view().rows;
            }
            let (width, height) = ((random >> 40) as u16 % 150 + 1, (random >> 50) as u16 % 50 + 1);
            let screen = drawn(&view, width, height);
            assert_eq!(screen.lines().count(), usize::from(height));
            // A number is whole or not there.
            if view.list == List::Clients {
                let body =
                    screen.lines().skip(3).flat_map(|line| line.split(|c: char| !c.is_ascii_digit() && c != ','));
                for word in body.filter(|word| word.contains(',')) {
                    assert!(["100,000", "1,234,567", "86,400"].contains(&word), "{word} at {width}\n{screen}");
                }
            }
        }
    }
}
