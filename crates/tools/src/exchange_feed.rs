//! `quoteway feed`: an exchange's own feed or file as a service of prices, books and trades.

mod composite;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use anyhow::anyhow;
use clap::Parser;
use feed::MarketSource as _;
use feed::replay::ReplaySpeed;
use feed::replay::market::ReplayConfig;
use feed::replay::venue::{self, Symbology, VenueFile};
use feed::session::{Nanos, SECOND};
use feed_io::{CmePlace, CmeSource, LiveSource, Site, WebPlace, WebSource, is_cme_site, is_site, is_web_site};
pub use feed_io::{Report, SiteArgs};

use crate::flags;
use crate::sink_driven_src;
use crate::source::serve::{Composite, SourceSettings, VenueSettings, serve_source};

/// Turns an exchange's own feed or file into a live service: prices, books by order and by price, trades, status, symbol list.
///
/// A site is a feed as it comes: lines A and B of Nasdaq TotalView-ITCH (MoldUDP64, with --repeater for what no line brings, and --snapshot for GLIMPSE)
/// or of IEX (IEX-TP), a channel of CME MDP 3.0 by the exchange's configuration file (with --schema), a session of TotalView-ITCH over SoupBinTCP, or products of a venue on the web (Binance, BitMEX, Bitstamp, Coinbase, Independent
/// Reserve, Kraken, Kraken Futures) over WebSocket. A file is told by its content, packed or not (gzip, zstd): a day of Nasdaq TotalView-ITCH 5.0, a capture (pcap, pcapng) of its `MoldUDP64` with any
/// number of lines, Databento's DBN (mbo, mbp-1, mbp-10, trades, tbbo, bbo, cmbp-1, cbbo, tcbbo, statistics, status), a capture of IEX (TOPS, DEEP), a capture of a channel of CME MDP 3.0
/// (with --schema), a recorded connection to Kraken, Coinbase, BitMEX, Bitstamp, Binance, Kraken Futures or Independent Reserve, or a mapping file (.toml) of tables of ticks (CSV, Parquet). It is played at the pace of its own times. Items are named by
/// the venue's symbols, 0#ALL lists them, and other names are refused. From a gap to its repair the items that it can touch are Suspect.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "feed", after_help = EXAMPLES)]
pub struct Args {
    /// The file, or the site: mold:GROUP:PORT,GROUP:PORT (the lines A and B), soup:HOST:PORT, iex-tops:GROUP:PORT,... or iex-deep:GROUP:PORT,...; cme:CONFIG.XML; coinbase:BTC-USD,ETH-USD (binance:, bitmex:, bitstamp:, independent-reserve:, kraken:, kraken-futures:) or wss://HOST/PATH#PRODUCTS
    #[arg(value_name = "FILE-OR-SITE")]
    pub file: PathBuf,

    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub site: SiteArgs,

    /// Name of the service
    #[arg(long, value_name = "NAME", default_value = "DIRECT_FEED")]
    pub service: String,

    /// Port to listen on: a Source Distributor dials it (--route), or consumers connect; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 14010)]
    pub port: u16,

    /// Address to listen on; 0.0.0.0 serves whoever reaches this host
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,

    /// Connect to this Source Distributor as a non-interactive provider instead of listening, for example localhost:14003: prices alone
    #[arg(long, value_name = "HOST:PORT")]
    pub nip: Option<String>,

    /// Items that a non-interactive provider publishes, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", requires = "nip")]
    pub items: Option<String>,

    /// How fast the file's time passes: 1 is real time, 10 ten times as fast, max as fast as consumers take it
    #[arg(long, value_name = "FACTOR|max", default_value = "1", value_parser = speed)]
    pub speed: Pace,

    /// Begin when the first item is opened: whoever comes first misses nothing
    #[arg(long)]
    pub start_on_open: bool,

    /// Take in silently what was before this time of the venue's day (New York; DBN: UTC)
    #[arg(long, value_name = "HH:MM[:SS]", value_parser = time)]
    pub from: Option<Nanos>,

    /// The day of an ITCH file whose name does not tell it
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub date: Option<u32>,

    /// Behind each symbol: with .ITCH, AAPL is AAPL.ITCH [default: nothing; IEX: .IEX of TOPS, .DEEP]
    #[arg(long, value_name = "TEXT")]
    pub suffix: Option<String>,

    /// What was fetched by HTTP while a connection to a venue on the web was recorded, if that is in another file (Independent Reserve's lists of orders)
    #[arg(long, value_name = "FILE")]
    pub beside: Option<PathBuf>,

    /// CME's schema (templates_FixBinary.xml), by which its channel is read; a capture is one of CME MDP 3.0 with it
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,

    /// Names of instruments: a file with the columns symbol,name,isin. A symbol that is not there keeps the venue's name
    #[arg(long, value_name = "FILE")]
    pub symbols: Option<PathBuf>,

    /// Begin again at the end of the file
    #[arg(long)]
    pub repeat: bool,

    /// Seconds between two lines of statistics
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = flags::seconds)]
    pub interval: f64,

    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = flags::seconds)]
    pub seconds: Option<f64>,
}

const EXAMPLES: &str = "\
Examples:
  quoteway feed 12302019.NASDAQ_ITCH50.gz --from 09:29 --serve
  quoteway feed glbx-mdp3-20231225.mbo.dbn.zst --speed 10 --start-on-open
  quoteway feed channel-310.pcap.gz --schema templates_FixBinary.xml --serve
  quoteway feed KRAKEN.ws.gz --start-on-open
  quoteway feed ticks.toml --speed 10 --start-on-open
  quoteway feed mold:233.54.12.111:26477,233.49.196.111:26477 --line-interface 10.1.0.5,10.2.0.5 --repeater rerequest:18001 --snapshot glimpse:18002 --user me
  quoteway feed iex-deep:233.215.21.4:10378,233.215.21.132:10378 --serve
  quoteway feed cme:config.xml --channel 310 --schema templates_FixBinary.xml --line-interface 10.1.0.5,10.2.0.5 --serve
  quoteway feed coinbase:BTC-USD,ETH-USD --serve
  quoteway feed desk.toml --serve                     (several feeds, and the best over them)
  quoteway feed lines.pcapng --suffix .ITCH & quoteway serve --route localhost:14010

Then look at it:
  quoteway test-client -h localhost -p 14010 -S DIRECT_FEED -il AAPL
  quoteway test-client -h localhost -p 14010 -S DIRECT_FEED -il AAPL -md 7        (orders; 8 is levels)

Which field tells what of a venue: docs/feeds.";

/// How fast a file's time passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace(ReplaySpeed);

fn speed(text: &str) -> anyhow::Result<Pace> {
    if text == "max" {
        return Ok(Pace(ReplaySpeed::Unpaced));
    }
    let factor: f64 = text.parse().map_err(|_| anyhow!("a factor, as 1 or 0.5, or max"))?;
    let is_speed = factor.is_finite() && factor > 0.0;
    is_speed.then_some(Pace(ReplaySpeed::Scaled(factor))).ok_or_else(|| anyhow!("must be over 0, or max"))
}

fn time(text: &str) -> anyhow::Result<Nanos> {
    let parts: Result<Vec<u64>, _> = text.split(':').map(str::parse).collect();
    let (hours, minutes, seconds) = match parts.as_deref() {
        Ok([hours, minutes]) => (*hours, *minutes, 0),
        Ok([hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return Err(anyhow!("a time of day is written 09:29 or 09:29:30")),
    };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return Err(anyhow!("there is no such time of day"));
    }
    Ok((hours * 3_600 + minutes * 60 + seconds) * SECOND)
}

fn date(text: &str) -> anyhow::Result<u32> {
    venue::date_of(text).ok_or_else(|| anyhow!("a date is written 2019-12-30"))
}

impl Args {
    fn settings(&self) -> SourceSettings {
        SourceSettings {
            service: self.service.clone(),
            data: Some(self.file.clone()),
            replay: ReplayConfig { pace: self.speed.0, repeat: self.repeat, pause: 0, ..ReplayConfig::default() },
            venue: VenueSettings {
                from: self.from,
                date: self.date,
                suffix: self.suffix.clone(),
                beside: self.beside.clone(),
                schema: self.schema.clone(),
                symbols: self.symbols.clone(),
            },
            start_on_open: self.start_on_open,
            stamps: false,
            ..SourceSettings::default()
        }
    }

    fn open(&self, report: Option<Report>, say: &mut dyn FnMut(&str)) -> anyhow::Result<Composite> {
        let text = self.file.to_string_lossy();
        if composite::has_composites(&self.file) {
            return composite::open(&self.file, say);
        }
        let symbology = || -> anyhow::Result<_> {
            let symbology = self.symbols.as_deref().map(Symbology::open).transpose().map_err(|e| anyhow!("{e}"))?;
            Ok(symbology.map(Arc::new))
        };
        if is_web_site(&text) {
            self.refuse_what_only_files_have()?;
            let mut place = WebPlace::parse(&text, &self.site, self.suffix.clone())?;
            place.config.symbology = symbology()?;
            let source = WebSource::open(place, &text, report)?;
            let wake = source.wake().map_err(|e| anyhow!("{text}: {e}"))?;
            return Ok(Composite::live(Box::new(source), wake));
        }
        if is_cme_site(&text) {
            self.refuse_what_only_files_have()?;
            let mut place = CmePlace::parse(&text, &self.site, self.schema.as_deref(), self.suffix.clone())?;
            place.config.symbology = symbology()?;
            let source = CmeSource::open(place, &text, report, say)?;
            let wake = source.wake().map_err(|e| anyhow!("{text}: {e}"))?;
            return Ok(Composite::live(Box::new(source), wake));
        }
        if is_site(&text) {
            self.refuse_what_only_files_have()?;
            let mut site = Site::parse(&text, &self.site, self.suffix.clone())?;
            site.config.symbology = symbology()?;
            let source = LiveSource::open(&site, &text, report, say)?;
            let wake = source.wake().map_err(|e| anyhow!("{text}: {e}"))?;
            return Ok(Composite::live(Box::new(source), wake));
        }
        self.site.refuse(&text)?;
        if !self.file.is_file() {
            return Err(anyhow!("{}: there is no such file", self.file.display()));
        }
        let file =
            VenueFile::of(&self.file, self.schema.is_some()).map_err(|e| anyhow!("{}: {e}", self.file.display()))?;
        if file.is_none() {
            return Err(anyhow!(
                "{} is no file of an exchange that is read here: a day or a capture of Nasdaq TotalView-ITCH, a capture of IEX or (with --schema) of \
                 CME MDP 3.0, Databento's DBN, a recorded connection to Kraken, Coinbase, BitMEX, Bitstamp, Binance, Kraken Futures or \
                 Independent Reserve (other recordings: quoteway sink-driven-src -Q)",
                self.file.display()
            ));
        }
        for (flag, is_given, is_read) in [
            ("--schema", self.schema.is_some(), file == Some(VenueFile::Cme)),
            ("--beside", self.beside.is_some(), matches!(file, Some(VenueFile::Web(_)))),
        ] {
            if let (true, false, Some(kind)) = (is_given, is_read, file) {
                return Err(anyhow!("{flag} has no effect: {text} is {kind}"));
            }
        }
        Ok(Composite::open(&self.settings(), false, say)?)
    }

    /// Of a feed that comes from the network.
    fn refuse_what_only_files_have(&self) -> anyhow::Result<()> {
        let is_cme = is_cme_site(&self.file.to_string_lossy());
        let is_paced = self.speed != Pace(ReplaySpeed::Scaled(1.0));
        for (flag, is_given, why) in [
            ("--speed", is_paced, "the feed comes when it comes"),
            ("--from", self.from.is_some(), "the feed comes when it comes"),
            ("--date", self.date.is_some(), "it is today's"),
            ("--beside", self.beside.is_some(), "nothing of it was recorded"),
            ("--schema", self.schema.is_some() && !is_cme, "only CME's feed has one"),
            ("--repeat", self.repeat, "it has no end"),
            ("--start-on-open", self.start_on_open, "it does not wait"),
            (
                "--nip",
                self.nip.is_some(),
                "which items there are is not known when a provider has to say so; let a Source Distributor dial (--route)",
            ),
        ] {
            if is_given {
                return Err(anyhow!("{flag} is for files: {why}"));
            }
        }
        Ok(())
    }
}

/// Publishes until it is stopped, to whoever connects or at a Source Distributor.
///
/// # Errors
/// A text for the user.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let source = args.open(None, &mut |line| eprintln!("{line}"))?;
    let mut publishing = sink_driven_src::Args::parse_from(["feed"]);
    // Commas separate names there: no venue has them in symbols.
    publishing.items = args.items.clone().unwrap_or_else(|| source.symbols().join(","));
    publishing.service.clone_from(&args.service);
    publishing.nip.clone_from(&args.nip);
    (publishing.port, publishing.bind, publishing.tcp_no_delay) = (args.port, args.bind, true);
    (publishing.interval, publishing.seconds) = (args.interval, args.seconds);
    "feed".clone_into(&mut publishing.name);
    sink_driven_src::publish_opened(&publishing, source, &|| net::signal::stop_requested() > 0, |_| {})
}

/// Publishes on a free port of the loopback until `stop` is set, for a server in the same process: the body of a thread. `ready` gets the
/// address, and `report` how a feed from the network stands.
///
/// # Errors
/// A text for the user.
pub fn serve(
    args: &Args,
    stop: &Arc<AtomicBool>,
    report: Report,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let source = args.open(Some(report), &mut |line| tracing::info!("{line}"))?;
    let (_nobody, faults) = channel();
    serve_source(SocketAddr::from(([127, 0, 0, 1], 0)), source, &args.settings(), stop, ready, &faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from([&["feed", "FILE"], words].concat())
    }

    #[test]
    fn a_file_of_no_exchange_is_refused_with_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data.json");
        let why = |file: &std::path::Path| {
            let args = Args::try_parse_from(["feed".as_ref(), file.as_os_str()]).unwrap();
            args.open(None, &mut |_| {}).map(drop).unwrap_err().to_string()
        };
        assert!(why(&file).contains("there is no such file"));
        std::fs::write(&file, "{\"ID\":5,\"Type\":\"Update\"}\n".repeat(2_000)).unwrap();
        let text = why(&file);
        assert!(text.contains("ITCH") && text.contains("sink-driven-src -Q"), "{text}");
        std::fs::write(&file, "wss://ws.kraken.com <-> 1.5\n").unwrap();
        let args =
            Args::try_parse_from(["feed".as_ref(), file.as_os_str(), "--schema".as_ref(), "x".as_ref()]).unwrap();
        let text = args.open(None, &mut |_| {}).map(drop).unwrap_err().to_string();
        assert!(text.contains("--schema has no effect") && text.contains("a recorded connection to Kraken"), "{text}");
    }

    #[test]
    fn times_dates_and_speeds_are_written_as_people_do() {
        let args = parse(&["--from", "09:29:30", "--date", "2019-12-30", "--speed", "max"]).unwrap();
        assert_eq!((args.from, args.date), (Some(34_170 * SECOND), Some(18_260)));
        assert_eq!(args.speed, Pace(ReplaySpeed::Unpaced));
        assert_eq!(parse(&["--speed", "2.5"]).unwrap().speed, Pace(ReplaySpeed::Scaled(2.5)));
        for wrong in [
            ["--from", "9"],
            ["--from", "24:00"],
            ["--date", "2019-02-30"],
            ["--speed", "0"],
            ["--speed", "nan"],
            ["--items", "AAPL"],
        ] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}
