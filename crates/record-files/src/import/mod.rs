//! A recording made of tables or lines, of captured sessions, or of an exchange's file.

mod capture;
mod csv;
mod lines;
mod session;
mod sink;
mod trace;
mod venue;

use ::capture::gzip;
use anyhow::{Context as _, anyhow};
use record_columns::{Assumed, FileForm, Row, TableReader};
use rwf::dictionary::Dictionary;
use sink::Sink;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _};
use std::path::Path;

/// Kinds of files that become recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputForm {
    /// Apache Parquet.
    Parquet,
    /// An Apache Arrow IPC file.
    Arrow,
    /// A JSON object a line.
    Json,
    /// Values between commas, with a line of names.
    Csv,
    /// A packet capture (pcap, pcapng, gzipped or not) with RSSL sessions.
    Capture,
    /// A trace of EMA or ETA for Java (`XmlTraceToFile`).
    Trace,
    /// A file of an exchange's feed, such as Databento's DBN: what `quoteway feed` plays.
    Venue,
}

impl InputForm {
    /// What a file is, by its first bytes and the ending of its name.
    ///
    /// # Errors
    /// A text for the user: the file cannot be read, or neither says it.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        let mut file = File::open(path)?;
        match record_columns::form_of(&mut file)? {
            Some(FileForm::Parquet) => return Ok(Self::Parquet),
            Some(FileForm::Arrow) => return Ok(Self::Arrow),
            None => {}
        }
        if venue::is_one(path)? {
            return Ok(Self::Venue);
        }
        let head = first_bytes(file)?;
        if ::capture::is_capture(&head) {
            return Ok(Self::Capture);
        }
        if trace::is_one(&head) {
            return Ok(Self::Trace);
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending {
            "csv" => Ok(Self::Csv),
            "json" | "jsonl" | "ndjson" => Ok(Self::Json),
            _ => Err(anyhow!("its first bytes and its name say no form: --as names it")),
        }
    }
}

/// Bytes of a file that tell what it is.
const HEAD: u64 = 4_096;

/// The first bytes of a file, unpacked if it is gzipped.
fn first_bytes(mut file: File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.rewind()?;
    file.by_ref().take(HEAD).read_to_end(&mut head)?;
    if head.starts_with(&gzip::MAGIC) {
        head.clear();
        file.rewind()?;
        // What is damaged at its beginning is nothing that is known.
        let _ = gzip::Gunzip::new(BufReader::new(file)).take(HEAD).read_to_end(&mut head);
    }
    Ok(head)
}

/// A recording that was made of files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// Records that were made of what the files have.
    pub records: u64,
    /// What could not be taken of the files, in words.
    pub left_out: Vec<String>,
}

/// Makes a recording in a folder that has none. Several files are tables, which are merged by their sequence numbers.
///
/// # Errors
/// A text for the user: a file cannot be read or is not what it is said to be, or the folder cannot be written.
pub fn import(
    folder: &Path,
    files: &[(&Path, InputForm)],
    dictionary: &Dictionary,
    assumed: &Assumed,
) -> anyhow::Result<Imported> {
    let is_table = |(_, form): &&(&Path, InputForm)| matches!(form, InputForm::Parquet | InputForm::Arrow);
    let tables = files.iter().filter(is_table).count();
    if tables != files.len() && files.len() > 1 {
        return Err(anyhow!(
            "several files are tables, which are merged by their sequence numbers; of others import one at a time"
        ));
    }
    let mut sink = Sink::begin(folder, dictionary)?;
    let left_out = match files {
        [(path, form)] if !is_table(&&(*path, *form)) => {
            import_one(path, *form, dictionary, assumed, &mut sink).with_context(|| path.display().to_string())?
        }
        tables => {
            import_tables(tables, dictionary, assumed, &mut sink)?;
            Vec::new()
        }
    };
    Ok(Imported { records: sink.finish()?, left_out })
}

/// Imports what is no table. Gives what was left out.
fn import_one(
    path: &Path,
    form: InputForm,
    dictionary: &Dictionary,
    assumed: &Assumed,
    sink: &mut Sink<'_>,
) -> anyhow::Result<Vec<String>> {
    if form == InputForm::Venue {
        return venue::import(path, assumed, sink);
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    match form {
        InputForm::Capture => Ok(capture::import(file, length, dictionary, sink)?.lines()),
        InputForm::Trace => trace::import(BufReader::new(file), length, dictionary, sink),
        InputForm::Csv => csv::import(BufReader::new(file), length, dictionary, assumed, sink).map(|()| Vec::new()),
        _ => lines::import(BufReader::new(file), length, dictionary, assumed, sink).map(|()| Vec::new()),
    }
}

/// A table, and the row that comes next.
struct Source<'p> {
    path: &'p Path,
    reader: TableReader,
    next: Row,
}

impl Source<'_> {
    /// The order of rows: by sequence numbers where there are some, else by time.
    fn key(&self) -> (u64, u64) {
        (self.next.sequence.unwrap_or(0), self.next.time)
    }
}

fn import_tables(
    files: &[(&Path, InputForm)],
    dictionary: &Dictionary,
    assumed: &Assumed,
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    let mut sources = Vec::new();
    for (path, form) in files {
        let of = || path.display().to_string();
        let file = File::open(path).with_context(of)?;
        let reader = match form {
            InputForm::Arrow => TableReader::arrow(file, dictionary, assumed.clone()),
            _ => TableReader::parquet(file, dictionary, assumed.clone()),
        };
        let mut reader = reader.with_context(of)?;
        if let Some(next) = reader.next_row().with_context(of)? {
            sources.push(Source { path, reader, next });
        }
    }
    let mut last_gap = None;
    while let Some(at) = (0..sources.len()).min_by_key(|at| sources[*at].key()) {
        let source = &mut sources[at];
        let of = || source.path.display().to_string();
        // A gap is in all tables.
        let gap = source.next.item.is_none().then_some((source.next.sequence, source.next.time));
        if gap.is_none() || gap != last_gap {
            sink.row(&source.next, source.reader.share())?;
        }
        last_gap = gap.or(last_gap);
        match source.reader.next_row().with_context(of)? {
            Some(next) => source.next = next,
            None => drop(sources.remove(at)),
        }
    }
    Ok(())
}
