//! A snapshot as a screen.

use super::plain::{price, thousands};
use super::{Direction, Row, Snapshot};
use crate::table::micros;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row as TableRow, Sparkline, Table};

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot) {
    let hints = snapshot.hints.len() as u16;
    let [head, table, gauges, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(4),
        Constraint::Length(6),
        Constraint::Length(hints + 1),
    ])
    .areas(frame.area());
    draw_head(frame, head, snapshot);
    draw_watchlist(frame, table, snapshot);
    let [rates, latency] = Layout::horizontal([Constraint::Min(20), Constraint::Length(34)]).areas(gauges);
    draw_rates(frame, rates, snapshot);
    draw_latency(frame, latency, snapshot);
    draw_foot(frame, foot, snapshot);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let state = if snapshot.connected { "connected".green() } else { "not connected".red() };
    let line = Line::from(vec![
        " Quoteway ".bold().reversed(),
        Span::raw(format!(" {} on {}  ", snapshot.service, snapshot.address)),
        state,
        Span::raw(format!("  up {}  {} items", clock(snapshot.uptime_s), snapshot.rows.len())),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

/// The columns of the watchlist, in order.
const TITLES: [&str; COLUMNS] = ["item", "size", "bid", "ask", "size", "last", "change", "%", "volume"];
const COLUMNS: usize = 9;
/// Widths with room between the columns, and those below which a column would change its width with each tick.
const WIDE: [u16; COLUMNS] = [10, 10, 12, 12, 10, 12, 10, 9, 15];
const NARROW: [u16; COLUMNS] = [8, 5, 7, 7, 5, 7, 6, 5, 9];
/// Which columns give way, in this order, where the screen is too narrow for all: a number is shown whole or not at all.
const GIVE_WAY: [&[usize]; 6] = [&[1, 4], &[7], &[8], &[6], &[5], &[3]];

type Cells = [(String, Style); COLUMNS];

/// The columns that fit into `room`, and their widths.
fn columns(rows: &[Cells], room: u16) -> Vec<(usize, u16)> {
    let needed = |column: usize| {
        let longest = rows.iter().map(|cells| cells[column].0.chars().count()).max().unwrap_or(0);
        (longest.max(TITLES[column].len()) as u16).max(NARROW[column])
    };
    let total = |chosen: &[(usize, u16)]| chosen.iter().map(|(_, width)| width + 1).sum::<u16>().saturating_sub(1);
    let mut chosen: Vec<(usize, u16)> = (0..COLUMNS).map(|column| (column, needed(column))).collect();
    for narrower in GIVE_WAY {
        if total(&chosen) <= room {
            break;
        }
        chosen.retain(|(column, _)| !narrower.contains(column));
    }
    // A bid that is wider than the screen is left out; a name is no number.
    if total(&chosen) > room {
        chosen.truncate(1);
        chosen[0].1 = room;
    }
    let wide: Vec<_> = chosen.iter().map(|&(column, width)| (column, width.max(WIDE[column]))).collect();
    let mut chosen = if total(&wide) <= room { wide } else { chosen };
    // What is left over is the name's.
    chosen[0].1 += room.saturating_sub(total(&chosen));
    chosen
}

fn draw_watchlist(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let cells: Vec<Cells> = snapshot.rows.iter().skip(snapshot.scroll).map(watch_cells).collect();
    let shown = columns(&cells, area.width.saturating_sub(2));
    let heading = shown.iter().map(|&(column, _)| {
        let line = Line::from(TITLES[column]);
        Cell::from(if column == 0 { line } else { line.right_aligned() })
    });
    let rows = snapshot.rows.iter().skip(snapshot.scroll).zip(&cells).map(|(row, cells)| {
        if !row.imaged {
            return TableRow::new([Cell::from(row.name.clone())]).style(Style::new().fg(Color::DarkGray));
        }
        TableRow::new(shown.iter().map(|&(column, _)| {
            let (text, style) = &cells[column];
            let line = Line::from(text.clone());
            Cell::from(if column == 0 { line } else { line.right_aligned() }).style(*style)
        }))
    });
    let table = Table::new(rows, shown.iter().map(|&(_, width)| Constraint::Length(width)))
        .header(TableRow::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(Block::bordered().title(" watchlist "));
    frame.render_widget(table, area);
    // What is wrong with an item is told across the columns, which a table cannot do.
    let first_row = area.y + 2;
    let room = area.height.saturating_sub(3) as usize;
    for (n, row) in snapshot.rows.iter().skip(snapshot.scroll).take(room).enumerate().filter(|(_, r)| !r.imaged) {
        let text = if row.state.is_empty() { "waiting" } else { &row.state };
        let indent = 3 + row.name.chars().count().max(10) as u16;
        let width = area.width.saturating_sub(indent + 1) as usize;
        let style = Style::new().fg(Color::DarkGray);
        frame.buffer_mut().set_stringn(area.x + indent.min(area.width), first_row + n as u16, text, width, style);
    }
}

fn watch_cells(row: &Row) -> Cells {
    let colour = match row.direction {
        Direction::Up => Color::Green,
        Direction::Down => Color::Red,
        Direction::Level => Color::Reset,
    };
    // A price that has just moved stands out; the colour stays.
    let moved = if row.moved_s < 0.4 { Style::new().fg(colour).reversed() } else { Style::new().fg(colour) };
    let plain = Style::new();
    let sign = row.change.map_or(0.0, rwf::Real::to_f64);
    let change = if sign > 0.0 {
        Style::new().fg(Color::Green)
    } else if sign < 0.0 {
        Style::new().fg(Color::Red)
    } else {
        plain
    };
    let quote_style = if row.last.is_none() { moved } else { plain };
    [
        (row.name.clone(), plain),
        (price(row.bid_size), plain),
        (price(row.bid), quote_style),
        (price(row.ask), quote_style),
        (price(row.ask_size), plain),
        (price(row.last), if row.last.is_some() { moved } else { plain }),
        (price(row.change), change),
        (price(row.percent), change),
        (row.volume.map_or_else(|| "-".to_owned(), |v| thousands(v.to_f64())), plain),
    ]
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let title =
        format!(" {} updates/s, {} in all ", thousands(snapshot.rate as f64), thousands(snapshot.updates as f64));
    let block = Block::bordered().title(title);
    let room = block.inner(area).width as usize;
    let shown = &snapshot.rates[snapshot.rates.len().saturating_sub(room)..];
    frame.render_widget(Sparkline::default().data(shown).style(Style::new().fg(Color::Cyan)).block(block), area);
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let l = &snapshot.latency;
    let lines = if l.samples == 0 {
        vec![Line::from("no time stamps in the updates")]
    } else {
        vec![
            Line::from(format!("50%  {:>10}   90% {:>10}", micros(l.p50_us), micros(l.p90_us))),
            Line::from(format!("99%  {:>10}   max {:>10}", micros(l.p99_us), micros(l.max_us))),
            Line::from(format!("mean {:>10}   min {:>10}", micros(l.mean_us), micros(l.min_us))),
            Line::from(format!("{} samples", thousands(l.samples as f64))),
        ]
    };
    let block = Block::bordered().title(" latency, microseconds ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let mut lines: Vec<Line<'_>> = snapshot.hints.iter().map(|h| Line::from(h.as_str())).collect();
    let keys = if snapshot.notice.is_empty() { String::new() } else { format!("  {}", snapshot.notice) };
    lines.push(Line::from(vec![Span::raw("q quit  up/down scroll").dim(), Span::raw(keys)]));
    frame.render_widget(Paragraph::new(lines), area);
}

/// Seconds as `h:mm:ss`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use measure::latency::Summary;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use rwf::{Real, RealHint};

    /// A snapshot with everything in it.
    pub(in crate::ui) fn example() -> Snapshot {
        let cents = |m| Some(Real::new(m, RealHint::EXPONENT_2));
        let pips = |m| Some(Real::new(m, RealHint::EXPONENT_4));
        let whole = |m| Some(Real::new(m, RealHint::EXPONENT0));
        let row = |name: &str| Row { name: name.to_owned(), imaged: true, moved_s: 9.0, ..Row::default() };
        Snapshot {
            service: "DIRECT_FEED".to_owned(),
            address: "127.0.0.1:14002".to_owned(),
            uptime_s: 12.5,
            connected: true,
            rows: vec![
                Row {
                    bid: cents(18_447),
                    bid_size: whole(300),
                    ask: cents(18_452),
                    ask_size: whole(1_200),
                    last: cents(18_451),
                    change: cents(151),
                    percent: cents(82),
                    volume: whole(1_234_567),
                    direction: Direction::Up,
                    moved_s: 0.1,
                    updates: 900,
                    ..row("IBM.N")
                },
                Row {
                    bid: cents(16_310),
                    bid_size: whole(100),
                    ask: cents(16_320),
                    ask_size: whole(200),
                    last: cents(16_315),
                    change: cents(-5),
                    percent: cents(-3),
                    volume: whole(90_000),
                    direction: Direction::Down,
                    updates: 20,
                    ..row("TRI.N")
                },
                Row { bid: pips(10_871), ask: pips(10_873), updates: 400, ..row("EUR=") },
                Row { name: "?what".to_owned(), state: "Closed/Suspect/NotFound".to_owned(), ..Row::default() },
            ],
            rate: 1_234,
            rates: vec![10, 200, 800, 400, 1_234],
            updates: 98_765,
            images: 3,
            latency: Summary {
                samples: 5_000,
                p50_us: 61.0,
                p90_us: 88.0,
                p99_us: 1_240.0,
                max_us: 3_100.0,
                mean_us: 70.0,
                min_us: 40.0,
                ..Summary::default()
            },
            hints: vec!["EMA: host(\"localhost:14002\")".to_owned()],
            notice: String::new(),
            scroll: 0,
        }
    }

    fn drawn(snapshot: &Snapshot, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, snapshot)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(buffer: &Buffer) -> String {
        let width = buffer.area.width as usize;
        let symbols: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        symbols.chunks(width).map(|line| line.concat().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn the_screen_looks_like_this() {
        let screen = text(&drawn(&example(), 112, 18));
        let expected = " Quoteway  DIRECT_FEED on 127.0.0.1:14002  connected  up 0:00:12  4 items\n┌ watchlist ───";
        assert!(screen.starts_with(expected), "{screen}");
        let quote = "│IBM.N               300       184.47       184.52       1200       184.51       1.51      0.82       1,234,567│";
        for part in [quote, "1.0871", "│?what       Closed/Suspect/NotFound  ", " 1,234 updates/s, 98,765 in all "] {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
        for part in ["50%        61.0   90%       88.0", "99%        1240   max       3100", "5,000 samples", "q quit"]
        {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
    }

    #[test]
    fn ticks_have_colours_and_fresh_ones_stand_out() {
        let buffer = drawn(&example(), 112, 18);
        let at = |needle: &str| {
            let lines: Vec<String> = text(&buffer).lines().map(str::to_owned).collect();
            let y = lines.iter().position(|l| l.contains(needle)).unwrap();
            let x = lines[y][..lines[y].find(needle).unwrap()].chars().count();
            buffer[(x as u16, y as u16)].style()
        };
        let up = at("184.51");
        assert!(up.fg == Some(Color::Green) && up.add_modifier.contains(Modifier::REVERSED));
        let down = at("163.15");
        assert!(down.fg == Some(Color::Red) && !down.add_modifier.contains(Modifier::REVERSED));
        assert_eq!(at("184.47").fg, Some(Color::Reset));
    }

    #[test]
    fn a_number_is_shown_whole_or_not_at_all() {
        let numbers: Vec<String> = {
            let mut all: Vec<String> = example().rows.iter().flat_map(|row| watch_cells(row).map(|c| c.0)).collect();
            all.extend(TITLES.map(str::to_owned));
            all.extend(["Closed/Suspect/NotFound", "Closed/Suspect/NotFoun", "watchlist"].map(str::to_owned));
            all
        };
        for width in 12..130 {
            let screen = text(&drawn(&example(), width, 18));
            let table = screen.lines().skip(2).take(5);
            for line in table.filter(|line| !line.contains("?what")) {
                let words = line.split(|c: char| c == '│' || c.is_whitespace()).filter(|word| !word.is_empty());
                for word in words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '-')) {
                    assert!(numbers.iter().any(|number| number == word), "{word} at {width} columns\n{screen}");
                }
            }
        }
        let screen = text(&drawn(&example(), 80, 18));
        assert!(screen.contains(" 184.51 ") && screen.contains(" 1,234,567│"), "{screen}");
    }

    #[test]
    fn small_and_empty_screens_do_no_harm() {
        for (width, height) in [(1, 1), (20, 5), (40, 10), (200, 60)] {
            drawn(&example(), width, height);
            drawn(&Snapshot::default(), width, height);
        }
        let scrolled = Snapshot { scroll: 2, ..example() };
        let screen = text(&drawn(&scrolled, 112, 18));
        assert!(!screen.contains("IBM.N") && screen.contains("EUR="));
    }
}
