//! The command line of `sink-driven-src`.

use super::order::Order;
use super::template;
use crate::flags;
use anyhow::anyhow;
use clap::{Parser, ValueEnum};
use feed::pace::{Rate, Shape};
use measure::observer::{End, Observer, Plan};
use permissions::lock::Lock;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Publishes: answers every item and updates all that are open, at the rate that you ask for.
///
/// Takes the flags of the RMDS simulator (-S -N -Q -q -K -c -E -I -tcpnodel -ts -tsn -UL -tps -U) and the double-dash flags
/// below. While it runs it takes commands on standard input: `ur RATE` changes the update rate, and others break things on
/// purpose (see below).
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "sink-driven-src", after_help = EXAMPLES)]
pub struct Args {
    /// -S: name of the service
    #[arg(long, value_name = "NAME", default_value = "DIRECT_FEED")]
    pub service: String,

    /// -N: port to listen on; the Source Distributor connects to it
    #[arg(long, value_name = "PORT", default_value_t = 14002)]
    pub port: u16,

    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub bind: IpAddr,

    /// Connect to this Source Distributor as a non-interactive provider instead of listening, for example localhost:14003;
    /// srv:_SERVICE._tcp.DOMAIN for what the DNS says (SRV)
    #[arg(long, value_name = "HOST:PORT")]
    pub nip: Option<String>,

    /// Items that a non-interactive provider publishes; RDT{0..999} stands for a thousand
    #[arg(long, value_name = "NAMES", default_value = "RDT{0..999}")]
    pub items: String,

    /// -Q: what to publish: a data file (XML or lines of JSON: templates at the rate of -U, or a recording), raw Marketfeed
    /// (a file, tcp:HOST:PORT or a named pipe), a directory of recorded ticks, an exchange's capture (.pcap, .pcapng, .gz),
    /// `market` for the built-in market, or `pages` for ANSI pages; without it the reference updates
    #[arg(long, value_name = "FILE")]
    pub data_file: Option<PathBuf>,

    /// -q: the item of the data file that all items that are not in it are like
    #[arg(long, value_name = "ITEM")]
    pub template_item: Option<String>,

    /// -K: answer every item: those that are not in the data file are like -q, else like its first item, else like the
    /// built-in reference (without -K and -q they are refused)
    #[arg(long)]
    pub keep: bool,

    /// -c: begin again at the end of the data file (the reference updates always do)
    #[arg(long)]
    pub cycle: bool,

    /// -E: protocol; only rssl (sslauto is taken as that)
    #[arg(long, value_name = "PROTOCOL", default_value = "rssl", value_parser = protocol)]
    pub protocol: String,

    /// -I: seconds between two lines of statistics
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = flags::seconds)]
    pub interval: f64,

    /// -tcpnodel: send at once (TCP_NODELAY)
    #[arg(long)]
    pub tcp_no_delay: bool,

    /// -ts: put time stamps into some updates, for latency (field TIM_TRK_1, microseconds of the monotonic clock)
    #[arg(long)]
    pub timestamps: bool,

    /// -tsn: the item whose updates carry the time stamps; without it any item
    #[arg(long, value_name = "ITEM")]
    pub timestamp_item: Option<String>,

    /// -UL: updates a second with a time stamp
    #[arg(long, value_name = "PER SECOND", default_value_t = 10.0, value_parser = flags::number)]
    pub latency_updates: f64,

    /// -tps: bursts a second
    #[arg(long, value_name = "PER SECOND", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub ticks: u32,

    /// -U: updates a second over all items: a number, 50k, 1.5M, or max for as many as the connection takes. Recorded data is
    /// then played at this rate instead of in recorded time
    #[arg(long, value_name = "RATE", default_value = "0")]
    pub update_rate: Rate,

    /// Send each update at a time of its own instead of in bursts; time stamps tell when it was meant to go
    #[arg(long)]
    pub smooth: bool,

    /// Put a time stamp into every update
    #[arg(long)]
    pub stamp_all: bool,

    /// Put a time stamp into every so manieth update; 0 leaves it to -UL
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub stamp_every: u32,

    /// The lock (permission data) of every image, as `quoteway lock` writes it: '1: 62 & (144 | 145)'
    #[arg(long, value_name = "LOCK", conflicts_with = "data_file", value_parser = lock)]
    pub lock: Option<Arc<[u8]>>,

    /// Update the items in a random order, the same in every run, and not in that in which they were opened: --order random
    #[arg(long)]
    pub shuffle: bool,

    /// Which item is updated next: opened (round and round, as they were opened), random (round and round in a random order), zipf (the most
    /// frequent item n times as often as the nth), or a file of item numbers, one a line, that is gone over again and again
    #[arg(long, value_name = "ORDER", conflicts_with = "shuffle")]
    pub order: Option<Order>,

    /// Size of a reference update in bytes, header included: 74 is the reports' size, 130 the later one
    #[arg(long, value_name = "BYTES", default_value_t = 74, value_parser = size)]
    pub size: usize,

    /// The same without the header: 74 as the report of IBM (2010) counts them
    #[arg(long, value_name = "BYTES", conflicts_with = "size", value_parser = data_size)]
    pub data_size: Option<usize>,

    /// Folder with RDMFieldDictionary and enumtype.def: handed out to those who ask, and names the fields of a data file;
    /// without it the built-in dictionary
    #[arg(long, value_name = "FOLDER")]
    pub dictionary: Option<PathBuf>,

    /// Bytes handed to the socket at one time, at most
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    pub write_size: usize,

    /// Socket send buffer in bytes; 0 leaves it to the system
    #[arg(long, value_name = "BYTES", default_value_t = 262_144)]
    pub send_buffer: usize,

    /// How to wait for the next update
    #[arg(long, value_enum, default_value_t = Idle::Block)]
    pub idle: Idle,

    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = flags::seconds)]
    pub seconds: Option<f64>,

    /// Seed of the built-in market
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Speed of recorded data: 1 is real time, 10 ten times as fast, 0 as fast as possible
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = flags::number)]
    pub speed: f64,

    /// Recorded data begins when the first of its items is opened, not with the source: whoever comes first misses nothing
    #[arg(long)]
    pub start_on_open: bool,

    /// Record item, number and time of the updates in this file, for `quoteway lab` (see docs/perf)
    #[arg(long, value_name = "FILE")]
    pub observe: Option<PathBuf>,

    /// Record one of so many updates, the same ones at both ends
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub observe_every: u32,

    /// Updates for which memory is taken before the run; what comes after that is counted and not recorded
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub observe_capacity: usize,

    /// Name of the run in the line of JSON at the end
    #[arg(long, value_name = "NAME", default_value = "sink-driven-src")]
    pub name: String,
}

const EXAMPLES: &str = "\
Examples:
  quoteway sink-driven-src -S RDFD -N 14002 -K -c -tcpnodel -ts -UL 10 -tps 500 -U 50000
  quoteway sink-driven-src -U max --size 130                        (as fast as the connection takes)
  quoteway sink-driven-src -U 1M --smooth --stamp-all               (open-loop latency of every update)
  quoteway sink-driven-src -Q MsgData.xml -c -U 10k                 (messages of your own, at a rate of your own)
  quoteway sink-driven-src -Q session.jsonl                         (what test-client --record wrote, in its own time)
  quoteway sink-driven-src -Q old.mf -c -U 1000                     (raw Marketfeed, as RWF by the dictionary)
  quoteway sink-driven-src -Q tcp:feedhandler:9200 -K               (raw Marketfeed as it comes)
  quoteway sink-driven-src -Q ticks-folder --speed 10               (a recorded day, ten times as fast)
  quoteway sink-driven-src --nip localhost:14003 --items 'RDT{0..999}' -U 1000
  (sleep 5; echo suspect IBM.N; sleep 2; echo down; sleep 2; echo up) | quoteway sink-driven-src -U 100

Commands on standard input:
ur RATE            updates a second: 50000, 1.5M, max, 0
down, up           the service goes down (nothing is published, requests are refused) and comes back
suspect [ITEM]     items stay open, their data is suspect; without ITEM all of them
ok [ITEM]          their data is good again
close [ITEM]       their streams end for good (Closed)
recover [ITEM]     their streams end and may be opened again (ClosedRecover)
image [ITEM]       they are sent again without having been asked for
malformed [ITEM]   an update that cannot be decoded
gap [COUNT]        so many updates (1) are numbered and not sent: a loss
mute, answer       item requests are not answered, and answered again
hang SECONDS       nothing is done at all, not even pings
delay SECONDS      everything comes late: work is done only every so many seconds; 0 ends it
cut                all connections are cut off
status, help, quit";

/// How the tool waits between two bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// Sleep until the next one: wakes some 50 us late, and uses no processor meanwhile.
    Block,
    /// Give the processor away again and again.
    Yield,
    /// Poll without a pause: exact, and keeps a processor busy.
    Spin,
}

impl Args {
    /// Which item is updated next.
    pub fn order(&self) -> Order {
        let usual = if self.shuffle { Order::Random } else { Order::Opened };
        self.order.clone().unwrap_or(usual)
    }

    /// Bytes of a reference update, header included.
    pub fn message_size(&self) -> usize {
        self.data_size.map_or(self.size, |data| data + template::header())
    }

    /// Form of the traffic.
    pub fn shape(&self) -> Shape {
        if self.smooth { Shape::Smooth } else { Shape::Bursts { per_second: self.ticks } }
    }

    /// Time between two lines.
    pub fn every(&self) -> Duration {
        Duration::from_secs_f64(self.interval.clamp(0.01, 86_400.0))
    }

    /// The observer that the flags ask for, with its file.
    ///
    /// # Errors
    /// A text for the user: the file cannot be made.
    pub fn observer(&self) -> anyhow::Result<Option<Observer>> {
        let plan = Plan { capacity: self.observe_capacity, every: self.observe_every, connections: 1 };
        Ok(self.observe.as_deref().map(|path| Observer::writing(path, End::Sender, &plan)).transpose()?)
    }

    /// Stamped updates a second; 0 without time stamps.
    pub fn stamps_per_second(&self) -> f64 {
        let wanted = self.timestamps || self.timestamp_item.is_some();
        if wanted && self.latency_updates.is_finite() { self.latency_updates.max(0.0) } else { 0.0 }
    }
}

fn protocol(text: &str) -> anyhow::Result<String> {
    match text {
        "rssl" | "sslauto" => Ok(text.to_owned()),
        _ => Err(anyhow!("this source speaks -E rssl (sslauto is taken as that)")),
    }
}

fn lock(text: &str) -> anyhow::Result<Arc<[u8]>> {
    Ok(text.parse::<Lock>()?.encode()?.into())
}

fn data_size(text: &str) -> anyhow::Result<usize> {
    let data = text.parse::<usize>().map_err(|_| anyhow!("not a number of bytes"))?;
    let whole = data.saturating_add(template::header());
    template::Template::new(whole, true, 0).map(|_| data).map_err(anyhow::Error::from)
}

fn size(text: &str) -> anyhow::Result<usize> {
    let size = text.parse().map_err(|_| anyhow!("not a number of bytes"))?;
    template::Template::new(size, true, 0).map(|_| size).map_err(anyhow::Error::from)
}

/// Rewrites the flags that are spelled as the original tool spells them; the first word stays.
pub fn args_from(words: Vec<OsString>) -> Vec<OsString> {
    flags::modernise(flags::SINK_DRIVEN_SRC, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(args_from(line.split(' ').map(OsString::from).collect()))
    }

    #[test]
    fn the_reports_command_line_parses() {
        let args =
            parse("src -S RDFD -N 14010 -Q sample.xml -q GOOG.O -K -c -tcpnodel -ts -tsn RTRSY.O -UL 10 -tps 500")
                .unwrap();
        assert_eq!((args.service.as_str(), args.port, args.ticks), ("RDFD", 14_010, 500));
        assert_eq!(args.data_file.unwrap().to_str(), Some("sample.xml"));
        assert_eq!((args.template_item.as_deref(), args.timestamp_item.as_deref()), (Some("GOOG.O"), Some("RTRSY.O")));
        assert!(args.keep && args.cycle && args.tcp_no_delay && args.timestamps);
        assert_eq!(args.update_rate, Rate::Stopped);
    }

    #[test]
    fn a_lock_is_given_as_text_and_sent_as_bytes() {
        let lock = |text: &str| Args::try_parse_from(["src", "--lock", text]).map(|args| args.lock.unwrap());
        let text = "257: 62 & (144 | 145)";
        assert_eq!(Lock::decode(&lock(text).unwrap()).unwrap().to_string(), text);
        assert!(lock("IDN: 62").is_err());
    }

    #[test]
    fn the_scripts_command_line_parses() {
        let args = parse("src -S SFWD -c -I 1 -E sslauto -Q file -K -N 8105 -U 2000").unwrap();
        assert_eq!((args.protocol.as_str(), args.port, args.update_rate), ("sslauto", 8_105, Rate::PerSecond(2_000.0)));
        assert_eq!(args.every(), Duration::from_secs(1));
        assert_eq!(args.shape(), Shape::Bursts { per_second: 1_000 });
        assert!(args.stamps_per_second().abs() < f64::EPSILON);
    }

    #[test]
    fn own_flags_mix_with_the_old_ones() {
        let args = parse("src -U max --smooth --stamp-all --size 130 -ts -UL 5 --idle spin").unwrap();
        assert_eq!((args.update_rate, args.shape(), args.size, args.idle), (Rate::Max, Shape::Smooth, 130, Idle::Spin));
        assert!((args.stamps_per_second() - 5.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_help_has_the_commands() {
        assert!(EXAMPLES.ends_with(super::super::commands::HELP));
    }

    #[test]
    fn bad_values_are_refused_with_a_reason() {
        for (line, part) in
            [("x -U fast", "50k"), ("x --size 10", "60"), ("x -tps 0", "--ticks"), ("x -N no", "--port")]
        {
            let text = parse(line).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
