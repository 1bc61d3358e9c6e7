//! `quoteway top`: the terminal view of a running process for operators, by its administration: near or remote.

mod draw;
mod lists;

use anyhow::anyhow;
use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::{Value, json};

use self::lists::{List, shown};
use super::ctl::Process;
use crate::administration::Client;
use crate::ui::plain::thousands;

/// The command line.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Keys: q ends, Tab and 1 to 5 change the list, up and down choose, Enter shows all of a row,\n/ searches, s sorts by the next column, S the other way, Esc goes back.\n\n\
    Examples:\n  quoteway top\n  quoteway top --at mdhost1:8080 --user ops\n  quoteway top --once | head"
)]
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

/// What is shown.
#[derive(Debug, Default)]
struct View {
    target: String,
    process: Value,
    rows: Vec<Value>,
    list: List,
    /// Of the rows that are shown.
    selected: usize,
    detail: Option<Detail>,
    search: String,
    /// What is typed goes to the search.
    is_searching: bool,
    /// The title of the column by which the rows are sorted.
    sorted: Option<&'static str>,
    is_reversed: bool,
    /// Updates in and out, bytes in and out, a second.
    rates: Option<[f64; 4]>,
    last: Option<(Instant, [f64; 4])>,
    /// Bytes of each client or provider at the last look, by its number.
    traffic: HashMap<String, f64>,
    looked: Option<Instant>,
    fault: Option<String>,
}

/// All that is known of one row.
#[derive(Debug)]
struct Detail {
    title: String,
    /// Where the process tells more of it.
    path: Option<String>,
    lines: Vec<String>,
    scroll: usize,
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
        self.measure(Instant::now());
        if let Some(detail) = &mut self.detail {
            if let Some(path) = &detail.path {
                detail.lines = lists::lines(&client.get(path)?);
            }
            return Ok(());
        }
        let answer = client.get(&self.list.path(&self.search))?;
        let rows = if answer.is_array() { &answer } else { &answer["found"] };
        self.take(rows.as_array().cloned().unwrap_or_default(), Instant::now());
        Ok(())
    }

    /// Takes over what a look has brought.
    fn take(&mut self, mut rows: Vec<Value>, now: Instant) {
        let seconds = self.looked.replace(now).map(|before| now.duration_since(before).as_secs_f64().max(1e-3));
        let before = std::mem::take(&mut self.traffic);
        for row in &mut rows {
            let traffic = &row["traffic"];
            let bytes = ["received_bytes", "sent_bytes"].iter().filter_map(|way| traffic[way].as_f64()).sum::<f64>();
            let Some(id) = row["id"].as_str().filter(|_| traffic.is_object()).map(str::to_owned) else { continue };
            if let Some((seconds, had)) = seconds.zip(before.get(&id)) {
                row["bytes_per_s"] = json!(((bytes - had) / seconds).max(0.0).round());
            }
            self.traffic.insert(id, bytes);
        }
        if self.list == List::Events {
            rows.reverse();
        }
        self.rows = rows;
        self.selected = self.selected.min(self.shown_rows().len().saturating_sub(1));
    }

    /// The rows that have what is searched for, in their order.
    fn shown_rows(&self) -> Vec<&Value> {
        let wanted = self.search.to_lowercase();
        let columns = self.list.columns();
        let has = |row: &&Value| {
            wanted.is_empty() || columns.iter().any(|column| shown(column.of(row)).to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&Value> = match self.list {
            // Found by the process, which looks at more than the columns.
            List::Clients | List::Items => self.rows.iter().collect(),
            _ => self.rows.iter().filter(has).collect(),
        };
        if let Some(column) = columns.iter().find(|column| self.sorted == Some(column.title)) {
            rows.sort_by(|a, b| {
                let (a, b) = (column.of(a), column.of(b));
                let order = match (a.as_f64(), b.as_f64()) {
                    (Some(a), Some(b)) => a.total_cmp(&b),
                    _ => shown(a).cmp(&shown(b)),
                };
                if self.is_reversed { order.reverse() } else { order }
            });
        }
        rows
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
        if code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Pressed::Leave;
        }
        if self.is_searching {
            return self.type_search(code);
        }
        if let KeyCode::Char('q') = code {
            return Pressed::Leave;
        }
        if self.detail.is_some() {
            return self.scroll_detail(code);
        }
        let list = match code {
            KeyCode::Tab => self.list.next(1),
            KeyCode::BackTab => self.list.next(List::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => List::ALL[digit as usize - '1' as usize],
            KeyCode::Char('/') => {
                self.is_searching = true;
                self.search.clear();
                return Pressed::Nothing;
            }
            KeyCode::Char(key @ ('s' | 'S')) => {
                self.sort(key == 'S');
                return Pressed::Nothing;
            }
            KeyCode::Enter => return self.open(),
            KeyCode::Esc if self.search.is_empty() => return Pressed::Leave,
            KeyCode::Esc => {
                self.search.clear();
                return Pressed::Look;
            }
            _ => {
                let last = self.shown_rows().len().saturating_sub(1);
                self.selected = moved(code, self.selected, last);
                return Pressed::Nothing;
            }
        };
        if list == self.list {
            return Pressed::Nothing;
        }
        *self = Self {
            list,
            target: std::mem::take(&mut self.target),
            process: std::mem::take(&mut self.process),
            rates: self.rates,
            last: self.last,
            ..Self::default()
        };
        Pressed::Look
    }

    fn type_search(&mut self, code: KeyCode) -> Pressed {
        match code {
            KeyCode::Enter => self.is_searching = false,
            KeyCode::Esc => {
                self.is_searching = false;
                self.search.clear();
            }
            KeyCode::Backspace => drop(self.search.pop()),
            KeyCode::Char(letter) => self.search.push(letter),
            _ => return Pressed::Nothing,
        }
        self.selected = 0;
        Pressed::Look
    }

    fn scroll_detail(&mut self, code: KeyCode) -> Pressed {
        if matches!(code, KeyCode::Esc | KeyCode::Enter | KeyCode::Left) {
            self.detail = None;
            // The traffic of before is too long ago.
            self.looked = None;
            return Pressed::Look;
        }
        if let Some(detail) = &mut self.detail {
            detail.scroll = moved(code, detail.scroll, detail.lines.len().saturating_sub(1));
        }
        Pressed::Nothing
    }

    /// By the next column, or the other way round.
    fn sort(&mut self, turn: bool) {
        if turn {
            self.is_reversed = !self.is_reversed;
            return;
        }
        let columns = self.list.columns();
        let next = columns.iter().position(|column| self.sorted == Some(column.title)).map_or(0, |at| at + 1);
        self.sorted = columns.get(next).map(|column| column.title);
    }

    /// All of the row that is selected.
    fn open(&mut self) -> Pressed {
        let Some(row) = self.shown_rows().get(self.selected).copied().cloned() else { return Pressed::Nothing };
        let name = ["name", "address", "text"].iter().find_map(|member| row[member].as_str()).unwrap_or_default();
        let path = match (self.list, row["id"].as_str()) {
            (List::Items, Some(id)) => Some(format!("/api/v1/items/{id}")),
            _ => None,
        };
        let lines = lists::lines(&row);
        self.detail = Some(Detail { title: name.replace(net::plain::is_unprintable, "?"), path, lines, scroll: 0 });
        Pressed::Look
    }

    /// Title and figures: parts of lines, those first that are wanted most.
    fn head(&self) -> [Vec<String>; 3] {
        let (process, totals) = (&self.process, &self.process["totals"]);
        let text = |name: &str| process[name].as_str().unwrap_or_default().replace(net::plain::is_unprintable, "?");
        let count = |name: &str| thousands(totals[name].as_f64().unwrap_or(0.0));
        let uptime = process["uptime_s"].as_u64().unwrap_or(0);
        let rate = |n: usize| self.rates.map_or_else(|| "-".to_owned(), |rates| thousands(rates[n]));
        let threads = process["threads"].as_array().map_or(&[][..], Vec::as_slice);
        let slowest = |name: &str| threads.iter().filter_map(|thread| thread[name].as_f64()).max_by(f64::total_cmp);
        let micros = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |us| format!("{us:.0}"));
        let mut title = vec![format!("{} on {}", text("role"), text("host"))];
        if process["draining"] == true {
            title.push("DRAINING".to_owned());
        }
        title.extend([
            format!("({})", self.target),
            format!("up {}:{:02}:{:02}", uptime / 3600, uptime / 60 % 60, uptime % 60),
            text("version"),
        ]);
        let rates = vec![
            format!("updates/s: {} in, {} out", rate(0), rate(1)),
            format!("bytes/s: {} in, {} out", rate(2), rate(3)),
        ];
        let counts = vec![
            format!("{} clients", count("clients")),
            format!("{} behind", count("clients_behind")),
            format!("{} items", count("items")),
            format!("{} waiting", count("items_waiting")),
            format!("turns, us: 50% {} 99% {}", micros(slowest("latency_p50_us")), micros(slowest("latency_p99_us"))),
            format!("{} watchers", count("watchers")),
        ];
        [title, rates, counts]
    }

    /// The view as text.
    fn text(&self) -> String {
        let mut out = self.head().map(|parts| parts.join("  ")).join("\n") + "\n\n";
        let columns = self.list.columns();
        let line = |cells: Vec<String>| {
            let padded = cells.iter().zip(columns).map(|(cell, column)| {
                let width = usize::from(if column.width == 0 { 24 } else { column.width });
                format!("{cell:width$}")
            });
            padded.collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
        };
        out += &line(columns.iter().map(|column| column.title.to_owned()).collect());
        for row in self.shown_rows() {
            out += &line(columns.iter().map(|column| shown(column.of(row))).collect());
        }
        out
    }
}

/// Where a key of movement leads, from 0 to `last`.
fn moved(code: KeyCode, at: usize, last: usize) -> usize {
    match code {
        KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::PageDown => (at + 20).min(last),
        KeyCode::PageUp => at.saturating_sub(20),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => at,
    }
}

#[cfg(test)]
mod tests;
