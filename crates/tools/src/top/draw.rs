//! The screen of `top`. A figure is shown whole or not at all, however narrow the screen is.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use serde_json::Value;

use super::View;
use super::lists::{Column, List, fitting, shown};
use crate::ui::plain::{cut, fit};

const KEYS: [&str; 7] = ["q quit", "Tab list", "Enter all of it", "/ search", "s S sort", "Esc back", "up down"];

impl View {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(3), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
        let parts = self.head();
        let room = head.width.saturating_sub(11);
        let mut lines =
            vec![Line::from(vec![" Quoteway ".bold().reversed(), Span::raw(" "), fit(&parts[0], room).into()])];
        lines.extend(parts[1..].iter().map(|parts| Line::from(fit(parts, head.width))));
        frame.render_widget(Paragraph::new(lines), head);
        match &self.detail {
            Some(detail) => draw_detail(frame, body, &detail.title, &detail.lines, detail.scroll),
            None => self.draw_list(frame, body),
        }
        frame.render_widget(Paragraph::new(self.foot(foot.width)), foot);
    }

    fn foot(&self, room: u16) -> Line<'static> {
        if let Some(fault) = &self.fault {
            return Line::from(cut(&fault.replace(net::plain::is_unprintable, " "), room).red());
        }
        if self.is_searching {
            return Line::from(cut(&format!("search: {}_", self.search), room).bold());
        }
        Line::from(fit(&KEYS.map(str::to_owned), room).dim())
    }

    fn draw_list(&self, frame: &mut Frame<'_>, area: Rect) {
        let room = area.width.saturating_sub(2);
        let columns = fitting(self.list, room);
        let widths: Vec<u16> = widths(&columns, room);
        let rows = self.shown_rows();
        let lines = usize::from(area.height.saturating_sub(3));
        let first = self.selected.saturating_sub(lines.saturating_sub(1));
        let table_rows = rows.iter().enumerate().skip(first).take(lines).map(|(at, row)| {
            let mut style = if self.list.is_sick(row) { Style::new().fg(Color::Red) } else { Style::new() };
            if at == self.selected {
                style = style.reversed();
            }
            Row::new(columns.iter().zip(&widths).map(|(column, width)| cell(column.of(row), *width))).style(style)
        });
        let heading = Row::new(columns.iter().map(|column| {
            let mark =
                if self.sorted == Some(column.title) { if self.is_reversed { "▼" } else { "▲" } } else { "" };
            Cell::from(format!("{}{mark}", column.title))
        }));
        let block = Block::bordered().title(self.tabs(room));
        let table = Table::new(table_rows, widths.iter().map(|width| Constraint::Length(*width)));
        frame.render_widget(table.header(heading.style(Style::new().bold())).block(block), area);
    }

    /// The names of the lists: all of them where there is room, else that of the one that is shown.
    fn tabs(&self, room: u16) -> Line<'static> {
        let names: Vec<String> =
            List::ALL.into_iter().zip(1..).map(|(list, n)| format!(" {n} {} ", list.title())).collect();
        let more = if self.search.is_empty() { String::new() } else { format!(" with {} ", self.search) };
        let all: usize = names.iter().map(String::len).sum();
        if all > usize::from(room) {
            return Line::from(cut(&format!(" {}{more}", self.list.title()), room));
        }
        let mut spans: Vec<Span<'_>> = List::ALL
            .into_iter()
            .zip(names)
            .map(|(list, name)| if list == self.list { name.reversed() } else { Span::raw(name) })
            .collect();
        spans.push(Span::raw(cut(&more, room.saturating_sub(all as u16))));
        Line::from(spans)
    }
}

fn draw_detail(frame: &mut Frame<'_>, area: Rect, title: &str, lines: &[String], scroll: usize) {
    let room = area.width.saturating_sub(2);
    let shown = wrapped(lines, usize::from(room.max(1)));
    let lines = shown.into_iter().skip(scroll).map(Line::from).collect::<Vec<_>>();
    let block = Block::bordered().title(cut(&format!(" {title} "), room));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Lines that are too long go on in the next one, at the column of the value.
fn wrapped(lines: &[String], room: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in lines {
        let mut rest: Vec<char> = line.chars().collect();
        let indent = 21.min(room / 2);
        while rest.len() > room {
            let at = rest[..room].iter().rposition(|c| *c == ' ').filter(|at| *at > indent).unwrap_or(room);
            out.push(rest[..at].iter().collect());
            let left = rest[at..].iter().skip_while(|c| **c == ' ');
            rest = std::iter::repeat_n(' ', indent).chain(left.copied()).collect();
        }
        out.push(rest.into_iter().collect());
    }
    out
}

/// The width of each column: those without one of their own share what is left.
fn widths(columns: &[Column], room: u16) -> Vec<u16> {
    let fixed: u16 = columns.iter().map(|column| column.width).sum();
    let free = columns.iter().filter(|column| column.width == 0).count() as u16;
    let left = room.saturating_sub(fixed + columns.len().saturating_sub(1) as u16);
    columns
        .iter()
        .map(|column| match (column.width, left.checked_div(free)) {
            (0, share) => share.unwrap_or(0),
            (width, _) => width.min(room),
        })
        .collect()
}

fn cell(value: &Value, width: u16) -> Cell<'static> {
    let text = shown(value);
    // A number that is too wide for its column is not shown in part.
    if value.is_number() {
        let whole = if text.chars().count() > usize::from(width) { "#".to_owned() } else { text };
        return Cell::from(Line::from(whole).right_aligned());
    }
    Cell::from(cut(&text, width))
}
