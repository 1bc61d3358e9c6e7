//! One item in full: quote, order book, and every field of its image.

use super::super::detail::{Detail, Field, Level};
use super::super::navigation::Navigation;
use super::super::plain::{cut, price, thousands};
use super::super::{Row, Snapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

/// Width of the ladder with its border.
const LADDER: u16 = 34;
/// Below this width fields and ladder stand one above the other.
const SIDE_BY_SIDE: u16 = 76;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, navigation: &Navigation) {
    let Some(row) = snapshot.rows.get(navigation.selected) else { return };
    let nothing = Detail::default();
    let detail = snapshot.detail.as_ref().unwrap_or(&nothing);
    let has_book = !detail.bids.is_empty() || !detail.asks.is_empty();
    let (fields, ladder) = if !has_book {
        (area, None)
    } else if area.width >= SIDE_BY_SIDE {
        let [fields, ladder] = Layout::horizontal([Constraint::Min(20), Constraint::Length(LADDER)]).areas(area);
        (fields, Some(ladder))
    } else if area.height >= 16 {
        let [ladder, fields] = Layout::vertical([Constraint::Length(area.height / 2), Constraint::Min(4)]).areas(area);
        (fields, Some(ladder))
    } else {
        (area, None)
    };
    draw_fields(frame, fields, row, detail, navigation.scroll);
    if let Some(ladder) = ladder {
        draw_ladder(frame, ladder, detail);
    }
}

fn draw_fields(frame: &mut Frame<'_>, area: Rect, row: &Row, detail: &Detail, scroll: usize) {
    let name = format!(" {} ", row.name);
    let beside = area.width.saturating_sub(name.chars().count() as u16 + 4);
    let state = if row.state.is_empty() { String::new() } else { format!("{} ", cut(&row.state, beside)) };
    let block = Block::bordered().title(name).title(Line::from(state.red()).right_aligned());
    let room = block.inner(area);
    let widest = |of: fn(&Field) -> usize| detail.fields.iter().map(of).max().unwrap_or(0);
    let name = widest(|f| f.name.chars().count()).min(14);
    let kind = widest(|f| f.kind.chars().count()).min(14);
    // The value is what matters: where there is little room, type and number go.
    let width = usize::from(room.width);
    let (with_fid, with_kind) = (width >= name + 30 + 7 + kind, width >= name + 24 + kind);
    let lines = detail.fields.iter().skip(scroll).take(room.height.into()).map(|field| {
        let mut spans = Vec::new();
        if with_fid {
            spans.push(Span::raw(format!("{:>6} ", field.fid)).dim());
        }
        spans.push(Span::raw(format!("{:<name$} ", field.name)).bold());
        if with_kind {
            spans.push(Span::raw(format!("{:<kind$} ", field.kind)).dim());
        }
        let used: usize = spans.iter().map(Span::width).sum();
        spans.push(Span::raw(cut(&field.value, width.saturating_sub(used) as u16)));
        Line::from(spans)
    });
    let mut lines: Vec<Line<'_>> = lines.collect();
    if lines.is_empty() {
        let what = if row.imaged { "The image has no fields." } else { "No image yet." };
        lines.push(Line::from(what.dim()));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_ladder(frame: &mut Frame<'_>, area: Rect, detail: &Detail) {
    let block = Block::bordered().title(" order book ");
    let room = block.inner(area);
    // A line for the heading and one for the spread; the best prices of both sides are next to it, whatever the height.
    let half = usize::from(room.height.saturating_sub(2) / 2);
    let mut lines: Vec<Line<'_>> =
        vec![columns(["orders", "price", "size"].map(str::to_owned), Style::new(), room.width).bold()];
    let asks = &detail.asks[..detail.asks.len().min(half)];
    lines.extend((asks.len()..half).map(|_| Line::default()));
    lines.extend(asks.iter().rev().map(|level| line(level, Color::Red, room.width)));
    let spread = match (detail.bids.first(), detail.asks.first()) {
        (Some(bid), Some(ask)) => {
            let decimals = price(Some(ask.price)).split_once('.').map_or(0, |(_, decimals)| decimals.len());
            format!("spread {:.decimals$}", ask.price.to_f64() - bid.price.to_f64())
        }
        _ => "one side only".to_owned(),
    };
    lines.push(Line::from(spread.dim()).centered());
    lines.extend(detail.bids.iter().take(half).map(|level| line(level, Color::Green, room.width)));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// A price and what may be had at it.
fn line(level: &Level, colour: Color, room: u16) -> Line<'static> {
    let size = level.size.map_or_else(|| "-".to_owned(), |size| thousands(size.to_f64()));
    let orders = level.orders.map_or_else(String::new, |orders| orders.to_string());
    columns([orders, price(Some(level.price)), size], Style::new().fg(colour), room)
}

/// Orders, price, size; what does not fit is left out, never cut.
fn columns([orders, price, size]: [String; 3], of_price: Style, room: u16) -> Line<'static> {
    let mut spans = vec![Span::styled(format!("{price:>10}"), of_price)];
    if room >= 22 {
        spans.push(Span::raw(format!(" {size:>11}")));
    }
    if room >= 30 {
        spans.insert(0, Span::raw(format!("{orders:>7} ")).dim());
    }
    Line::from(spans)
}
