//! `quoteway dump`: bytes as readable text.
//!
//! Takes the bytes of one direction of an RSSL connection, or of one RWF message; raw, or as hexadecimal text in any of the
//! usual layouts. What cannot be understood is shown as bytes, and the dump goes on behind it.

mod hex;
mod stream;

use clap::{Parser, ValueEnum};
use rwf::dictionary::Dictionary;
use rwf::text;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Shows messages as readable text.
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
}

const EXAMPLES: &str = "\
Examples:
  quoteway dump capture.bin
  quoteway dump --content message update.hex
  echo '00 0a 05 06 00 00 00 05 00 80' | quoteway dump";

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Content {
    /// RSSL frames if they are whole ones from end to end, else a message.
    Auto,
    /// What one side sent over an RSSL connection.
    Rssl,
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

/// Shows what the arguments name.
///
/// # Errors
/// A text for the user: a file cannot be read, or holds nothing.
pub fn run(args: &Args) -> Result<(), String> {
    let dictionary = load_dictionary(args.dictionary.as_deref())?;
    let standard_input = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &standard_input[..] } else { &args.files };
    for file in files {
        let named = |e| format!("{}: {e}", file.display());
        let mut input = Vec::new();
        if file.as_os_str() == "-" {
            std::io::stdin().lock().read_to_end(&mut input).map_err(named)?;
        } else {
            input = std::fs::read(file).map_err(named)?;
        }
        let text = show(&input, args, &dictionary).map_err(|e| format!("{}: {e}", file.display()))?;
        // A closed pipe (`| head`) is no failure.
        if std::io::stdout().lock().write_all(text.as_bytes()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The text of some input.
///
/// # Errors
/// A text for the user: there are no bytes in it.
pub fn show(input: &[u8], args: &Args, dictionary: &Dictionary) -> Result<String, String> {
    let mark = if args.from == Side::Client { "C>" } else { "S>" };
    let as_hex = match args.coding {
        Coding::Raw => false,
        Coding::Hex => true,
        Coding::Auto => hex::is_text(input),
    };
    let bytes = if as_hex { hex::parse(input, mark) } else { input.to_vec() };
    if bytes.is_empty() {
        return Err("holds no bytes".to_owned());
    }
    let as_stream = match args.content {
        Content::Rssl => true,
        Content::Message => false,
        Content::Auto => stream::is_whole_frames(&bytes),
    };
    let mut out = String::new();
    if as_stream {
        stream::show(&bytes, &mut out, &mut |message, out| write_message(message, args.bytes, dictionary, out));
    } else {
        write_message(&bytes, args.bytes, dictionary, &mut out);
    }
    Ok(out)
}

fn write_message(message: &[u8], with_bytes: bool, dictionary: &Dictionary, out: &mut String) {
    let _ = write!(out, "{}", text::message(message, Some(dictionary)));
    if with_bytes {
        let _ = write!(out, "{}", text::hex_dump(message));
    }
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
pub fn load_dictionary(folder: Option<&Path>) -> Result<Dictionary, String> {
    let Some(folder) = folder else { return Ok(Dictionary::builtin()) };
    let mut dictionary = Dictionary::new();
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    dictionary.load_fields("RDMFieldDictionary", &read("RDMFieldDictionary")?).map_err(|e| e.to_string())?;
    dictionary.load_enums("enumtype.def", &read("enumtype.def")?).map_err(|e| e.to_string())?;
    Ok(dictionary)
}

#[cfg(test)]
mod tests;
