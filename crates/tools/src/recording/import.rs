//! A recording made of tables, lines, captured sessions, or an exchange's file.

use crate::dump::load_dictionary;
use crate::recording::counted;
use anyhow::Context as _;
use clap::{Args as ClapArgs, ValueEnum};
use record_files::{Assumed, InputForm};
use std::path::PathBuf;

/// Sources of a recording.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    quoteway record import again tables/*.parquet\n  \
    quoteway record import again today.jsonl\n  \
    quoteway record import again today.csv --service FEED\n  \
    quoteway record import session consumer.pcapng\n  \
    quoteway record import session EmaTrace_4711.xml\n  \
    quoteway record import futures glbx-mdp3-20231225.mbo.dbn.zst --service CME\n  \
    quoteway replay again\n\n\
    Tables, lines of JSON and CSV are those of `quoteway record export`, or have columns of the same names: a Parquet file with time, item and BID will do. \
    Several tables are merged by their sequence numbers. Messages come again byte for byte where a table was written with --messages, and from lines of JSON \
    that have them as bytes; else with the same values. A service without directory and dictionaries in the files gets them.\n\n\
    A packet capture (pcap, pcapng, gzipped or not) has sessions of consumers, or of publishers, from their beginning: images, updates, statuses, directory and \
    dictionaries are recorded byte for byte at the time of the packet. An item that several sessions have is taken from the first one. Bytes that the capture \
    lacks are a gap. A trace of EMA or ETA for Java (XmlTraceToFile) gives the same, with times of whole seconds. A file of an exchange (Databento's DBN, a day of ITCH, a capture of IEX ...) is what `quoteway feed` serves of it, with the file's times. \
    What could not be taken is told.")]
pub(super) struct Args {
    /// Folder of the new recording
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Files to read: Parquet, Arrow IPC, CSV, lines of JSON, a packet capture, a trace of EMA or ETA for Java, an exchange's file such as DBN
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What the files are; without it told by their first bytes and names
    #[arg(long = "as", value_enum)]
    form: Option<Form>,
    /// Service of rows that name none
    #[arg(long, value_name = "NAME", default_value = "FEED")]
    service: String,
    /// Domain of rows that name none, by number
    #[arg(long, value_name = "NUMBER", default_value_t = 6)]
    domain: u8,
    /// Folder with `RDMFieldDictionary` and enumtype.def; without it the built-in dictionary names the fields
    #[arg(long, value_name = "FOLDER")]
    dictionary: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Apache Parquet.
    Parquet,
    /// An Apache Arrow IPC file.
    Arrow,
    /// A JSON object a line.
    Json,
    /// Values between commas, with a line of names.
    Csv,
    /// A packet capture with RSSL sessions.
    Capture,
    /// A trace of EMA or ETA for Java.
    Trace,
    /// An exchange's file: DBN, ITCH, a capture of IEX.
    Venue,
}

impl From<Form> for InputForm {
    fn from(form: Form) -> Self {
        match form {
            Form::Parquet => Self::Parquet,
            Form::Arrow => Self::Arrow,
            Form::Json => Self::Json,
            Form::Csv => Self::Csv,
            Form::Capture => Self::Capture,
            Form::Trace => Self::Trace,
            Form::Venue => Self::Venue,
        }
    }
}

/// Imports.
///
/// # Errors
/// A text for the user: a file cannot be read or is none of those, or the folder cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let dictionary = load_dictionary(args.dictionary.as_deref())?;
    let mut files = Vec::new();
    for path in &args.files {
        let named = args.form.map(InputForm::from);
        let form = named.map_or_else(|| InputForm::of(path), Ok).with_context(|| path.display().to_string())?;
        files.push((path.as_path(), form));
    }
    let assumed = Assumed { service: args.service.clone(), domain: args.domain };
    let done = record_files::import(&args.folder, &files, &dictionary, &assumed)?;
    for line in &done.left_out {
        eprintln!("left out: {}", net::plain::escaped(line));
    }
    eprintln!("{} in {}", counted(done.records, "record"), args.folder.display());
    Ok(())
}
