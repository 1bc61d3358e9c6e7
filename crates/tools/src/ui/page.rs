//! `quoteway page`: a page in the terminal, as traders saw it: colours, fades, line drawing.
//!
//! [`PageView`] takes in the messages of an item and keeps its page; it knows no sockets. The item may be an ANSI page (container 134)
//! or a page record (fields `ROW64_*`, `ROW80_*`).

use anyhow::anyhow;
use std::io::{IsTerminal as _, Write};

use clap::Args as ClapArgs;
use client::{Availability, Interest};
use client_io::{Connection, Notice};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use marketfeed::page::{Layout, RecordPage};
use net::dns::ServiceName;
use omm::consumer::{self, ItemRequest};
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use rwf::msg::Msg;
use rwf::page::{Cell, Page, PageSize, style};
use rwf::{DataType, FieldList, SetScope};

use super::trouble;
use crate::places::Places;

const SECOND: u64 = 1_000_000_000;
/// How often the screen is drawn.
const FRAME: u64 = 100_000_000;

/// Shows a page in the terminal; elsewhere its rows as JSON, a line for each change.
#[derive(ClapArgs, Clone, Debug)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The service
    pub service: String,
    /// The item
    pub item: String,
    /// Host of the server, or srv:_SERVICE._tcp.DOMAIN for what the DNS says (SRV), ports included
    #[arg(short = 'h', long, value_name = "HOST", default_value = "localhost")]
    pub host: String,
    /// Port of the server
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 14002)]
    pub port: u16,
    /// User name of the login
    #[arg(short = 'u', long, value_name = "NAME", default_value = "rmds")]
    pub user: String,
    /// Rows and columns of an ANSI page: nothing on the wire says them
    #[arg(long, value_name = "ROWSxCOLUMNS", default_value = "25x80")]
    pub size: PageSize,
    /// Seconds for which what has changed is shown in its fading colours
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = crate::flags::seconds)]
    pub fade: f64,
    /// Print the rows as JSON even on a terminal: an object with the key Rows, a list of texts
    #[arg(long)]
    pub json: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = crate::flags::seconds)]
    pub seconds: Option<f64>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A page as it comes and fades.
pub struct PageView {
    page: Page,
    record: Option<RecordPage>,
    /// When each cell was written last, row by row, in the caller's nanoseconds; 0: not since the image.
    written: Vec<u64>,
    /// What is not the page: connection, state of the item.
    pub notice: String,
    /// The page has changed since this was taken away.
    pub is_changed: bool,
}

impl PageView {
    /// An empty page.
    pub fn new(size: PageSize) -> Self {
        let page = Page::new(size);
        let written = vec![0; usize::from(size.rows()) * usize::from(size.columns())];
        Self { page, record: None, written, notice: "waiting for the page".to_owned(), is_changed: false }
    }

    /// The page as it is now.
    pub fn page(&self) -> &Page {
        self.record.as_ref().map_or(&self.page, RecordPage::page)
    }

    /// Takes in a message of the item.
    pub fn receive(&mut self, now: u64, msg: &[u8]) {
        match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => {
                self.notice = trouble(refresh.state).unwrap_or_default();
                self.apply(0, refresh.container, refresh.body, true);
            }
            Ok(Msg::Update(update)) => self.apply(now, update.container, update.body, false),
            Ok(Msg::Status(status)) => {
                if let Some(state) = status.state {
                    // Good again is said by saying nothing; no change of the data leaves what was said.
                    if state.data != rwf::DataState::NO_CHANGE || state.stream.is_final() {
                        self.notice = trouble(state).unwrap_or_default();
                    }
                    self.is_changed = true;
                }
            }
            _ => {}
        }
    }

    /// Says what has become of connection or service.
    fn say(&mut self, what: &str) {
        what.clone_into(&mut self.notice);
        self.is_changed = true;
    }

    fn apply(&mut self, at: u64, container: DataType, body: &[u8], is_image: bool) {
        let before = if is_image { None } else { Some(self.page().clone()) };
        match container {
            DataType::ANSI_PAGE => {
                self.record = None;
                if is_image {
                    self.page.refresh(body);
                } else {
                    self.page.apply(body);
                }
            }
            DataType::FIELD_LIST => self.apply_fields(body, is_image),
            other => self.notice = format!("the item is no page: its payload is {other}"),
        }
        self.is_changed = true;
        let (rows, columns) = (self.page().rows(), self.page().columns());
        self.written.resize(usize::from(rows) * usize::from(columns), 0);
        let Some(before) = before else { return self.written.fill(0) };
        for row in 0..rows {
            let (old, start) = (before.row(row), usize::from(row) * usize::from(columns));
            for column in 0..usize::from(columns) {
                if old.get(column) != self.page().row(row).get(column) {
                    self.written[start + column] = at;
                }
            }
        }
    }

    fn apply_fields(&mut self, body: &[u8], is_image: bool) {
        let Ok(list) = FieldList::decode(body, &SetScope::NONE) else { return };
        if is_image {
            self.record = None;
        }
        for entry in list.entries().map_while(Result::ok) {
            let Some((layout, _)) = Layout::of(entry.fid) else { continue };
            let record = self.record.get_or_insert_with(|| RecordPage::new(layout));
            if let Err(e) = record.apply(entry.fid, entry.data) {
                self.notice = format!("field {}: {e}", entry.fid);
            }
        }
    }

    /// A row as it is shown at a time; what was written within `fade` nanoseconds is in its fading colours.
    pub fn line(&self, row: u16, now: u64, fade: u64) -> Line<'static> {
        let start = usize::from(row) * usize::from(self.page().columns());
        let mut spans: Vec<(String, Style)> = Vec::new();
        for (column, cell) in self.page().row(row).iter().enumerate() {
            let written = self.written.get(start + column).copied().unwrap_or_default();
            let look = look(*cell, written != 0 && now < written.saturating_add(fade));
            match spans.last_mut() {
                Some((text, known)) if *known == look => text.push(cell.glyph()),
                _ => spans.push((cell.glyph().to_string(), look)),
            }
        }
        Line::from(spans.into_iter().map(|(text, look)| Span::styled(text, look)).collect::<Vec<_>>())
    }

    /// The rows as JSON.
    pub fn json(&self) -> String {
        net::plain::escaped_json(&serde_json::json!({ "Rows": self.page().texts() }).to_string()).into_owned()
    }
}

fn look(cell: Cell, fades: bool) -> Style {
    const COLOURS: [Color; 8] =
        [Color::Black, Color::Red, Color::Green, Color::Yellow, Color::Blue, Color::Magenta, Color::Cyan, Color::Gray];
    let (foreground, background) = cell.shown_colours(fades);
    let mut look = Style::new();
    if let Some(colour) = foreground {
        look = look.fg(COLOURS[usize::from(colour)]);
    }
    if let Some(colour) = background {
        look = look.bg(COLOURS[usize::from(colour)]);
    }
    let bits = cell.shown_style(fades);
    for (bit, modifier) in [
        (style::BLINK, Modifier::SLOW_BLINK),
        (style::REVERSE, Modifier::REVERSED),
        (style::DIM, Modifier::DIM),
        (style::UNDERLINE, Modifier::UNDERLINED),
        (style::BRIGHT, Modifier::BOLD),
    ] {
        if bits & bit != 0 {
            look = look.add_modifier(modifier);
        }
    }
    look
}

/// Said while the service cannot be used.
const SERVICE_DOWN: &str = "the service is down";

/// A page of a server.
struct Client {
    connection: Connection,
    view: PageView,
    service: String,
    /// The last that was said of the service.
    availability: Availability,
}

impl Client {
    fn new(args: &Args) -> anyhow::Result<Self> {
        // A name that nobody has is told before there is a screen.
        Places::of_host(&args.host, args.port, "-h")?;
        let is_service = ServiceName::is_meant_by(&args.host);
        let server = if is_service { args.host.clone() } else { format!("{}:{}", args.host, args.port) };
        let config = super::session(&server, &args.user, "quoteway page")?;
        let mut connection = Connection::new(config).map_err(|e| anyhow!("no sockets: {e}"))?;
        let request = ItemRequest { name_type: Some(1), ..ItemRequest::new(args.service.as_str(), "") };
        let interest = Interest { request, names: vec![args.item.clone()] };
        connection.client.subscribe(net::clock::now(), &interest, &mut |_| {})?;
        let (view, service) = (PageView::new(args.size), args.service.clone());
        Ok(Self { connection, view, service, availability: Availability::Unknown })
    }

    fn turn(&mut self, deadline: u64) -> anyhow::Result<()> {
        let Self { connection, view, .. } = self;
        let turned = connection.turn(Some(deadline), &mut |now, delivery| view.receive(now, delivery.msg));
        turned.map_err(|e| anyhow!("sockets: {e}"))?;
        self.follow();
        Ok(())
    }

    /// The state of connection and service.
    fn follow(&mut self) {
        while let Some(notice) = self.connection.poll_notice() {
            match notice {
                Notice::Lost { why, .. } => self.view.say(&why),
                Notice::Client(client::Event::Consumer { event, .. }) => {
                    if let consumer::Event::LoginRefused(state) = *event {
                        self.view.say(&format!("login closed: {}", state.as_state()));
                    }
                }
                _ => {}
            }
        }
        let availability = self.connection.client.availability(&self.service);
        if std::mem::replace(&mut self.availability, availability) == availability {
            return;
        }
        match availability {
            Availability::Absent => {
                let known: Vec<&str> = self.connection.client.service_names().collect();
                let text = format!("waiting for the service; there are: {}", known.join(", "));
                self.view.say(&text);
            }
            Availability::Down => self.view.say(SERVICE_DOWN),
            // The stream may have gone on: no image need follow.
            Availability::Up if self.view.notice == SERVICE_DOWN => self.view.say(""),
            Availability::Up | Availability::Unknown => {}
        }
    }
}

/// Shows the page until the person quits, or `--seconds` are over.
///
/// # Errors
/// A text for the user.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut client = Client::new(args)?;
    let nanoseconds = |seconds: f64| (seconds * SECOND as f64) as u64;
    let end = args.seconds.map_or(u64::MAX, |seconds| net::clock::now().saturating_add(nanoseconds(seconds)));
    if args.json || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return lines(&mut client, end, &mut std::io::stdout().lock());
    }
    let mut terminal = ratatui::try_init().map_err(|e| anyhow!("terminal: {e}; use --json"))?;
    let title = format!(" {} {} ", args.service, args.item);
    let result = loop {
        let deadline = net::clock::now() + FRAME;
        if deadline > end {
            break Ok(());
        }
        if let Err(e) = client.turn(deadline) {
            break Err(e);
        }
        match quits() {
            Ok(true) => break Ok(()),
            Ok(false) => {}
            Err(e) => break Err(anyhow!("terminal: {e}")),
        }
        if let Err(e) = terminal.draw(|frame| draw(frame, &client.view, &title, nanoseconds(args.fade))) {
            break Err(anyhow!("terminal: {e}"));
        }
    };
    ratatui::restore();
    result
}

fn lines(client: &mut Client, end: u64, out: &mut impl Write) -> anyhow::Result<()> {
    let mut told = String::new();
    while net::clock::now() < end {
        client.turn(end.min(net::clock::now() + FRAME))?;
        let view = &mut client.view;
        if !std::mem::take(&mut view.is_changed) {
            continue;
        }
        if view.notice != told {
            told.clone_from(&view.notice);
            if !told.is_empty() {
                eprintln!("quoteway page: {}", net::plain::escaped(&told));
            }
        }
        // A reader that went away ends the view, not the program with a panic.
        if told.is_empty() && writeln!(out, "{}", view.json()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn draw(frame: &mut Frame<'_>, view: &PageView, title: &str, fade: u64) {
    let now = net::clock::now();
    let lines: Vec<Line<'_>> = (0..view.page().rows()).map(|row| view.line(row, now, fade)).collect();
    let block = Block::bordered().title(title.to_owned()).title_bottom(format!(" {} ", view.notice));
    frame.render_widget(Paragraph::new(lines).block(block), frame.area());
}

fn quits() -> std::io::Result<bool> {
    while event::poll(std::time::Duration::ZERO)? {
        if let Event::Key(KeyEvent { code, modifiers, .. }) = event::read()?
            && (matches!(code, KeyCode::Char('q') | KeyCode::Esc)
                || code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::msg::{Domain, RefreshMsg, UpdateMsg};
    use rwf::wire::Writer;

    /// Stream of the page.
    const STREAM: i32 = 5;

    fn bytes(write: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
        let mut buffer = vec![0; 8_192];
        let mut w = Writer::new(&mut buffer);
        write(&mut w).unwrap();
        w.into_written().to_vec()
    }

    fn image(container: DataType, body: &[u8]) -> Vec<u8> {
        let msg =
            RefreshMsg { container, body, state: rwf::State::OPEN_OK, ..RefreshMsg::new(Domain::MARKET_PRICE, STREAM) };
        bytes(|w| msg.encode(w))
    }

    fn update(container: DataType, body: &[u8]) -> Vec<u8> {
        bytes(|w| UpdateMsg { container, body, ..UpdateMsg::new(Domain::MARKET_PRICE, STREAM) }.encode(w))
    }

    #[test]
    fn what_changes_fades_and_what_came_with_the_image_does_not() {
        let mut view = PageView::new(PageSize::default());
        view.receive(SECOND, &image(DataType::ANSI_PAGE, b"\x1bc\x1b[>42m\x1b[3;10HGBP 1.5520"));
        assert_eq!(view.json(), r#"{"Rows":["","","         GBP 1.5520"]}"#);
        let plain = Line::from(vec![Span::styled("         GBP 1.5520".to_owned() + &" ".repeat(61), Style::new())]);
        assert_eq!(view.line(2, SECOND, 5 * SECOND), plain);
        view.receive(10 * SECOND, &update(DataType::ANSI_PAGE, b"\x1b[3;19H1"));
        let fading = view.line(2, 14 * SECOND, 5 * SECOND);
        let green: Vec<&str> =
            fading.spans.iter().filter(|span| span.style.bg == Some(Color::Green)).map(|span| &*span.content).collect();
        assert_eq!(green, ["1"]);
        assert_eq!(view.line(2, 15 * SECOND, 5 * SECOND).spans.len(), 1, "it has faded");
        assert!(view.notice.is_empty());
    }

    #[test]
    fn a_record_is_a_page_as_well() {
        use rwf::container::FieldListEncoder;
        let fields = |list: &[(i16, &[u8])]| {
            bytes(|w| {
                let mut out = FieldListEncoder::begin(w)?;
                for (fid, value) in list {
                    out.raw(*fid, value)?;
                }
                out.finish()
            })
        };
        let mut view = PageView::new(PageSize::default());
        view.receive(
            1,
            &image(DataType::FIELD_LIST, &fields(&[(315, b"first row"), (316, b"GBP 1.5520"), (22, b"x")])),
        );
        view.receive(2, &update(DataType::FIELD_LIST, &fields(&[(316, b"\x1b[9`1")])));
        assert_eq!(view.page().texts(), ["first row", "GBP 1.5521"]);
        view.receive(3, &image(DataType::ELEMENT_LIST, b""));
        assert!(view.notice.contains("no page"), "{}", view.notice);
    }
}
