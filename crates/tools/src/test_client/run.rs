//! The event loop of `test-client`, and what it prints.

use super::args::{Args, ConnectionType, Json, watchlists};
use super::field_types::FieldTypes;
use super::record::Recorder;
use super::streams::Streams;
use super::watch::{Counts, Meter, Note, Watchlist};
use crate::consumer::{Consumer, Identity, Received};
use crate::dump;
use crate::outbox::Outbox;
use crate::output::Output;
use crate::places::Places;
use crate::table;
use anyhow::anyhow;
use measure::latency::{Latency, Summary};
use net::tcp::{ConnId, SocketOptions};
use net::tls::TlsClient;
use rssl::frame::Ahead;
use rssl::{ClientConfig, Version};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::dictionary::Dictionary;
use rwf::msg::Domain;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::Arc;

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// `--name`.
    pub name: String,
    /// Connections.
    pub mounts: u32,
    /// Streams of all mounts together.
    pub streams: usize,
    /// Seconds measured, from the last image (and the warm-up) on.
    pub seconds: f64,
    /// What came in the measured time; images, refusals and errors over the whole run.
    pub counts: Counts,
    /// Latencies of the measured time.
    pub latency: Summary,
    /// From the first request to the last image; `None` while some are missing.
    pub images_s: Option<f64>,
    /// Every stream was answered, none lost its session.
    pub complete: bool,
    /// The latency of the intervals rises from the first to the last: the rate is not held, it fills queues.
    pub queue_growing: bool,
}

impl Report {
    /// Updates a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.counts.updates as f64 / self.seconds } else { 0.0 }
    }

    /// The line for programs: one JSON object.
    pub fn json(&self) -> String {
        let l = &self.latency;
        // Figures that were not measured are null.
        let micros = |value: f64| (l.samples > 0).then(|| (value * 10.0).round() / 10.0);
        serde_json::json!({
            "name": self.name,
            "rate_per_s": self.rate().round(),
            "received": self.counts.updates,
            "p50_us": micros(l.p50_us),
            "p90_us": micros(l.p90_us),
            "p99_us": micros(l.p99_us),
            "p999_us": micros(l.p999_us),
            "max_us": micros(l.max_us),
            "mean_us": micros(l.mean_us),
            "stddev_us": micros(l.stddev_us),
            "min_us": micros(l.min_us),
            "samples": l.samples,
            "lost": self.counts.lost,
            "reordered": self.counts.reordered,
            "images": self.counts.images,
            "refused": self.counts.refused,
            "images_s": self.images_s.map(|s| (s * 1e4).round() / 1e4),
            "seconds": (self.seconds * 1e3).round() / 1e3,
            "mounts": self.mounts,
            "streams": self.streams,
            "complete": self.complete,
            "queue_growing": self.queue_growing,
        })
        .to_string()
    }
}

/// One connection and what hangs on it.
struct Mount {
    /// Where the server is.
    places: Places,
    conn: Option<ConnId>,
    consumer: Consumer,
    list: Watchlist,
    outbox: Outbox,
    version: Version,
    retry_at: Option<u64>,
    up: bool,
}

struct Client<'a> {
    args: &'a Args,
    names: Vec<String>,
    mounts: Vec<Mount>,
    /// What is known of all items of all mounts.
    streams: Streams,
    /// By connection slot: which mount.
    owners: Vec<u32>,
    meter: Meter,
    /// Mounts that may have something to send.
    active: Vec<u32>,
    first_request: Option<u64>,
    all_images: Option<u64>,
    /// When the last item was answered.
    answered_at: u64,
    /// What is in the way of the first request; said once.
    obstacle: String,
    tls: Option<TlsClient>,
    recorder: Option<Recorder>,
    printer: Printer<'a>,
}

/// How long to go on trying before the first item can be requested, at most and at least; `--seconds` lies between.
const PATIENCE: (f64, f64) = (5.0, 30.0);
/// How long to wait for a further image at least, where `--seconds` says that the run is to end.
const IMAGE_PATIENCE: f64 = 10.0;
const RETRY: u64 = SECOND / 4;
const SECOND: u64 = 1_000_000_000;

/// Runs until the time is over or a signal stops it.
///
/// # Errors
/// A text for the user.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    measure(args, &|| net::signal::stop_requested() > 0).map(drop)
}

/// Runs until the time is over or `stop` says so, and gives what was measured.
///
/// # Errors
/// A text for the user.
pub fn measure(args: &Args, stop: &dyn Fn() -> bool) -> anyhow::Result<Report> {
    let tls = match (args.connection_type, &args.ca_file) {
        (ConnectionType::Socket, _) => None,
        (ConnectionType::Encrypted, None) => Some(TlsClient::with_system_roots()),
        (ConnectionType::Encrypted, Some(file)) => Some(TlsClient::with_roots_from(file)),
    };
    let tls = tls.transpose()?;
    let dictionary = dump::load_dictionary(args.dictionary.as_deref())?;
    let places = Places::of_host(&args.host, args.port, "-h")?;
    let names = args.names()?;
    let lists = watchlists(names.len(), args.mounts as usize, args.common);
    let identity =
        Identity { user: args.user.clone(), application: "test-client".to_owned(), service: args.service.clone() };
    let streams = Streams::new(lists.len(), lists.iter().map(Vec::len).max().unwrap_or(0));
    let mounts = (0..)
        .zip(&lists)
        .map(|(mount, list)| Mount {
            places: places.clone(),
            conn: None,
            consumer: Consumer::new(identity.clone()),
            list: Watchlist::new(list, &streams, mount, Domain(args.domain), args.request_flags).at(args.rate),
            outbox: Outbox::default(),
            version: Version::V14,
            retry_at: Some(0),
            up: false,
        })
        .collect();
    let types = FieldTypes::of(&dictionary);
    let mut client = Client {
        args,
        names,
        mounts,
        streams,
        owners: Vec::new(),
        meter: Meter::new(args.depth(), types, net::clock::now),
        active: Vec::new(),
        first_request: None,
        all_images: None,
        answered_at: 0,
        obstacle: String::new(),
        tls,
        recorder: args.record.as_deref().map(|path| Recorder::create(path, args, net::clock::now())).transpose()?,
        printer: Printer::new(args, dictionary)?,
    };
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("no sockets: {e}"))?;
    if let Some(observer) = args.observer()? {
        client.meter.observe(observer, &client.names);
    }
    let report = client.main_loop(&mut io, stop);
    if let Some(observer) = client.meter.observer() {
        observer.finish()?;
    }
    report
}

/// Whether mean latencies (microseconds, an interval each) rise over a run: the last third lies well above the first.
fn is_growing(means: &[f64]) -> bool {
    let third = means.len() / 3;
    if third == 0 {
        return false;
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&means[..third]), mean(&means[means.len() - third..]));
    last > 2.0 * first && last - first > 1_000.0
}

impl Client<'_> {
    fn main_loop(&mut self, io: &mut RsslIo, stop: &dyn Fn() -> bool) -> anyhow::Result<Report> {
        let started = net::clock::now();
        let every = self.args.every().as_nanos() as u64;
        let mut next_line = started + every;
        let mut last = Line { at: started, counts: Counts::default() };
        // The measured part of the run begins when all images are there and the warm-up is over.
        let mut measured: Option<Line> = None;
        let mut total = Total { latency: Latency::new(), means: Vec::new() };
        let mut now = started;
        loop {
            self.connect_due(io, now);
            now = io.turn(Some(next_line.min(now + SECOND / 4)), self).map_err(|e| anyhow!("sockets: {e}"))?;
            self.send_due(io, now);
            if let Some(text) = self.give_up(started, now) {
                return Err(anyhow!(text));
            }
            if measured.is_none()
                && self.all_images.is_some_and(|at| now >= at + (self.args.warmup.max(0.0) * 1e9) as u64)
            {
                self.print_line(&mut last, now, None);
                measured = Some(Line { at: now, counts: self.meter.counts });
                next_line = now + every;
            }
            if now >= next_line {
                next_line = (next_line + every).max(now + 1);
                self.print_line(&mut last, now, measured.is_some().then_some(&mut total));
            }
            let over = measured.as_ref().zip(self.args.seconds).is_some_and(|(m, s)| now >= m.at + (s * 1e9) as u64);
            if over || stop() || self.printer.output.is_gone() {
                break;
            }
        }
        if last.at < now {
            self.print_line(&mut last, now, measured.is_some().then_some(&mut total));
        }
        let queue_growing = is_growing(&total.means);
        if queue_growing {
            self.printer.say("the latency grows from interval to interval: this rate is not held, it fills queues");
        }
        let report = Report { queue_growing, ..self.report(measured.as_ref(), now, &total.latency) };
        self.log_out(io, now);
        if self.args.json == Json::Always {
            self.printer.output.line(&report.json());
        }
        self.write_recording();
        self.printer.finish().map(|()| report)
    }

    fn connect_due(&mut self, io: &mut RsslIo, now: u64) {
        let options = SocketOptions {
            receive_buffer: Some(self.args.receive_buffer).filter(|&b| b > 0),
            ..SocketOptions::default()
        };
        for index in 0..self.mounts.len() {
            let mount = &mut self.mounts[index];
            if mount.retry_at.is_none_or(|at| at > now) {
                continue;
            }
            mount.retry_at = None;
            let config = ClientConfig { version: mount.version, ..ClientConfig::default() };
            let tls = self.tls.as_ref().map(|tls| tls.connect(&mount.places.place().host)).transpose();
            let connected = tls
                .map_err(|e| std::io::Error::other(e.to_string()))
                .and_then(|tls| io.connect(now, mount.places.address(), &options, Arc::new(config), tls));
            match connected {
                Ok(conn) => {
                    mount.conn = Some(conn);
                    if self.owners.len() <= conn.slot() {
                        self.owners.resize(conn.slot() + 1, 0);
                    }
                    self.owners[conn.slot()] = index as u32;
                }
                Err(e) => {
                    mount.retry_at = Some(now + RETRY);
                    mount.places.go_on();
                    self.hindered(index as u32, format!("cannot connect: {e}"));
                }
            }
        }
    }

    /// Sends answers, and requests as the windows allow.
    fn send_due(&mut self, io: &mut RsslIo, now: u64) {
        let window = self.args.open_window as usize;
        for index in std::mem::take(&mut self.active) {
            let mount = &mut self.mounts[index as usize];
            let Some(conn) = mount.conn else { continue };
            let service = mount.consumer.service_id();
            if mount.outbox.is_empty() && !(service.is_some() && mount.list.wants_request(window)) {
                continue;
            }
            io.send(now, conn, |packer| {
                mount.outbox.drain(|m| packer.push(m, None));
                if let Some(service) = service {
                    if self.first_request.is_none() {
                        self.first_request = Some(now);
                    }
                    mount.list.request(service, window, &self.names, &mut self.streams, |m| packer.push(m, None));
                }
            });
        }
    }

    /// Why the run cannot come to anything, if it cannot.
    fn give_up(&self, started: u64, now: u64) -> Option<String> {
        let args = self.args;
        let waited = |since: u64| now.saturating_sub(since) as f64 / SECOND as f64;
        if self.first_request.is_none() {
            let patience = args.seconds.unwrap_or(PATIENCE.1).clamp(PATIENCE.0, PATIENCE.1);
            return (waited(started) > patience).then(|| {
                let why = if self.obstacle.is_empty() { "the server does not answer" } else { &self.obstacle };
                format!("nothing could be requested from {}:{} within {patience} s: {why}", args.host, args.port)
            });
        }
        let patience = args.seconds?.max(IMAGE_PATIENCE);
        (self.all_images.is_none() && waited(self.answered_at.max(started)) > patience).then(|| {
            let streams: usize = self.mounts.iter().map(|m| m.list.len()).sum();
            let answered: usize = self.mounts.iter().map(|m| m.list.answered()).sum();
            let why = if self.obstacle.is_empty() { String::new() } else { format!(": {}", self.obstacle) };
            format!("{answered} of {streams} items were answered, and no other one for {patience} s{why}")
        })
    }

    /// Says what is in the way, unless that was said last.
    fn hindered(&mut self, index: u32, what: String) {
        if self.obstacle != what {
            self.printer.say(&format!("mount {index}: {what}"));
            self.obstacle = what;
        }
    }

    fn write_recording(&mut self) {
        if let Some(Err(e)) = self.recorder.as_mut().map(Recorder::flush) {
            self.printer.fail(format!("the recording cannot be written and ends: {e}"));
            self.recorder = None;
        }
    }

    fn print_line(&mut self, last: &mut Line, now: u64, total: Option<&mut Total>) {
        let counts = self.meter.counts;
        let delta = counts.since(&last.counts);
        let seconds = (now - last.at) as f64 / SECOND as f64;
        let latency = self.meter.latency.summary();
        if let Some(total) = total {
            total.latency.add(&self.meter.latency);
            total.means.extend((latency.samples > 0).then_some(latency.mean_us));
        }
        self.meter.latency.clear();
        self.write_recording();
        let streams: usize = self.mounts.iter().map(|m| m.list.len()).sum();
        let answered: usize = self.mounts.iter().map(|m| m.list.answered()).sum();
        if answered < streams && self.first_request.is_some() {
            self.printer.progress(answered, streams, delta.images as f64 / seconds.max(1e-9), counts.refused);
        }
        self.printer.line(now, seconds, delta.updates as f64 / seconds.max(1e-9), &latency, &counts);
        *last = Line { at: now, counts };
    }

    fn log_out(&mut self, io: &mut RsslIo, now: u64) {
        for mount in &mut self.mounts {
            if let Some(conn) = mount.conn.take().filter(|_| mount.up) {
                io.send(now, conn, |packer| mount.consumer.end(&mut |m| packer.push(m, None)));
                io.close_drained(conn, "the run is over");
            }
        }
        // The servers see the end of the session, not a reset, unless they are slow to.
        let end = now + SECOND / 2;
        while io.tcp().connections() > 0 && net::clock::now() < end {
            if io.turn(Some(end), &mut Silent).is_err() {
                return;
            }
        }
    }

    fn report(&self, measured: Option<&Line>, now: u64, total: &Latency) -> Report {
        let streams = self.mounts.iter().map(|m| m.list.len()).sum();
        let counts = self.meter.counts;
        let (seconds, updates) = measured
            .as_ref()
            .map_or((0.0, 0), |m| ((now - m.at) as f64 / SECOND as f64, counts.updates - m.counts.updates));
        Report {
            name: self.args.name.clone(),
            mounts: self.args.mounts,
            streams,
            seconds,
            counts: Counts { updates, ..counts },
            latency: total.summary(),
            images_s: self.first_request.zip(self.all_images).map(|(from, to)| (to - from) as f64 / SECOND as f64),
            queue_growing: false,
            complete: self.mounts.iter().all(|m| m.up && m.list.is_complete()),
        }
    }

    fn note(&mut self, note: &Note) {
        let Note::State { name, text, closed } = note;
        if self.args.verbose || self.args.log >= 2 {
            let verb = if *closed { "closed" } else { "state" };
            self.printer.say(&format!("{}: {verb}: {text}", self.names[*name as usize]));
        }
    }
}

/// Takes nothing any more.
struct Silent;

impl Handler for Silent {
    fn opened(&mut self, _: u64, _: ConnId, _: &Opened<'_>) {}
    fn message(&mut self, _: u64, _: ConnId, _: &[u8]) {}
    fn closed(&mut self, _: u64, _: ConnId, _: &Ended) {}
}

/// Latencies of the measured part of the run.
struct Total {
    latency: Latency,
    /// Mean of each interval, in microseconds.
    means: Vec<f64>,
}

/// When a line was printed and what was counted then.
struct Line {
    at: u64,
    counts: Counts,
}

impl Handler for Client<'_> {
    fn opened(&mut self, now: u64, conn: ConnId, opened: &Opened<'_>) {
        let index = self.owners[conn.slot()];
        let mount = &mut self.mounts[index as usize];
        mount.up = true;
        mount.consumer.begin(now, &mut |m| mount.outbox.push(m));
        self.active.push(index);
        if self.args.verbose {
            self.printer.say(&format!("mount {index} connected to {}: {}", opened.peer, opened.spoken));
        }
    }

    #[inline]
    fn ahead(&mut self, conn: ConnId, messages: Ahead<'_, '_>) {
        let mount = &self.mounts[self.owners[conn.slot()] as usize];
        mount.list.look_ahead(messages, &self.streams);
    }

    #[inline]
    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        let index = self.owners[conn.slot()];
        let mount = &mut self.mounts[index as usize];
        if self.args.xml {
            self.printer.message(msg, self.args.dump_level);
        }
        if rwf::peek::stream_id(msg).is_some_and(|id| id >= super::watch::FIRST_STREAM) {
            if let Some(recorder) = &mut self.recorder {
                let name = mount.list.name_of(msg).map_or("", |name| &self.names[name as usize]);
                recorder.take(now, index, name, msg, &self.printer.dictionary);
            }
            let before = (mount.list.answered(), mount.list.outstanding());
            let note = mount.list.take(now, msg, &mut self.streams, &mut self.meter);
            // An answer, or a state that is not one yet: in either case the window has room for the next request.
            if (mount.list.answered(), mount.list.outstanding()) != before {
                self.answered_at = now;
                if self.active.last() != Some(&index) {
                    self.active.push(index);
                }
                if mount.list.is_complete() && self.mounts.iter().all(|m| m.list.is_complete()) {
                    self.all_images.get_or_insert(net::clock::now());
                }
            }
            if let Some(note) = note {
                self.note(&note);
            }
            return;
        }
        let heard = mount.consumer.receive(now, msg, &mut |m| mount.outbox.push(m));
        self.active.push(index);
        match heard {
            Received::LoginClosed(text) => self.hindered(index, format!("login closed: {text}")),
            Received::ServiceUnknown(services) => {
                let known = if services.is_empty() { "none yet".to_owned() } else { services.join(", ") };
                self.hindered(index, format!("there is no service {}; the server has: {known}", self.args.service));
            }
            Received::ServiceDown => self.hindered(index, format!("service {} is down", self.args.service)),
            Received::ServiceUp(id) => {
                self.obstacle.clear();
                if self.args.verbose {
                    self.printer.say(&format!("mount {index}: service {} has id {id}", self.args.service));
                }
            }
            _ => {}
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        let index = self.owners[conn.slot()];
        let mount = &mut self.mounts[index as usize];
        if mount.conn != Some(conn) {
            return;
        }
        (mount.conn, mount.up) = (None, false);
        mount.list.reset(&mut self.streams);
        mount.outbox = Outbox::default();
        mount.version = ended.next_version.unwrap_or(Version::V14);
        if ended.next_version.is_none() {
            mount.places.go_on();
        }
        mount.retry_at = Some(now + if ended.next_version.is_some() { 0 } else { RETRY });
        let what = if ended.established { "session over" } else { "no session" };
        if ended.established {
            self.obstacle.clear();
        }
        // A server that knows another version only is no obstacle.
        if ended.established || ended.next_version.is_none() || self.args.verbose {
            self.hindered(index, format!("{what}: {}", ended.why));
        }
    }
}

/// Where lines go.
struct Printer<'a> {
    args: &'a Args,
    csv: Option<BufWriter<File>>,
    dictionary: Dictionary,
    output: Output,
    started: u64,
    lines: u64,
    /// A file that was to be written and was not: the run goes on, and its end tells.
    failed: Option<String>,
}

impl<'a> Printer<'a> {
    fn new(args: &'a Args, dictionary: Dictionary) -> anyhow::Result<Self> {
        let csv = args
            .latency_file
            .as_ref()
            .map(|path| net::output::create(path).map_err(|e| anyhow!("latency file {}: {e}", path.display())))
            .transpose()?
            .map(BufWriter::new);
        let mut printer = Self {
            args,
            csv,
            dictionary,
            output: Output::default(),
            started: net::clock::now(),
            lines: 0,
            failed: None,
        };
        if let Some(csv) = &mut printer.csv {
            writeln!(csv, "{}", table::CLIENT_CSV).map_err(|e| anyhow!("latency file: {e}"))?;
        }
        Ok(printer)
    }

    /// A line for the user; servers choose part of many.
    fn say(&self, text: &str) {
        if self.args.log >= 1 || self.args.verbose {
            eprintln!("{}", net::plain::escaped(text));
        }
    }

    fn fail(&mut self, text: String) {
        eprintln!("{}", net::plain::escaped(&text));
        self.failed.get_or_insert(text);
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.failed.take().map_or_else(|| self.output.finish(), |text| Err(anyhow!(text)))
    }

    fn progress(&self, answered: usize, streams: usize, rate: f64, refused: u64) {
        if self.args.log >= 1 {
            let percent = answered * 100 / streams.max(1);
            eprintln!("opening: {answered} of {streams} ({percent} %), {rate:.0} images/s, {refused} refused");
        }
    }

    fn line(&mut self, now: u64, seconds: f64, rate: f64, latency: &Summary, counts: &Counts) {
        let since_start = (now - self.started) as f64 / SECOND as f64;
        if seconds <= 0.0 {
            return;
        }
        if self.args.log >= 1 {
            if self.lines.is_multiple_of(20) {
                self.output.line(&table::heading(table::CLIENT));
            }
            self.output.line(&table::client_row(since_start, rate, latency, counts.images, counts.lost));
            self.lines += 1;
        }
        if let Some(csv) = &mut self.csv {
            let row = table::client_csv_row(since_start, rate, latency, counts.images, counts.lost);
            let written = writeln!(csv, "{row}");
            if let Err(e) = written.and_then(|()| csv.flush()) {
                self.csv = None;
                self.fail(format!("the latency file cannot be written and ends: {e}"));
            }
        }
    }

    fn message(&mut self, msg: &[u8], level: u8) {
        let text = crate::dump::message_text(msg, level, &self.dictionary);
        self.output.line(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::is_growing;

    #[test]
    fn a_queue_that_grows_is_told_from_noise() {
        let rising: Vec<f64> = (1..=12).map(|n| f64::from(n) * 1_500.0).collect();
        assert!(is_growing(&rising));
        assert!(!is_growing(&[80.0, 300.0, 90.0, 85.0, 240.0, 170.0]), "noise far below a millisecond");
        assert!(!is_growing(&[9_000.0, 8_000.0, 9_500.0, 8_700.0, 9_100.0, 9_900.0]), "slow, but steady");
        assert!(!is_growing(&[1.0, 90_000.0]), "too few intervals to say");
    }
}
