//! Who is connected.

use super::super::plain::thousands;
use super::super::{ClientLine, Snapshot};
use super::fit;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

const TITLES: [&str; 7] = ["user", "application", "address", "protocol", "items", "waiting", "connected"];
/// Which columns give way first.
const GIVE_WAY: [&[usize]; 5] = [&[3], &[5], &[6], &[2], &[1]];
/// Texts begin at the left, numbers end at the right.
const TEXTS: usize = 4;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, scroll: usize) {
    let clients = snapshot.clients.as_deref().unwrap_or_default();
    let many = if clients.len() == 1 { "" } else { "s" };
    let block = Block::bordered().title(format!(" {} client{many} ", clients.len()));
    if clients.is_empty() {
        frame.render_widget(Paragraph::new("Nobody has answered yet.").block(block), area);
        return;
    }
    let cells: Vec<[String; 7]> = clients.iter().map(cells).collect();
    let needed: Vec<u16> = (0..TITLES.len())
        .map(|column| {
            let longest = cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
            longest.max(TITLES[column].len()) as u16
        })
        .collect();
    let shown = fit(&needed, &GIVE_WAY, area.width.saturating_sub(2));
    let aligned = |column: usize, text: String| {
        let line = Line::from(text);
        Cell::from(if column < TEXTS { line } else { line.right_aligned() })
    };
    let heading = Row::new(shown.iter().map(|&(column, _)| aligned(column, TITLES[column].to_owned())));
    let rows = cells
        .iter()
        .skip(scroll)
        .map(|cells| Row::new(shown.iter().map(|&(column, _)| aligned(column, cells[column].clone()))));
    let table = Table::new(rows, shown.iter().map(|&(_, width)| Constraint::Length(width)))
        .header(heading.style(Style::new().add_modifier(Modifier::BOLD)))
        .block(block);
    frame.render_widget(table, area);
}

fn cells(client: &ClientLine) -> [String; 7] {
    let user = if client.user.is_empty() { "(not logged in)" } else { &client.user };
    let seconds = client.connected_s;
    [
        user.to_owned(),
        client.application.clone(),
        client.address.clone(),
        client.protocol.clone(),
        thousands(client.items as f64),
        bytes(client.waiting_bytes),
        format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60),
    ]
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{} KB", count / 1_000),
        _ => format!("{} MB", count / 1_000_000),
    }
}
