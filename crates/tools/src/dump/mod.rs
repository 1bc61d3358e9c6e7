//! `quoteway dump`: bytes as readable text.
//!
//! Takes the bytes of one direction of an RSSL connection, of one RWF message (raw, or as hexadecimal text in any of the
//! usual layouts), or a packet capture with whole sessions; or, the other way round, messages as JSON. What cannot be
//! understood is shown as bytes, and the dump goes on behind it.

mod capture;
mod hex;
mod marketfeed;
mod sheet;
mod stream;

use ::capture::gzip;
use anyhow::anyhow;
use clap::{Parser, ValueEnum};
use feed::lines;
use rwf::dictionary::Dictionary;
use rwf::json::Settings;
use rwf_text as text;
use sheet::Sheet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Shows messages as readable text, JSON or hexadecimal digits, and makes messages of JSON.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "dump", after_help = EXAMPLES)]
pub struct Args {
    /// Files to show; `-`, or none, is standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// What the bytes are
    #[arg(long, value_enum, default_value_t = Content::Auto)]
    pub content: Content,

    /// How they are written
    #[arg(long, value_enum, default_value_t = Coding::Auto)]
    pub coding: Coding,

    /// Of a transcript that holds both directions, show what this side sent
    #[arg(long, value_enum, default_value_t = Side::Server)]
    pub from: Side,

    /// Folder with RDMFieldDictionary and enumtype.def; without it the built-in dictionary names the fields
    #[arg(long, value_name = "FOLDER")]
    pub dictionary: Option<PathBuf>,

    /// Show the bytes of every message as well
    #[arg(long)]
    pub bytes: bool,

    /// What to write: text for people, JSON (a message a line), hexadecimal digits (a message a line), or raw bytes
    #[arg(long, value_enum, value_name = "FORM")]
    pub to: Option<Form>,

    /// The same as --to json: messages as the WebSocket protocol writes them, one a line
    #[arg(long, conflicts_with = "to")]
    pub json: bool,

    /// The input is raw Marketfeed, messages from 0x1C to 0x1C; as JSON it is shown as the RWF messages it becomes
    #[arg(long, conflicts_with_all = ["content", "coding", "from_json"])]
    pub marketfeed: bool,

    /// The input is JSON: one message, an array, or lines of them; --to says what becomes of it, hexadecimal if nothing does
    #[arg(long, conflicts_with_all = ["content", "coding"])]
    pub from_json: bool,

    /// JSON: write enumerations as their display rather than their number, and read displays
    #[arg(long)]
    pub expand_enums: bool,

    /// JSON: write members also where the SDK leaves them out, so that the text leads back to the same message
    #[arg(long)]
    pub explicit: bool,

    /// JSON: members and fields that are not known are errors; without it they are skipped
    #[arg(long)]
    pub strict: bool,

    /// JSON: the service of keys that name none
    #[arg(long, value_name = "ID")]
    pub default_service: Option<u16>,

    /// Of a capture, show the TCP connections of this port; without it those that begin with the handshake of RSSL
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

const EXAMPLES: &str = "\
Examples:
  quoteway dump capture.bin
  quoteway dump --content message update.hex
  echo '00 08 05 06 00 00 00 05 00 80' | quoteway dump
  tcpdump -i any -w session.pcap port 14002             (record a session)
  quoteway dump session.pcap                            (both directions, in order)
  quoteway dump --json session.pcap > session.jsonl     (which sink-driven-src -Q plays)
  quoteway dump --marketfeed old.mf                     (raw Marketfeed)
  echo '{\"ID\":5,\"Type\":\"Update\",\"Fields\":{\"BID\":1.25}}' | quoteway dump --from-json";

/// The kind of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Content {
    /// RSSL frames if they are whole ones from end to end, else a message.
    Auto,
    /// The bytes that one side sent over an RSSL connection.
    Rssl,
    /// A packet capture (pcap, pcapng; gzipped or not).
    Capture,
    /// One RWF message.
    Message,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Coding {
    /// Hexadecimal if it is text, else raw.
    Auto,
    /// As they are.
    Raw,
    /// Two hexadecimal digits a byte; offsets, text columns and comments are left out.
    Hex,
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// Lines marked `C>`.
    Client,
    /// Lines marked `S>`.
    Server,
}

/// The output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// A message a line, as the WebSocket protocol writes it; of a capture with time and ends around it.
    Json,
    /// A message a line, two digits a byte.
    Hex,
    /// The messages' bytes, end to end.
    Raw,
}

impl Args {
    fn form(&self) -> Form {
        match self.to {
            Some(form) => form,
            None if self.json => Form::Json,
            None if self.from_json => Form::Hex,
            None => Form::Text,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            default_service_id: self.default_service,
            expand_enums: self.expand_enums,
            enum_displays: self.expand_enums,
            unknown_members: self.strict,
            unknown_fields: self.strict,
            explicit: self.explicit,
        }
    }
}

/// Shows what the arguments name.
///
/// # Errors
/// A text for the user: a file cannot be read, holds nothing, was not read whole, or holds a message that has no JSON.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let dictionary = load_dictionary(args.dictionary.as_deref())?;
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    let mut failed = 0;
    for file in files {
        let named = |e: std::io::Error| anyhow!("{}: {e}", file.display());
        let mut input = Vec::new();
        if file.as_os_str() == "-" {
            std::io::stdin().lock().read_to_end(&mut input).map_err(named)?;
        } else {
            input = std::fs::read(file).map_err(named)?;
        }
        let (output, problems) = show(&input, args, &dictionary).map_err(|e| anyhow!("{}: {e}", file.display()))?;
        failed += problems.len();
        for problem in problems {
            eprintln!("{}: {problem}", file.display());
        }
        let mut out = std::io::stdout().lock();
        if let Err(error) = out.write_all(&output).and_then(|()| out.flush()) {
            return super::output::ended(&error);
        }
    }
    if failed == 0 { Ok(()) } else { Err(anyhow!("not all could be shown: see the {failed} lines above")) }
}

/// Some input in the form asked for; and what could not be said in it.
///
/// # Errors
/// A text for the user: there are no bytes in it, or it is not what it is said to be.
pub fn show(input: &[u8], args: &Args, dictionary: &Dictionary) -> anyhow::Result<(Vec<u8>, Vec<String>)> {
    let mut sheet = Sheet::new(args.form(), args.bytes, dictionary, args.settings());
    let content;
    let input = if (args.marketfeed || args.from_json) && input.starts_with(&gzip::MAGIC) {
        content = unpacked(input, &mut sheet)?;
        &content
    } else {
        input
    };
    if args.marketfeed {
        let notes = marketfeed::show(input, args.form(), dictionary, &mut sheet)?;
        let (mut output, mut problems) = sheet.finish();
        if args.form() == Form::Text {
            output.extend_from_slice(notes.as_bytes());
        } else {
            problems.extend(notes.lines().map(str::to_owned));
        }
        return Ok((output, problems));
    }
    if args.from_json {
        let text = str::from_utf8(input).map_err(|e| anyhow!("is no text: {e}"))?;
        let entries = lines::read(text, sheet.converter())?;
        if entries.is_empty() {
            return Err(anyhow!("holds no message"));
        }
        for entry in &entries {
            sheet.message(&entry.message);
        }
    } else {
        show_bytes(input, args, &mut sheet)?;
    }
    Ok(sheet.finish())
}

/// Shows bytes, unpacked if they are gzipped: all members, and a word about what follows them.
fn show_bytes(input: &[u8], args: &Args, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let is_wanted = |head: &[u8]| match args.content {
        Content::Capture => true,
        Content::Auto => ::capture::is_capture(head),
        Content::Rssl | Content::Message => false,
    };
    if !input.starts_with(&gzip::MAGIC) {
        return if is_wanted(input) { capture::show(input, args.port, sheet) } else { show_plain(input, args, sheet) };
    }
    // A capture is unpacked as it is read; anything else is no longer than people can look through.
    let mut head = Vec::new();
    let _ = gzip::Gunzip::new(input).take(4).read_to_end(&mut head);
    if is_wanted(&head) {
        capture::show(input, args.port, sheet)
    } else {
        show_plain(&unpacked(input, sheet)?, args, sheet)
    }
}

/// The content of gzip; what is wrong with it is a problem of the sheet.
fn unpacked(input: &[u8], sheet: &mut Sheet<'_>) -> anyhow::Result<Vec<u8>> {
    let (mut unpacked, mut content) = (gzip::Gunzip::new(input), Vec::new());
    if let Err(error) = unpacked.read_to_end(&mut content) {
        if content.is_empty() {
            return Err(anyhow!("is gzipped and damaged: {error}"));
        }
        sheet.problem(format!("the gzip data is damaged after {} bytes of content: {error}", content.len()));
    }
    match unpacked.ending() {
        gzip::Ending::Whole => {}
        gzip::Ending::Cut => sheet.problem("the gzip data is cut off at its end".to_owned()),
        gzip::Ending::Garbage(bytes) => {
            sheet.problem(format!("{bytes} bytes behind the end of the gzip data are no gzip and were not read"));
        }
    }
    Ok(content)
}

fn show_plain(input: &[u8], args: &Args, sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let mark = if args.from == Side::Client { "C>" } else { "S>" };
    let as_hex = match args.coding {
        Coding::Raw => false,
        Coding::Hex => true,
        Coding::Auto => hex::is_text(input),
    };
    let bytes = if as_hex { hex::parse(input, mark) } else { input.to_vec() };
    if bytes.is_empty() {
        return Err(anyhow!("holds no bytes"));
    }
    let as_stream = match args.content {
        Content::Rssl | Content::Capture => true,
        Content::Message => false,
        Content::Auto => stream::is_whole_frames(&bytes),
    };
    if as_stream {
        stream::show(&bytes, sheet);
    } else {
        sheet.message(&bytes);
    }
    Ok(())
}

/// A message for a tool's trace: level 0 is its first line, above that all of it.
pub fn message_text(message: &[u8], level: u8, dictionary: &Dictionary) -> String {
    let text = text::message(message, Some(dictionary)).to_string();
    if level == 0 { text.lines().next().unwrap_or_default().to_owned() } else { text }
}

/// The dictionary of a folder, or the built-in one.
///
/// # Errors
/// A text for the user: a file is missing or malformed.
pub fn load_dictionary(folder: Option<&Path>) -> anyhow::Result<Dictionary> {
    let Some(folder) = folder else { return Ok(Dictionary::builtin()) };
    let mut dictionary = Dictionary::new();
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|e| anyhow!("{}: {e}", path.display()))
    };
    dictionary.load_fields("RDMFieldDictionary", &read("RDMFieldDictionary")?)?;
    dictionary.load_enums("enumtype.def", &read("enumtype.def")?)?;
    Ok(dictionary)
}

#[cfg(test)]
mod tests;
