//! Where the person is: which pane, which row, what is searched for, how it is sorted. Keys change that, and nothing else does.

use super::{Row, Snapshot};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rwf::Real;
use std::cmp::Ordering;

/// The keys that are there whatever is shown.
pub(super) const KEYS: [(&str, &str); 8] = [
    ("up down", "another row (j k, Page Up, Page Down, Home, End)"),
    ("Enter", "the item in full; left and right: the next"),
    ("/", "search; Enter adds a name that is not there"),
    ("s S", "sort by the next column; the other way"),
    ("c", "who is connected"),
    ("Esc", "back"),
    ("?", "this page"),
    ("q", "the end"),
];

/// Lines of the page of keys.
fn help_lines(snapshot: &Snapshot) -> usize {
    KEYS.len() + snapshot.commands.len()
}

/// What fills the middle of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// All items, a line each.
    #[default]
    Watchlist,
    /// One item: all its fields, and its order book.
    Detail,
    /// Who is connected.
    Clients,
    /// What the keys do.
    Help,
}

/// What the rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// As they were asked for.
    #[default]
    Asked,
    /// Name.
    Name,
    /// Last trade, or bid without one.
    Price,
    /// Change since yesterday, in percent.
    Change,
    /// Volume of the day.
    Volume,
    /// Updates so far.
    Updates,
}

impl Sort {
    const ALL: [Self; 6] = [Self::Asked, Self::Name, Self::Price, Self::Change, Self::Volume, Self::Updates];

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|&sort| sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// As the screen calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "order asked for",
            Self::Name => "name",
            Self::Price => "price",
            Self::Change => "change",
            Self::Volume => "volume",
            Self::Updates => "updates",
        }
    }

    /// Names rise; of numbers the largest come first, and what has none comes last.
    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let largest_first = |value: fn(&Row) -> Option<f64>| {
            let (a, b) = (value(a).unwrap_or(f64::NEG_INFINITY), value(b).unwrap_or(f64::NEG_INFINITY));
            b.total_cmp(&a)
        };
        match self {
            Self::Asked => Ordering::Equal,
            Self::Name => a.name.cmp(&b.name),
            Self::Price => largest_first(|row| row.last.or(row.bid).map(Real::to_f64)),
            Self::Change => largest_first(|row| row.percent.map(Real::to_f64)),
            Self::Volume => largest_first(|row| row.volume.map(Real::to_f64)),
            Self::Updates => b.updates.cmp(&a.updates),
        }
    }
}

/// What a key asks of the program beside another picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The end.
    Quit,
    /// An item is to be added to the watchlist.
    Watch(String),
    /// The command of this number, of those that the program has.
    Command(usize),
}

/// Where the person is.
#[derive(Clone, Debug, Default)]
pub struct Navigation {
    /// What is shown.
    pub pane: Pane,
    /// The row that the next key is about, as its place in the order asked for.
    pub selected: usize,
    /// Only rows with this in their name are shown.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    /// The order of the rows.
    pub sort: Sort,
    /// The other way round.
    pub is_reversed: bool,
    /// First line shown of the pane, but of the watchlist: there the selected row is always seen.
    pub scroll: usize,
}

impl Navigation {
    /// The rows to show, in order, as their places in the order asked for.
    pub fn order(&self, rows: &[Row]) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let mut order: Vec<usize> =
            (0..rows.len()).filter(|&n| rows[n].name.to_lowercase().contains(&wanted)).collect();
        order.sort_by(|&a, &b| self.sort.compare(&rows[a], &rows[b]));
        if self.is_reversed {
            order.reverse();
        }
        order
    }

    /// Takes a key in; `lines` is how many lines of the pane can be seen.
    pub fn press(&mut self, key: KeyEvent, snapshot: &Snapshot, lines: usize) -> Option<Wish> {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Wish::Quit);
        }
        if self.is_typing {
            return self.type_in(key.code, snapshot);
        }
        match key.code {
            KeyCode::Esc if self.pane != Pane::Watchlist => self.show(Pane::Watchlist),
            KeyCode::Esc if !self.filter.is_empty() => self.set_filter(String::new(), snapshot),
            // An Esc too many ends nothing, least of all for those who are connected.
            KeyCode::Esc => {}
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Char('/') => {
                self.show(Pane::Watchlist);
                self.is_typing = true;
            }
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('S') => self.is_reversed = !self.is_reversed,
            KeyCode::Enter if self.pane == Pane::Watchlist && self.selected < snapshot.rows.len() => {
                self.show(Pane::Detail);
            }
            KeyCode::Char('c') if snapshot.clients.is_some() => self.toggle(Pane::Clients),
            KeyCode::Char('?' | 'h') => self.toggle(Pane::Help),
            KeyCode::Char(letter) if snapshot.commands.iter().any(|&(key, _)| key == letter) => {
                return snapshot.commands.iter().position(|&(key, _)| key == letter).map(Wish::Command);
            }
            code => self.travel(code, snapshot, lines),
        }
        None
    }

    fn show(&mut self, pane: Pane) {
        self.pane = pane;
        self.scroll = 0;
    }

    fn toggle(&mut self, pane: Pane) {
        self.show(if self.pane == pane { Pane::Watchlist } else { pane });
    }

    fn type_in(&mut self, code: KeyCode, snapshot: &Snapshot) -> Option<Wish> {
        let mut filter = self.filter.clone();
        match code {
            KeyCode::Esc => {
                self.is_typing = false;
                filter.clear();
            }
            KeyCode::Enter => {
                self.is_typing = false;
                if !filter.is_empty() && self.order(&snapshot.rows).is_empty() {
                    self.set_filter(String::new(), snapshot);
                    self.selected = snapshot.rows.len();
                    return Some(Wish::Watch(filter));
                }
                return None;
            }
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(letter) if filter.len() < 64 => filter.push(letter),
            KeyCode::Up | KeyCode::Down => self.travel(code, snapshot, 1),
            _ => {}
        }
        self.set_filter(filter, snapshot);
        None
    }

    /// Another filter; what is selected stays if it is still seen.
    fn set_filter(&mut self, filter: String, snapshot: &Snapshot) {
        self.filter = filter;
        let order = self.order(&snapshot.rows);
        if !order.contains(&self.selected) {
            self.selected = order.first().copied().unwrap_or(0);
        }
    }

    fn travel(&mut self, code: KeyCode, snapshot: &Snapshot, lines: usize) {
        let page = lines.saturating_sub(1).max(1);
        let go = |at: usize, last: usize| match code {
            KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::PageDown => (at + page).min(last),
            KeyCode::PageUp => at.saturating_sub(page),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => at,
        };
        // In the detail, left and right go from item to item.
        let sideways = match code {
            KeyCode::Left => Some(KeyCode::Up),
            KeyCode::Right => Some(KeyCode::Down),
            _ => None,
        };
        if self.pane == Pane::Watchlist || (self.pane == Pane::Detail && sideways.is_some()) {
            let order = self.order(&snapshot.rows);
            let Some(last) = order.len().checked_sub(1) else { return };
            let at = order.iter().position(|&n| n == self.selected).unwrap_or(0);
            self.selected = order[match sideways {
                Some(KeyCode::Up) => at.saturating_sub(1),
                Some(_) => (at + 1).min(last),
                None => go(at, last),
            }];
            if self.pane == Pane::Detail {
                self.scroll = 0;
            }
        } else {
            let length = match self.pane {
                Pane::Clients => snapshot.clients.as_ref().map_or(0, Vec::len),
                Pane::Detail => snapshot.detail.as_ref().map_or(0, |detail| detail.fields.len()),
                Pane::Help => help_lines(snapshot),
                Pane::Watchlist => 0,
            };
            self.scroll = go(self.scroll, length.saturating_sub(lines));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::draw::tests::example;

    fn press(navigation: &mut Navigation, snapshot: &Snapshot, keys: &str) -> Vec<Wish> {
        let code = |letter| match letter {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            letter => KeyCode::Char(letter),
        };
        keys.chars().filter_map(|letter| navigation.press(KeyEvent::from(code(letter)), snapshot, 5)).collect()
    }

    fn names<'a>(navigation: &Navigation, snapshot: &'a Snapshot) -> Vec<&'a str> {
        navigation.order(&snapshot.rows).into_iter().map(|n| snapshot.rows[n].name.as_str()).collect()
    }

    #[test]
    fn typing_narrows_the_list_and_a_name_that_is_not_there_is_added() {
        let (snapshot, mut at) = (example(), Navigation::default());
        assert_eq!(press(&mut at, &snapshot, "/.n"), []);
        assert_eq!(names(&at, &snapshot), ["IBM.N", "TRI.N"]);
        press(&mut at, &snapshot, "\nj");
        assert_eq!((snapshot.rows[at.selected].name.as_str(), at.is_typing), ("TRI.N", false));
        press(&mut at, &snapshot, "\x1b");
        assert_eq!((names(&at, &snapshot).len(), at.pane), (4, Pane::Watchlist));
        let typed = press(&mut at, &snapshot, "/qx.O\x08N\n");
        assert_eq!(typed, [Wish::Watch("qx.N".to_owned())]);
        assert_eq!((at.selected, at.filter.as_str()), (4, ""), "the new row is selected");
    }

    #[test]
    fn rows_sort_by_name_and_number_and_back() {
        let (snapshot, mut at) = (example(), Navigation::default());
        press(&mut at, &snapshot, "s");
        assert_eq!(names(&at, &snapshot), ["?what", "EUR=", "IBM.N", "TRI.N"]);
        press(&mut at, &snapshot, "s");
        assert_eq!(names(&at, &snapshot), ["IBM.N", "TRI.N", "EUR=", "?what"]);
        press(&mut at, &snapshot, "ssS");
        assert_eq!((at.sort, names(&at, &snapshot)[3]), (Sort::Volume, "IBM.N"));
        press(&mut at, &snapshot, "sSs");
        assert_eq!(names(&at, &snapshot), ["IBM.N", "TRI.N", "EUR=", "?what"], "as they were asked for");
    }

    #[test]
    fn panes_open_and_close_and_commands_are_told() {
        let (snapshot, mut at) = (example(), Navigation::default());
        press(&mut at, &snapshot, "j\n");
        assert_eq!((at.pane, at.selected), (Pane::Detail, 1));
        at.press(KeyEvent::from(KeyCode::Right), &snapshot, 5);
        assert_eq!((at.pane, at.selected), (Pane::Detail, 2));
        press(&mut at, &snapshot, "c");
        assert_eq!(at.pane, Pane::Clients);
        press(&mut at, &snapshot, "?");
        assert_eq!(at.pane, Pane::Help);
        press(&mut at, &snapshot, "\x1b");
        assert_eq!(at.pane, Pane::Watchlist);
        assert_eq!(press(&mut at, &snapshot, "d"), [Wish::Command(0)]);
        assert_eq!(press(&mut at, &snapshot, "\x1b\x1b"), [], "there is nothing to go back to");
        assert_eq!(press(&mut at, &snapshot, "q"), [Wish::Quit]);
        assert_eq!(at.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), &snapshot, 5), Some(Wish::Quit));
    }
}
