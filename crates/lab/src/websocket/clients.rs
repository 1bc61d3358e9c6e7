//! Many clients of `tr_json2` in one process, for tests: they log in, watch the same items, and look for the numbers of what comes. They
//! print the table and the last line that `test-client` prints.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use measure::latency::Summary;
use measure::observer::{End, Observer, Plan, id_of};
use net::tcp::{ConnId, Event, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
use rssl::ws::frame::OpCode;

use super::link::{Link, frame, request};

/// The request.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Port of the server, on loopback
    #[arg(long)]
    port: u16,
    /// Clients
    #[arg(long)]
    connections: usize,
    /// Items that each watches: RDT0 and so on; 0: they log in and are silent
    #[arg(long)]
    items: u32,
    /// Seconds after the last image that do not count
    #[arg(long, default_value_t = 0.0)]
    warmup: f64,
    /// Measured seconds after those
    #[arg(long)]
    seconds: f64,
    /// Receive buffers; 0: as the system has it
    #[arg(long, default_value_t = 0)]
    socket_buffer: usize,
    /// Where the records go
    #[arg(long)]
    observe: Option<PathBuf>,
    /// One of so many messages is recorded
    #[arg(long, default_value_t = 1)]
    observe_every: u32,
    /// Memory for so many
    #[arg(long, default_value_t = 1)]
    observe_capacity: usize,
}

/// Bytes that are read at once.
const BATCH: usize = 262_144;
/// Clients that are connecting or logging in at a time.
const COMING: usize = 100;
/// Stream of the first item.
const FIRST: i32 = 5;
/// Nanoseconds until an item is asked for again whose service was not there.
const AGAIN: u64 = 100_000_000;
/// Seconds of a line of the table, as the lab reads it.
const INTERVAL: f64 = 0.25;

/// One client.
#[derive(Debug)]
struct Client {
    link: Link,
    /// The number of the last message of each item; none before its image.
    lasts: Vec<Option<u32>>,
}

/// The figures of all clients.
#[derive(Debug, Default)]
struct Counts {
    logged_in: usize,
    images: u64,
    updates: u64,
    refused: u64,
    lost: u64,
    reordered: u64,
}

/// A message in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    stream: i32,
    /// First letter of its type.
    kind: u8,
    number: Option<u32>,
    /// A status says that the stream is closed.
    is_closed: bool,
}

/// Runs the clients until their time is over.
///
/// # Errors
/// The server refuses or closes one, or the records cannot be written.
pub fn run(load: &Load) -> io::Result<()> {
    net::rlimit::raise_open_files(load.connections as u64 + 100)?;
    let mut crowd = Crowd::new(load)?;
    let start = net::clock::now();
    let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
    let (mut line_at, mut at_line, mut measured_from, mut end) = (start, 0, None, None);
    let mut all_images = None;
    loop {
        crowd.turn()?;
        let now = net::clock::now();
        if seconds(line_at, now) >= INTERVAL {
            let counts = &crowd.counts;
            let rate = (counts.updates - at_line) as f64 / seconds(line_at, now);
            let row =
                tools::table::client_row(seconds(start, now), rate, &Summary::default(), counts.images, counts.lost);
            println!("{row}");
            (line_at, at_line) = (now, counts.updates);
        }
        if all_images.is_none() && crowd.is_complete() {
            all_images = Some(now);
            if load.items == 0 {
                println!("ready {} clients", load.connections);
            }
        }
        let Some(at) = all_images else { continue };
        if measured_from.is_none() && seconds(at, now) >= load.warmup {
            measured_from = Some((now, crowd.counts.updates));
            end = Some(now + (load.seconds * 1e9) as u64);
        }
        if end.is_some_and(|end| now >= end) {
            break;
        }
    }
    if let (Some(observer), Some(file)) = (&crowd.observer, &load.observe) {
        observer.save(file)?;
    }
    let (from, before) = measured_from.unwrap_or((start, 0));
    let Counts { images, updates, refused, lost, reordered, .. } = crowd.counts;
    let rate = (updates - before) as f64 / seconds(from, net::clock::now());
    println!(
        "{}",
        serde_json::json!({
            "complete": true, "rate_per_s": rate.round(), "received": updates - before, "samples": 0, "lost": lost,
            "reordered": reordered, "images": images, "refused": refused, "streams": crowd.streams(),
            "images_s": all_images.map(|at| seconds(start, at)),
        })
    );
    Ok(())
}

struct Crowd<'a> {
    load: &'a Load,
    tcp: Tcp,
    options: SocketOptions,
    /// By connection slot.
    clients: Vec<Client>,
    connected: usize,
    counts: Counts,
    observer: Option<Observer>,
    /// Items that were refused before they had an image, and when they are asked for again.
    refused: Vec<(ConnId, u32)>,
    again_at: u64,
    events: Vec<Event>,
    scratch: Scratch,
}

impl<'a> Crowd<'a> {
    fn new(load: &'a Load) -> io::Result<Self> {
        let plan =
            Plan { capacity: load.observe_capacity, every: load.observe_every, connections: load.connections as u32 };
        let receive_buffer = (load.socket_buffer > 0).then_some(load.socket_buffer);
        Ok(Self {
            load,
            tcp: Tcp::new(TcpConfig::default())?,
            options: SocketOptions { receive_buffer, ..SocketOptions::default() },
            clients: Vec::new(),
            connected: 0,
            counts: Counts::default(),
            observer: load.observe.as_ref().map(|_| Observer::new(End::Receiver, &plan)),
            refused: Vec::new(),
            again_at: 0,
            events: Vec::new(),
            scratch: Scratch::new(BATCH),
        })
    }

    fn streams(&self) -> u64 {
        u64::from(self.load.items) * self.load.connections as u64
    }

    /// Everyone is there and has all images.
    fn is_complete(&self) -> bool {
        self.counts.logged_in == self.load.connections && self.counts.images >= self.streams()
    }

    fn turn(&mut self) -> io::Result<()> {
        while self.connected < self.load.connections && self.connected - self.counts.logged_in < COMING {
            let conn = self.tcp.connect(SocketAddr::from(([127, 0, 0, 1], self.load.port)), &self.options)?;
            let client = || Client { link: Link::default(), lasts: vec![None; self.load.items as usize] };
            self.clients.resize_with(self.clients.len().max(conn.slot() + 1), client);
            self.connected += 1;
        }
        if !self.refused.is_empty() && net::clock::now() >= self.again_at {
            for (conn, item) in std::mem::take(&mut self.refused) {
                self.ask(conn, &[item]);
            }
        }
        let mut events = std::mem::take(&mut self.events);
        self.tcp.poll(Some(Duration::from_millis(20)), &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Connected { conn, .. } => {
                    self.tcp.send(conn, &request(self.load.port, Some("tr_json2")));
                }
                Event::Readable { conn } => self.read(conn)?,
                Event::Closed { .. } => return Err(io::Error::other("the server closed a connection")),
                _ => {}
            }
        }
        self.events = events;
        Ok(())
    }

    fn read(&mut self, conn: ConnId) -> io::Result<()> {
        let RecvOutcome::Data(bytes) = self.tcp.recv(conn, &mut self.scratch) else { return Ok(()) };
        let Client { link, lasts } = &mut self.clients[conn.slot()];
        let (counts, observer, items) = (&mut self.counts, &mut self.observer, self.load.items);
        let (mut is_pinged, logged_in, mut refused) = (false, counts.logged_in, Vec::new());
        let opened = link.take(bytes, &mut |payload| {
            if payload == br#"[{"Type":"Ping"}]"# {
                is_pinged = true;
            }
            messages(payload, &mut |seen| refused.extend(counts.take(seen, lasts, observer.as_mut())));
        });
        if opened.map_err(io::Error::other)? {
            // Each is a user, since users are limited in their logins.
            let name = format!("lab{}", conn.slot());
            let login = format!(r#"{{"ID":1,"Domain":"Login","Key":{{"Name":"{name}"}}}}"#);
            self.tcp.send(conn, &frame(OpCode::Text, login.as_bytes()));
        }
        let is_in = counts.logged_in > logged_in;
        if self.refused.is_empty() && !refused.is_empty() {
            self.again_at = net::clock::now() + AGAIN;
        }
        self.refused.extend(refused.into_iter().map(|item| (conn, item)));
        if is_in {
            self.ask(conn, &(0..items).collect::<Vec<_>>());
        }
        if is_pinged {
            self.tcp.send(conn, &frame(OpCode::Text, br#"{"Type":"Pong"}"#));
        }
        Ok(())
    }

    /// Asks for items, each on its stream.
    fn ask(&mut self, conn: ConnId, items: &[u32]) {
        let request = |item: &u32| format!("{{\"ID\":{},\"Key\":{{\"Name\":\"RDT{item}\"}}}}", FIRST + *item as i32);
        for part in items.chunks(500) {
            let requests: Vec<String> = part.iter().map(request).collect();
            self.tcp.send(conn, &frame(OpCode::Text, format!("[{}]", requests.join(",")).as_bytes()));
        }
    }
}

impl Counts {
    /// Counts a message; gives the item that has to be asked for again.
    #[inline]
    fn take(&mut self, seen: Seen, lasts: &mut [Option<u32>], observer: Option<&mut Observer>) -> Option<u32> {
        let item = seen.stream.wrapping_sub(FIRST) as u32;
        let Some(last) = lasts.get_mut(item as usize) else {
            self.logged_in += usize::from(seen.stream == 1 && seen.kind == b'R');
            return None;
        };
        match (seen.kind, seen.number) {
            (b'U', Some(number)) => {
                self.updates += 1;
                if let Some(observer) = observer {
                    observer.received(id_of(item, number));
                }
                if let Some(last) = last.replace(number) {
                    let step = number.wrapping_sub(last) as i32;
                    self.lost += u64::from(step.saturating_sub(1).max(0) as u32);
                    self.reordered += u64::from(step < 1);
                }
            }
            (b'R', number) => {
                self.images += u64::from(last.is_none());
                *last = Some(number.unwrap_or(0));
            }
            // A client that comes before the service is there is refused, and comes again. Other statuses are of the service's way to be up.
            (b'S', _) if seen.is_closed && last.is_none() => return Some(item),
            (b'S', _) if !seen.is_closed => {}
            _ => self.refused += 1,
        }
        None
    }
}

/// Calls `each` with the messages of a frame. Market data's records have no objects with an `ID` of their own, so that each `{"ID":` begins
/// a message.
fn messages(frame: &[u8], each: &mut impl FnMut(Seen)) {
    let mut at = next_message(frame, 0);
    while at < frame.len() {
        let end = next_message(frame, at + 1);
        if let Some(seen) = read(&frame[at..end]) {
            each(seen);
        }
        at = end;
    }
}

const BEGIN: &[u8] = br#"{"ID":"#;
const NUMBER: &[u8] = br#"SeqNumber":"#;

fn next_message(frame: &[u8], from: usize) -> usize {
    let begins = |at: &usize| frame[*at..].starts_with(BEGIN);
    memchr::memchr_iter(b'{', &frame[from..]).map(|at| from + at).find(begins).unwrap_or(frame.len())
}

fn read(message: &[u8]) -> Option<Seen> {
    let rest = message.strip_prefix(BEGIN)?;
    let (sign, rest) = rest.strip_prefix(b"-").map_or((1, rest), |rest| (-1, rest));
    let (id, rest) = digits(rest);
    let kind = *rest.strip_prefix(br#","Type":""#)?.first()?;
    let numbered = memchr::memchr_iter(b'S', rest).find_map(|at| rest[at..].strip_prefix(NUMBER));
    let number = numbered.map(|rest| digits(rest).0);
    const CLOSED: &[u8] = br#""Stream":"Closed"#;
    let is_closed = kind == b'S' && rest.windows(CLOSED.len()).any(|word| word == CLOSED);
    Some(Seen { stream: sign * id as i32, kind, number, is_closed })
}

/// A number at the begin, and what follows.
fn digits(text: &[u8]) -> (u32, &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let value = text[..end].iter().fold(0u32, |n, digit| n.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
    (value, &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_frames() {
        let frame = br#"[{"ID":1,"Type":"Refresh","Domain":"Login","Key":{"Name":"S"}},{"ID":5,"Type":"Update","UpdateType":"Quote","SeqNumber":1234,"Fields":{"BID":1.5}},{"ID":-1,"Type":"Status"},{"ID":6,"Type":"Status","State":{"Stream":"ClosedRecover","Data":"Suspect","Text":""}}]"#;
        let mut seen = Vec::new();
        messages(frame, &mut |one| seen.push(one));
        let one = |stream, kind, number| Seen { stream, kind, number, is_closed: stream == 6 };
        let all = [one(1, b'R', None), one(5, b'U', Some(1234)), one(-1, b'S', None), one(6, b'S', None)];
        assert_eq!(seen, all);
        for cut in 0..frame.len() {
            messages(&frame[..cut], &mut |_| {});
        }
    }

    #[test]
    fn what_is_missing_or_comes_twice_is_counted() {
        let (mut counts, mut lasts) = (Counts::default(), vec![None]);
        for (kind, number) in [(b'R', 7), (b'U', 8), (b'U', 11), (b'U', 11), (b'U', 12)] {
            let seen = Seen { stream: FIRST, kind, number: Some(number), is_closed: false };
            assert_eq!(counts.take(seen, &mut lasts, None), None);
        }
        assert_eq!((counts.images, counts.updates, counts.lost, counts.reordered), (1, 4, 2, 1));
    }

    #[test]
    fn an_item_that_is_refused_before_its_image_is_asked_for_again() {
        let (mut counts, mut lasts) = (Counts::default(), vec![None, Some(3)]);
        let status = |item, is_closed| Seen { stream: FIRST + item, kind: b'S', number: None, is_closed };
        assert_eq!(counts.take(status(0, false), &mut lasts, None), None);
        assert_eq!(counts.take(status(0, true), &mut lasts, None), Some(0));
        assert_eq!((counts.take(status(1, true), &mut lasts, None), counts.refused), (None, 1), "one that was open");
    }
}
