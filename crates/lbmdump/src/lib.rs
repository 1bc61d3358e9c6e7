//! `quoteway lbmdump`: captures of LBM traffic as readable text.
//!
//! Reads pcap and pcapng files, gzipped or not, follows the transport sessions in them, learns topic names from the advertisements, and says
//! what is missing, asked for and sent again. A capture tells what passed *its* place: what is missing near the source never
//! left it, what is missing near a receiver was lost on the way.
#![forbid(unsafe_code)]

mod book;
mod dissect;
mod json;
mod select;
mod sequence;
mod summary;
mod tcp;
mod text;

use anyhow::anyhow;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use book::Book;
use capture::{Frame, Reader};
use clap::Parser;
use dissect::{Dissector, Ports, Record};
pub use select::Kind;
use select::Selection;
use summary::Summary;

/// Shows captures of LBM traffic as readable text.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmdump", after_help = EXAMPLES)]
pub struct Args {
    /// Capture files, pcap or pcapng, gzipped or not; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Show every field and message (-v), and payloads in full (-vv)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// One JSON object a packet, and one for the summary; payloads with -v
    #[arg(long)]
    pub json: bool,

    /// Only the summary
    #[arg(short, long)]
    pub quiet: bool,

    /// Only packets that tell of this topic; `*` stands for any characters
    #[arg(long, value_name = "NAME")]
    pub topic: Option<String>,

    /// Only packets of sessions whose name holds this, such as an address or a session id
    #[arg(long, value_name = "TEXT")]
    pub session: Option<String>,

    /// Only packets of these kinds
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Kind>,

    /// Read a file twice, so that topics have names before they are advertised
    #[arg(short = '2', long)]
    pub two_passes: bool,

    /// Another UDP port of topic resolution (beside 12965, 15380 and 14402 to 14406)
    #[arg(long, value_name = "PORT")]
    pub resolver_port: Vec<u16>,

    /// Another TCP port of LBT-TCP, requests or late join (beside 14371 to 14395, and those that are advertised in the capture)
    #[arg(long, value_name = "PORT")]
    pub tcp_port: Vec<u16>,

    /// Fail if something is missing still, malformed, or out of step
    #[arg(long)]
    pub check: bool,
}

const EXAMPLES: &str = "\
Examples:
  tcpdump -i eth0 -w lbm.pcap 'udp or tcp portrange 14371-14395'
  quoteway lbmdump lbm.pcap
  quoteway lbmdump -2 --topic 'md.equities.*' -v lbm.pcap
  quoteway lbmdump --only trouble lbm.pcap       # losses, NAKs, retransmissions, malformed packets
  quoteway lbmdump -q --check lbm.pcap           # the summary; fails if something is missing
  quoteway lbmdump --json lbm.pcap | jq 'select(.kind == \"nak\")'

Numbers in brackets after a topic are its sequence numbers; those after DATA count datagrams of the session.
What is missing near a source never left it; what is missing near a receiver was lost on the way.";

/// Shows what the arguments name.
///
/// # Errors
/// A text for the user: a file cannot be read whole, or `--check` found something.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let out = BufWriter::new(std::io::stdout().lock());
    show(args, out)
}

/// Writes what the arguments name. A writer that takes no more ends it.
///
/// # Errors
/// A text for the user, as [`run`].
pub fn show(args: &Args, mut out: impl Write) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for file in &args.files {
        if args.files.len() > 1
            && !args.json
            && let Err(error) = writeln!(out, "{}:", file.display())
        {
            return Ok(net::output::ended(&error)?);
        }
        let reads = || if file.as_os_str() == "-" { Ok(Box::new(std::io::stdin()) as Input<'_>) } else { open(file) };
        if args.two_passes && file.as_os_str() == "-" {
            return Err(anyhow!("- is standard input, which cannot be read twice"));
        }
        match one(args, reads, &mut out).map_err(|e| anyhow!("{} {e}", file.display()))? {
            Found::Unwritable(error) => return Ok(net::output::ended(&error)?),
            Found::Trouble(text) => found.push(format!("{}: {text}", file.display())),
            Found::Nothing => {}
        }
    }
    out.flush().or_else(|error| net::output::ended(&error))?;
    if found.is_empty() { Ok(()) } else { Err(anyhow!(found.join("; "))) }
}

/// Writes what the arguments say of a capture in memory; their files have no part in it.
///
/// # Errors
/// A text for the user, as [`run`].
pub fn show_capture(args: &Args, capture: &[u8], mut out: impl Write) -> anyhow::Result<()> {
    match one(args, || Ok(Box::new(capture) as Input<'_>), &mut out)? {
        Found::Trouble(text) => Err(anyhow!(text)),
        Found::Unwritable(error) => Ok(net::output::ended(&error)?),
        Found::Nothing => Ok(()),
    }
}

/// Where a capture is read from.
type Input<'a> = Box<dyn Read + Send + 'a>;

/// How the reading of a file ended.
enum Found {
    Nothing,
    /// A file was not read whole, or with `--check` something is wrong with what is in it.
    Trouble(String),
    /// The output goes nowhere any more.
    Unwritable(std::io::Error),
}

fn one<'a>(args: &Args, open: impl Fn() -> anyhow::Result<Input<'a>>, out: &mut impl Write) -> anyhow::Result<Found> {
    let selection = Selection { topic: args.topic.clone(), session: args.session.clone(), kinds: args.only.clone() };
    let mut dissector = Dissector::new(Ports { resolver: args.resolver_port.clone(), tcp: args.tcp_port.clone() });
    if args.two_passes {
        let _ = each_frame(open()?, |frame| {
            dissector.frame(&frame, &mut |_, _| {});
            true
        })?;
        dissector.second_reading();
    }
    let (mut start, mut text, mut failed) = (None, String::new(), None);
    let mut write = |text: &mut String| {
        failed = failed.take().or_else(|| out.write_all(text.as_bytes()).err());
        text.clear();
        failed.is_none()
    };
    let mut show = |record: &Record<'_>, book: &Book, text: &mut String| {
        let start = *start.get_or_insert(record.nanos);
        if args.quiet || !selection.has(record, book) {
            return;
        }
        if args.json {
            text.push_str(&json::packet(record, book, args.verbose > 0).to_string());
            text.push('\n');
        } else {
            text::line(record, book, start, text);
            if args.verbose > 0 {
                text::details(record, book, args.verbose > 1, text);
            }
        }
    };
    let unread = each_frame(open()?, |frame| {
        dissector.frame(&frame, &mut |record, book| show(record, book, &mut text));
        write(&mut text)
    })?;
    dissector.end(&mut |record, book| show(record, book, &mut text));
    write(&mut text);
    let summary = Summary {
        book: &dissector.book,
        passed: dissector.passed,
        incomplete_datagrams: dissector.incomplete_datagrams(),
        unread: unread.as_deref(),
        selection: &selection,
    };
    let end = if args.json { format!("{}\n", summary.json()) } else { summary.text() };
    let space = if args.quiet || args.json { "" } else { "\n" };
    if let Some(error) = failed.or_else(|| write!(out, "{space}{end}").err()) {
        return Ok(Found::Unwritable(error));
    }
    let trouble: Vec<String> = unread.clone().into_iter().chain(summary.trouble().filter(|_| args.check)).collect();
    Ok(if trouble.is_empty() { Found::Nothing } else { Found::Trouble(trouble.join("; ")) })
}

/// Gives each frame to `each` while that wants more. Returns why the file was not read to a proper end.
///
/// # Errors
/// A text for the user: it is no capture.
fn each_frame(input: Input<'_>, mut each: impl FnMut(Frame<'_>) -> bool) -> anyhow::Result<Option<String>> {
    let mut reader = Reader::new(input)?;
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => {
                if !each(frame) {
                    return Ok(None);
                }
            }
            Ok(None) => break,
            Err(error) => return Ok(Some(error.to_string())),
        }
    }
    let left_out = reader.left_out();
    Ok((!left_out.is_whole_file()).then(|| capture::LeftOut { short_frames: 0, ..left_out }.to_string()))
}

fn open(file: &Path) -> anyhow::Result<Input<'static>> {
    File::open(file).map(|f| Box::new(f) as Input<'static>).map_err(|e| anyhow!("cannot be read: {e}"))
}

/// The body of the fuzz target, and of a test: any bytes as a capture, or as the frames of one. Nothing may panic, hang, or take
/// memory that the bytes do not justify; both ways of writing must take whatever was read.
///
/// # Panics
/// Only if something is wrong here.
pub fn hostile(bytes: &[u8]) {
    let [kind, rest @ ..] = bytes else { return };
    let built;
    let capture = match LINKS.get(usize::from(*kind)) {
        Some(link) => {
            built = frames(*link, rest);
            &built
        }
        None => rest,
    };
    for flags in [&["-vv", "-2"][..], &["--json", "-v"], &["--only", "trouble", "--topic", "*a*", "--check"]] {
        let args = Args::try_parse_from(["lbmdump"].iter().chain(flags).chain(&["-"])).expect("good arguments");
        let mut out = Vec::new();
        let _ = show_capture(&args, capture, &mut out);
        let text = std::str::from_utf8(&out).expect("text");
        if args.json {
            assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
        }
        // A name of a topic, at most 255 bytes in six characters each, may stand on every line of a packet.
        assert!(text.len() <= 16_384 + capture.len() * 2_048, "{} of {}", text.len(), capture.len());
    }
}

/// Link types that [`hostile`] gives to frames, by its first byte.
const LINKS: [u32; 6] = [1, 101, 113, 276, 0, 228];

/// A pcap file of frames, each behind its length in two bytes.
fn frames(link: u32, mut bytes: &[u8]) -> Vec<u8> {
    let mut file = [&0xA1B2_C3D4u32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 12], &link.to_le_bytes()].concat();
    while let [high, low, rest @ ..] = bytes {
        let (frame, rest) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(rest.len()));
        for field in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend_from_slice(&field.to_le_bytes());
        }
        file.extend_from_slice(frame);
        bytes = rest;
    }
    file
}

#[cfg(test)]
mod tests;
