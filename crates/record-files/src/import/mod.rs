//! A recording made of tables or lines.

mod csv;
mod lines;
mod sink;

use anyhow::{Context as _, anyhow};
use record_columns::{Assumed, FileForm, Row, TableReader};
use rwf::dictionary::Dictionary;
use sink::Sink;
use std::fs::File;
use std::io::BufReader;
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
}

impl InputForm {
    /// What a file is, by its first bytes and the ending of its name.
    ///
    /// # Errors
    /// A text for the user: the file cannot be read, or neither says it.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        let mut file = File::open(path)?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match (record_columns::form_of(&mut file)?, ending) {
            (Some(FileForm::Parquet), _) => Ok(Self::Parquet),
            (Some(FileForm::Arrow), _) => Ok(Self::Arrow),
            (None, "csv") => Ok(Self::Csv),
            (None, "json" | "jsonl" | "ndjson") => Ok(Self::Json),
            _ => Err(anyhow!("its first bytes and its name say no form: --as names it")),
        }
    }
}

/// Makes a recording in a folder that has none. Several files are tables, which are merged by their sequence numbers. Gives the number of records.
///
/// # Errors
/// A text for the user: a file cannot be read or is not what it is said to be, or the folder cannot be written.
pub fn import(
    folder: &Path,
    files: &[(&Path, InputForm)],
    dictionary: &Dictionary,
    assumed: &Assumed,
) -> anyhow::Result<u64> {
    let is_table = |(_, form): &&(&Path, InputForm)| matches!(form, InputForm::Parquet | InputForm::Arrow);
    let tables = files.iter().filter(is_table).count();
    if tables != files.len() && files.len() > 1 {
        return Err(anyhow!(
            "several files are tables, which are merged by their sequence numbers; of others import one at a time"
        ));
    }
    let mut sink = Sink::begin(folder, dictionary)?;
    match files {
        [(path, form @ (InputForm::Csv | InputForm::Json))] => {
            import_text(path, *form, dictionary, assumed, &mut sink).with_context(|| path.display().to_string())?;
        }
        tables => import_tables(tables, dictionary, assumed, &mut sink)?,
    }
    sink.finish()
}

fn import_text(
    path: &Path,
    form: InputForm,
    dictionary: &Dictionary,
    assumed: &Assumed,
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let input = BufReader::new(file);
    if form == InputForm::Csv {
        csv::import(input, length, dictionary, assumed, sink)
    } else {
        lines::import(input, length, dictionary, assumed, sink)
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
