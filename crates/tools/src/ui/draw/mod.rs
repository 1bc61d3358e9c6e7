//! A snapshot as a screen.

mod clients;
mod detail;

use super::navigation::{KEYS, Navigation, Pane, Sort};
use super::plain::{cut, fit as fit_parts, price, thousands};
use super::{Direction, Link, Row, Snapshot};
use crate::table::micros;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row as TableRow, Sparkline, Table};

/// Where what is on a screen of a size.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    head: Rect,
    middle: Rect,
    gauges: Rect,
    foot: Rect,
}

/// Below this height there is only the middle and one line of keys.
const LOW: u16 = 20;
/// The same where something was opened: it has all of a usual terminal.
const LOW_OPENED: u16 = 30;

/// Below this height the gauges have two lines instead of four.
const HIGH: u16 = 27;

impl Areas {
    /// The areas of a screen that shows this pane.
    pub fn of(screen: Rect, snapshot: &Snapshot, pane: Pane) -> Self {
        let low = if pane == Pane::Watchlist { LOW } else { LOW_OPENED };
        // Actions and events have a line of their own, so that neither is cut by the list of keys.
        let (gauges, hints) = match screen.height {
            height if height < low => (0, 0),
            height if height < HIGH => (4, snapshot.hints.len() as u16 + 1),
            _ => (6, snapshot.hints.len() as u16 + 1),
        };
        let [head, middle, gauges, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(4),
            Constraint::Length(gauges),
            Constraint::Length(hints.min(screen.height / 4) + 1),
        ])
        .areas(screen);
        Self { head, middle, gauges, foot }
    }

    /// Lines of the middle without border and heading.
    pub fn lines(self) -> usize {
        usize::from(self.middle.height.saturating_sub(3))
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, navigation: &Navigation) {
    let areas = Areas::of(frame.area(), snapshot, navigation.pane);
    draw_head(frame, areas.head, snapshot);
    match navigation.pane {
        Pane::Watchlist => draw_watchlist(frame, areas.middle, snapshot, navigation),
        Pane::Detail => detail::draw(frame, areas.middle, snapshot, navigation),
        Pane::Clients => clients::draw(frame, areas.middle, snapshot, navigation.scroll),
        Pane::Help => draw_help(frame, areas.middle, snapshot, navigation.scroll),
    }
    if areas.gauges.height > 0 {
        let [rates, latency] = Layout::horizontal([Constraint::Min(20), Constraint::Length(34)]).areas(areas.gauges);
        draw_rates(frame, rates, snapshot);
        draw_latency(frame, latency, snapshot);
    }
    draw_foot(frame, areas.foot, snapshot, navigation);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, scroll: usize) {
    let row =
        |key: &str, what: &str| Line::from(vec![Span::raw(format!(" {key:<9}")).bold(), Span::raw(what.to_owned())]);
    let mut lines: Vec<Line<'_>> = KEYS.iter().map(|(key, what)| row(key, what)).collect();
    lines.extend(snapshot.commands.iter().map(|(key, what)| row(&key.to_string(), what)));
    let block = Block::bordered().title(" keys ");
    let beyond = lines.len().saturating_sub(usize::from(block.inner(area).height));
    frame.render_widget(Paragraph::new(lines).scroll((scroll.min(beyond) as u16, 0)).block(block), area);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let state = match snapshot.link {
        Link::Up => snapshot.link.name().green(),
        Link::Away | Link::NoService | Link::ServiceDown => snapshot.link.name().red(),
    };
    // A figure is shown whole or not at all.
    let room = area.width.saturating_sub(11 + 2 + state.content.chars().count() as u16);
    let place = fit_parts(&[format!("{} on {}", snapshot.service, snapshot.address)], room);
    let left = room.saturating_sub(place.chars().count() as u16 + 2);
    let more = [format!("up {}", clock(snapshot.uptime_s)), format!("{} items", snapshot.rows.len())];
    let line = Line::from(vec![
        " Quoteway ".bold().reversed(),
        Span::raw(format!(" {place}  ")),
        state,
        Span::raw(format!("  {}", fit_parts(&more, left))),
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

/// The most that a column gets beyond what it needs: numbers far from their names are read in the wrong line.
const SPARE: u16 = 6;

/// The columns that fit into `room` with one blank between two, and their widths; what is left over is shared by all up to
/// [`SPARE`] each, and the rest of a very wide screen stays empty.
fn fit(needed: &[u16], give_way: &[&[usize]], room: u16) -> Vec<(usize, u16)> {
    let total = |chosen: &[(usize, u16)]| chosen.iter().map(|(_, width)| width + 1).sum::<u16>().saturating_sub(1);
    let mut chosen: Vec<(usize, u16)> = needed.iter().copied().enumerate().collect();
    for narrower in give_way {
        if total(&chosen) <= room {
            break;
        }
        chosen.retain(|(column, _)| !narrower.contains(column));
    }
    // Columns beyond the screen are left out; the first column is a name, and no number.
    if total(&chosen) > room {
        chosen.truncate(1);
        chosen[0].1 = room;
    }
    let (left, many) = (room.saturating_sub(total(&chosen)), chosen.len() as u16);
    for (n, (_, width)) in chosen.iter_mut().enumerate() {
        *width += (left / many + u16::from((n as u16) < left % many)).min(SPARE);
    }
    chosen
}

/// The columns of the watchlist that fit into `room`, and their widths.
fn columns(rows: &[Cells], room: u16) -> Vec<(usize, u16)> {
    let needed: Vec<u16> = (0..COLUMNS)
        .map(|column| {
            let longest = rows.iter().map(|cells| cells[column].0.chars().count()).max().unwrap_or(0);
            (longest.max(TITLES[column].len()) as u16).max(NARROW[column])
        })
        .collect();
    let wide: Vec<u16> = needed.iter().zip(WIDE).map(|(&needed, wide)| needed.max(wide)).collect();
    let all = wide.iter().map(|width| width + 1).sum::<u16>().saturating_sub(1);
    fit(if all <= room { &wide } else { &needed }, &GIVE_WAY, room)
}

/// The rows that are seen: all that come before the selected one belong on the screen only as far as there is room.
fn window(order: &[usize], selected: usize, room: usize) -> &[usize] {
    let at = order.iter().position(|&row| row == selected).unwrap_or(0);
    let from = (at + 1).saturating_sub(room.max(1));
    &order[from..order.len().min(from + room)]
}

fn draw_watchlist(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, navigation: &Navigation) {
    let order = navigation.order(&snapshot.rows);
    let room = usize::from(area.height.saturating_sub(3));
    let seen: Vec<(bool, &Row)> = window(&order, navigation.selected, room)
        .iter()
        .map(|&row| (row == navigation.selected, &snapshot.rows[row]))
        .collect();
    let cells: Vec<Cells> = seen.iter().map(|(_, row)| watch_cells(row)).collect();
    let shown = columns(&cells, area.width.saturating_sub(2));
    let heading = shown.iter().map(|&(column, _)| {
        let line = Line::from(TITLES[column]);
        Cell::from(if column == 0 { line } else { line.right_aligned() })
    });
    let rows = seen.iter().zip(&cells).map(|(&(is_selected, row), cells)| {
        let line = if is_selected { SELECTED } else { Style::new() };
        if in_words(row).is_some() {
            return TableRow::new([Cell::from(row.name.clone())]).style(line.patch(style_of(row)));
        }
        TableRow::new(shown.iter().map(|&(column, _)| {
            let (text, style) = &cells[column];
            let line = Line::from(text.clone());
            Cell::from(if column == 0 { line } else { line.right_aligned() }).style(*style)
        }))
        .style(line)
    });
    let mut block = Block::bordered().title(title(&order, navigation, &snapshot.rows));
    if order.len() > room {
        let at = order.iter().position(|&row| row == navigation.selected).unwrap_or(0);
        block = block.title(Line::from(format!(" {} of {} ", at + 1, order.len())).right_aligned());
    }
    let table = Table::new(rows, shown.iter().map(|&(_, width)| Constraint::Length(width)))
        .header(TableRow::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(block);
    frame.render_widget(table, area);
    // Words go across the columns, which a table cannot do.
    let first_row = area.y + 2;
    for (n, (_, row)) in seen.iter().enumerate() {
        let Some(text) = in_words(row) else { continue };
        let indent = 3 + row.name.chars().count().max(10) as u16;
        let width = area.width.saturating_sub(indent + 1);
        let at = (area.x + indent.min(area.width), first_row + n as u16);
        frame.buffer_mut().set_stringn(at.0, at.1, cut(&text, width), width.into(), style_of(row));
    }
    if seen.is_empty() && room > 0 && area.width > 4 {
        let text = format!("No row has {:?} in its name: Enter adds it.", navigation.filter);
        frame.buffer_mut().set_stringn(area.x + 2, first_row, text, usize::from(area.width - 4), Style::new().dim());
    }
}

/// What a row says across the columns instead of numbers: why there are none, or the members of a chain.
fn in_words(row: &Row) -> Option<String> {
    match (row.imaged, row.state.is_empty()) {
        (false, true) => Some("waiting".to_owned()),
        (false, false) => Some(row.state.clone()),
        (true, _) => row.in_words(),
    }
}

/// How such a row looks.
fn style_of(row: &Row) -> Style {
    match (row.imaged, row.state.is_empty()) {
        (false, _) => Style::new().fg(Color::Gray),
        (true, false) => Style::new().fg(Color::Yellow).dim(),
        (true, true) => Style::new(),
    }
}

/// The selected row stands on another ground; what its cells say keeps its colours.
const SELECTED: Style = Style::new().bg(Color::Indexed(238)).add_modifier(Modifier::BOLD);

fn title(order: &[usize], navigation: &Navigation, rows: &[Row]) -> String {
    let suspect = rows.iter().filter(|row| row.imaged && !row.state.is_empty()).count();
    let mut title = if suspect > 0 { format!(" watchlist, {suspect} suspect ") } else { " watchlist ".to_owned() };
    if navigation.is_typing {
        title = format!(" search: {}_ ", navigation.filter);
    } else if !navigation.filter.is_empty() {
        title = format!(" {} of {} items with {:?} ", order.len(), rows.len(), navigation.filter);
    }
    if navigation.sort != Sort::Asked || navigation.is_reversed {
        let way = if navigation.is_reversed { ", reversed" } else { "" };
        title.extend(["by ", navigation.sort.name(), way, " "]);
    }
    title
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
    if !row.state.is_empty() {
        // Suspect: the last values that there were, none of which counts.
        return watch_texts(row).map(|text| (text, plain.fg(Color::Yellow).dim()));
    }
    let sign = row.change.map_or(0.0, rwf::Real::to_f64);
    let change = if sign > 0.0 {
        Style::new().fg(Color::Green)
    } else if sign < 0.0 {
        Style::new().fg(Color::Red)
    } else {
        plain
    };
    let quote_style = if row.last.is_none() { moved } else { plain };
    let last = if row.last.is_some() { moved } else { plain };
    let styles = [plain, plain, quote_style, quote_style, plain, last, change, change, plain];
    let mut styles = styles.into_iter();
    watch_texts(row).map(|text| (text, styles.next().unwrap_or_default()))
}

fn watch_texts(row: &Row) -> [String; COLUMNS] {
    [
        row.name.clone(),
        price(row.bid_size),
        price(row.bid),
        price(row.ask),
        price(row.ask_size),
        price(row.last),
        price(row.change),
        price(row.percent),
        row.volume.map_or_else(|| "-".to_owned(), |v| thousands(v.to_f64())),
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

fn draw_foot(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, navigation: &Navigation) {
    let said = [snapshot.done.as_str(), snapshot.notice.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    let said = cut(&said.join("; "), area.width);
    if area.height <= 1 {
        // A single line: what there is to say, or how to get on.
        let keys = keys_of(navigation);
        let both = fit_parts(&[said.clone(), keys.to_owned()], area.width);
        return frame.render_widget(Paragraph::new(if said.is_empty() { cut(keys, area.width) } else { both }), area);
    }
    let room = usize::from(area.height.saturating_sub(2));
    let mut lines: Vec<Line<'_>> =
        snapshot.hints.iter().take(room).map(|hint| Line::from(cut(hint, area.width))).collect();
    lines.push(Line::from(said.bold()));
    lines.push(Line::from(cut(keys_of(navigation), area.width).dim()));
    frame.render_widget(Paragraph::new(lines), area);
}

/// The keys that are of use now.
fn keys_of(navigation: &Navigation) -> &'static str {
    match navigation.pane {
        Pane::Watchlist if navigation.is_typing => "Enter ends the search  Esc forgets it",
        Pane::Watchlist => "q quit  Enter item  / search  s sort  ? keys",
        Pane::Detail => "Esc back  up/down scroll  left/right item",
        Pane::Clients | Pane::Help => "Esc back  up/down scroll",
    }
}

/// Seconds as `h:mm:ss`.
pub(super) fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::ClientLine;
    use super::super::detail::{Detail, Field, Level};
    use super::*;
    use crossterm::event::{KeyCode, KeyEvent};
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
            link: Link::Up,
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
            done: String::new(),
            detail: None,
            clients: Some(vec![ClientLine {
                user: "demo".to_owned(),
                application: "quoteway demo".to_owned(),
                address: "127.0.0.1:40312".to_owned(),
                protocol: "rssl".to_owned(),
                items: 4,
                waiting_bytes: 12_345,
                connected_s: 3_725,
            }]),
            commands: vec![('d', "the service goes down, and comes back")],
        }
    }

    fn drawn(snapshot: &Snapshot, width: u16, height: u16) -> Buffer {
        drawn_at(snapshot, &Navigation::default(), width, height)
    }

    fn drawn_at(snapshot: &Snapshot, navigation: &Navigation, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, snapshot, navigation)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// An item with many fields and a book.
    fn detail() -> Detail {
        let cents = |m| Real::new(m, RealHint::EXPONENT_2);
        let whole = |m| Some(Real::new(m, RealHint::EXPONENT0));
        let level = |price, size| Level { price: cents(price), size: whole(size), orders: Some(3) };
        let field = |n: i16| Field {
            fid: n,
            name: format!("FIELD_{n}"),
            kind: "REAL".to_owned(),
            value: "1,234.5678".to_owned(),
        };
        Detail {
            fields: (1..60).map(field).collect(),
            bids: (0..20).map(|n| level(18_447 - n, 300)).collect(),
            asks: (0..20).map(|n| level(18_452 + n, 1_200_300)).collect(),
        }
    }

    fn text(buffer: &Buffer) -> String {
        let width = buffer.area.width as usize;
        let symbols: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        symbols.chunks(width).map(|line| line.concat().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn the_screen_looks_like_this() {
        let screen = text(&drawn(&example(), 112, 27));
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
        let buffer = drawn(&example(), 112, 20);
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
            let screen = text(&drawn(&example(), width, 20));
            let table = screen.lines().skip(2).take(5);
            for line in table.filter(|line| !line.contains("?what")) {
                let words = line.split(|c: char| c == '│' || c.is_whitespace()).filter(|word| !word.is_empty());
                for word in words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '-')) {
                    assert!(numbers.iter().any(|number| number == word), "{word} at {width} columns\n{screen}");
                }
            }
        }
        let screen = text(&drawn(&example(), 80, 20));
        assert!(screen.contains(" 184.51 ") && screen.contains(" 1,234,567│"), "{screen}");
    }

    #[test]
    fn small_and_empty_screens_do_no_harm() {
        for (width, height) in [(1, 1), (20, 5), (40, 10), (200, 60)] {
            drawn(&example(), width, height);
            drawn(&Snapshot::default(), width, height);
        }
    }

    #[test]
    fn what_was_done_and_what_is_wrong_are_told_in_full_on_a_usual_terminal() {
        let done = "0:01:12 the source's connection was cut: it is dialled again";
        let mut snapshot = Snapshot { link: Link::ServiceDown, done: done.to_owned(), ..example() };
        let screen = text(&drawn(&snapshot, 80, 24));
        assert!(screen.contains("service down") && !screen.contains("not connected"), "{screen}");
        assert!(screen.contains(done) && screen.contains("? keys"), "{screen}");
        assert!(screen.contains("99%") && screen.contains("EMA: host"), "{screen}");
        snapshot.link = Link::Away;
        snapshot.notice = "refused".to_owned();
        let screen = text(&drawn(&snapshot, 80, 24));
        assert!(screen.contains("not connected") && screen.contains("dialled again; refused"), "{screen}");
        // Without room for more than a line, it is this one.
        let screen = text(&drawn(&snapshot, 80, 12));
        assert!(screen.contains("dialled again; refused"), "{screen}");
    }

    #[test]
    fn a_state_that_is_too_long_ends_with_a_mark_and_leaves_the_name() {
        let mut snapshot = Snapshot { detail: Some(detail()), ..example() };
        snapshot.rows[0].state = "the source says so, on request, at great length and twice (OPEN/SUSPECT)".to_owned();
        snapshot.rows[3].state = format!("{} (CLOSED/SUSPECT)", "no such item ".repeat(10));
        let at = Navigation { pane: Pane::Detail, ..Navigation::default() };
        let screen = text(&drawn_at(&snapshot, &at, 80, 24));
        assert!(
            screen.contains(" IBM.N ") && screen.contains("the source says so") && screen.contains('…'),
            "{screen}"
        );
        let screen = text(&drawn(&snapshot, 80, 24));
        assert!(screen.contains("no such item") && screen.contains('…'), "{screen}");
    }

    #[test]
    fn a_chain_shows_its_members_and_no_dashes() {
        let mut snapshot = example();
        let members = vec!["AXP.N".to_owned(), "BA.N".to_owned()];
        snapshot.rows.push(Row { name: "0#.DJI".to_owned(), imaged: true, members, ..Row::default() });
        let screen = text(&drawn(&snapshot, 80, 24));
        let line = screen.lines().find(|line| line.contains("0#.DJI")).unwrap();
        assert!(line.contains("chain of 2: AXP.N BA.N") && !line.contains(" - "), "{line}");
    }

    #[test]
    fn numbers_stay_near_their_names_on_a_wide_screen() {
        let screen = text(&drawn(&example(), 160, 45));
        let line = screen.lines().find(|line| line.contains("IBM.N")).unwrap();
        let between = line.split_once("IBM.N").unwrap().1.chars().take_while(|c| *c == ' ').count();
        assert!(between < 30, "{between} blanks\n{screen}");
    }

    #[test]
    fn the_selected_row_is_seen_and_stands_out() {
        let at = Navigation { selected: 3, ..Navigation::default() };
        // Room for two rows.
        let buffer = drawn_at(&example(), &at, 112, 20);
        let screen = text(&buffer);
        assert!(screen.contains("?what") && screen.contains("EUR="), "{screen}");
        let low = drawn_at(&Snapshot { hints: Vec::new(), ..example() }, &at, 112, 7);
        let screen = text(&low);
        assert!(screen.contains("?what") && !screen.contains("IBM.N") && screen.contains(" 4 of 4 "), "{screen}");
        let selected = low.content().iter().filter(|cell| cell.style().bg == Some(Color::Indexed(238))).count();
        assert!(selected > 100, "{selected} cells");
    }

    #[test]
    fn suspect_rows_are_told_and_lose_their_colours() {
        let mut snapshot = example();
        snapshot.rows[0].state = "Open/Suspect/None".to_owned();
        let buffer = drawn(&snapshot, 112, 24);
        assert!(text(&buffer).contains(" watchlist, 1 suspect "));
        let suspect = buffer.content().iter().filter(|cell| cell.style().fg == Some(Color::Yellow)).count();
        assert!(
            suspect > 30
                && !buffer.content().iter().any(|cell| cell.style().fg == Some(Color::Green) && cell.symbol() == "5")
        );
    }

    #[test]
    fn an_item_in_full_has_fields_and_book() {
        let snapshot = Snapshot { detail: Some(detail()), ..example() };
        let at = Navigation { pane: Pane::Detail, scroll: 3, ..Navigation::default() };
        let screen = text(&drawn_at(&snapshot, &at, 112, 30));
        for part in [
            " IBM.N ",
            "     4 FIELD_4  REAL 1,234.5678",
            " order book ",
            " orders ",
            "price        size",
            "184.47         300",
            "184.52   1,200,300",
            "spread 0.05",
        ] {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
        assert!(!screen.contains("FIELD_3 "), "{screen}");
        let narrow = text(&drawn_at(&snapshot, &at, 50, 40));
        assert!(
            narrow.contains("order book") && narrow.contains("FIELD_4") && narrow.contains("1,234.5678"),
            "{narrow}"
        );
    }

    #[test]
    fn clients_and_keys_are_listed() {
        let at = Navigation { pane: Pane::Clients, ..Navigation::default() };
        let screen = text(&drawn_at(&example(), &at, 112, 20));
        for part in [" 1 client ", "demo", "quoteway demo", "127.0.0.1:40312", "rssl", "12 KB", "1:02:05"] {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
        let at = Navigation { pane: Pane::Help, ..Navigation::default() };
        let screen = text(&drawn_at(&example(), &at, 112, 30));
        assert!(
            screen.contains("the service goes down, and comes back") && screen.contains("search; Enter"),
            "{screen}"
        );
    }

    #[test]
    fn what_was_opened_has_all_of_a_small_terminal() {
        let mut snapshot = example();
        let keys = |at: &Navigation| text(&drawn_at(&example(), at, 60, 20));
        let mut at = Navigation { pane: Pane::Help, ..Navigation::default() };
        let screen = keys(&at);
        assert!(screen.contains("the end") && screen.contains("the service goes down"), "{screen}");
        // Lower still, it scrolls to its end.
        let lines = Areas::of(Rect::new(0, 0, 60, 8), &snapshot, at.pane).lines();
        for _ in 0..50 {
            at.press(KeyEvent::from(KeyCode::Down), &snapshot, lines);
        }
        let screen = text(&drawn_at(&snapshot, &at, 60, 8));
        assert!(screen.contains("the service goes down") && !screen.contains("another row"), "{screen}");
        snapshot.detail = Some(detail());
        at = Navigation { pane: Pane::Detail, ..Navigation::default() };
        let screen = text(&drawn_at(&snapshot, &at, 80, 24));
        assert_eq!(screen.lines().filter(|line| line.starts_with('│')).count(), 20, "{screen}");
    }

    /// Random keys and sizes: the picture is whole, a number is whole or not there, and the border closes on each line.
    #[test]
    fn any_keys_at_any_size_break_no_line() {
        const CODES: [KeyCode; 24] = [
            KeyCode::Char('/'),
            KeyCode::Char('s'),
            KeyCode::Char('S'),
            KeyCode::Char('c'),
            KeyCode::Char('?'),
            KeyCode::Char('j'),
            KeyCode::Char('k'),
            KeyCode::Char('x'),
            KeyCode::Char('.'),
            KeyCode::Char('N'),
            KeyCode::Enter,
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Backspace,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Char('d'),
            KeyCode::Tab,
        ];
        let mut snapshot = example();
        let first = snapshot.rows[0].clone();
        snapshot.rows.extend((0..40).map(|n| Row { name: format!("ITEM{n}.O"), ..first.clone() }));
        let mut at = Navigation::default();
        for step in 0..2_000_u64 {
            snapshot.uptime_s = 3_725.0;
            let random = |salt: u64| {
                let mixed = (step * 8 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as usize
            };
            let (width, height) = ((1 + random(1) % 140) as u16, (1 + random(2) % 50) as u16);
            let lines = Areas::of(Rect::new(0, 0, width, height), &snapshot, at.pane).lines();
            let wish = at.press(KeyEvent::from(CODES[random(3) % CODES.len()]), &snapshot, lines);
            if let Some(super::super::navigation::Wish::Watch(name)) = wish {
                snapshot.rows.push(Row { name, ..Row::default() });
            }
            snapshot.detail = (at.pane == Pane::Detail).then(detail);
            assert!(at.selected < snapshot.rows.len(), "{at:?}");
            let screen = text(&drawn_at(&snapshot, &at, width, height));
            let opened = screen.lines().filter(|line| line.starts_with('│')).count();
            let closed = screen.lines().filter(|line| line.starts_with('│') && line.ends_with(['│', '┐', '┘'])).count();
            assert_eq!(opened, closed, "{at:?} at {width} x {height}\n{screen}");
            let head = screen.lines().next().unwrap_or_default();
            assert!(!head.contains("up ") || head.contains("up 1:02:05"), "{width}\n{screen}");
            let whole = ["184.51", "184.47", "1,234,567", "1,234.5678"];
            for word in screen.split(|c: char| c == '│' || c.is_whitespace()) {
                let is_part = |number: &&str| number.len() > word.len() && word.len() > 3 && number.ends_with(word);
                assert!(!word.contains('.') || !whole.iter().any(is_part), "{word} at {width}\n{screen}");
            }
        }
    }
}
