//! The records of a recording as tables of columns: Parquet or Arrow, a file a domain or a dataset in parts.

use crate::selected::{Failure, Wanted, each};
use crate::when;
use record::{Entry, Kind, Recording, Store};
use record_columns::{Batch, Error, FileForm, Learned, SchemaRef, Surprise, Table, TableConfig, TableWriter};
use rwf::dictionary::Dictionary;
use rwf::msg::Domain;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Records that are seen before it is tried to write: mostly they have all fields.
const SAMPLE: u64 = 1 << 17;
/// Batches that wait to be written.
const WAITING: usize = 2;
/// Nanoseconds.
const DAY: u64 = 86_400_000_000_000;

/// Where tables are written, and how.
#[derive(Debug)]
pub struct Tables {
    /// Folder of the files; it is made.
    pub folder: PathBuf,
    /// Of what kind the files are.
    pub form: FileForm,
    /// Columns and parts.
    pub config: TableConfig,
    /// Name of the file of each part, without its ending, where there are parts.
    pub part: String,
}

/// The name of a part's file that no other is written beside.
pub const ONLY_PART: &str = "part-0";

/// Files that were written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Their paths.
    pub files: Vec<PathBuf>,
    /// Rows of all of them.
    pub rows: u64,
    /// Values that no column could hold, which are in `message` alone.
    pub unfit: u64,
}

/// The part that a file is of. Without parts a domain alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    domain: u8,
    day: Option<u64>,
    service: Option<Box<str>>,
}

/// What the thread is told that writes the files.
enum Order {
    Begin(Part, SchemaRef),
    Batch(Part, Batch),
    End(Part),
    /// All that was begun is to be kept.
    Keep,
}

/// Writes the wanted records as tables, unless `stop` says so meanwhile.
///
/// # Errors
/// The recording cannot be read, the files cannot be written, or it was stopped; then none of this call is left.
pub fn write_tables<S: Store>(
    recording: &Recording<S>,
    wanted: &Wanted,
    dictionary: &Dictionary,
    to: &Tables,
    stop: &dyn Fn() -> bool,
) -> Result<Written, Failure> {
    let mut learned = Learned::new();
    let (mut count, mut is_final) = (0, true);
    let work = Work { recording, wanted, dictionary, to, stop };
    each(recording, wanted, "looked at", stop, &mut |entry| {
        learned.note(entry, dictionary);
        count += 1;
        is_final = count < SAMPLE;
        Ok(if is_final { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    if let Some(written) = attempt(&work, &mut learned, is_final)? {
        return Ok(written);
    }
    // There was something new behind the sample, and the attempt has looked at everything: now it fits.
    let written = attempt(&work, &mut learned, true)?;
    written.ok_or_else(|| io::Error::other("the recording has changed while it was read").into())
}

/// What is written of which recording, and how.
struct Work<'a, S> {
    recording: &'a Recording<S>,
    wanted: &'a Wanted,
    dictionary: &'a Dictionary,
    to: &'a Tables,
    stop: &'a dyn Fn() -> bool,
}

/// Writes all files; `None` if a record did not fit what was seen before: then all of them were seen.
fn attempt<S: Store>(work: &Work<'_, S>, learned: &mut Learned, is_final: bool) -> Result<Option<Written>, Failure> {
    let Work { recording, wanted, dictionary, to, stop } = *work;
    fs::create_dir_all(&to.folder)?;
    let (orders, received) = sync_channel(WAITING);
    thread::scope(|scope| {
        let files = scope.spawn(move || write_files(&received, to));
        let mut rows = Rows { to, dictionary, tables: BTreeMap::new(), orders, count: 0, unfit: 0 };
        let mut is_new = false;
        let mut failed = None;
        let seen = learned.clone();
        let ended = each(recording, wanted, "written", stop, &mut |entry| {
            if !is_new {
                match rows.push(entry, &seen, is_final) {
                    Ok(()) => return Ok(ControlFlow::Continue(())),
                    Err(Refused::Surprise) => is_new = true,
                    Err(Refused::Failed(failure)) => {
                        failed = Some(failure);
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            learned.note(entry, dictionary);
            Ok(ControlFlow::Continue(()))
        });
        let finished = if is_new || ended.is_err() || failed.is_some() { Ok(()) } else { rows.finish() };
        let (count, unfit) = (rows.count, rows.unfit);
        drop(rows);
        // Why the files cannot be written goes before what came of that.
        let files = files.join().unwrap_or_else(|_| Err(io::Error::other("writing has failed").into()))?;
        ended?;
        if let Some(failure) = failed {
            return Err(failure.into());
        }
        finished?;
        Ok(files.filter(|_| !is_new).map(|files| Written { files, rows: count, unfit }))
    })
}

/// Why a record is no row.
enum Refused {
    Surprise,
    Failed(Error),
}

impl From<Surprise> for Refused {
    fn from(_: Surprise) -> Self {
        Self::Surprise
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Tables that grow.
struct Rows<'a> {
    to: &'a Tables,
    dictionary: &'a Dictionary,
    tables: BTreeMap<Part, Table>,
    orders: SyncSender<Order>,
    count: u64,
    unfit: u64,
}

impl Rows<'_> {
    fn push(&mut self, entry: &Entry<'_>, learned: &Learned, is_final: bool) -> Result<(), Refused> {
        let day = self.to.config.by_date.then_some(entry.record.time / DAY);
        if let Some(day) = day {
            self.end_before(day)?;
        }
        let service = |service: &str| self.to.config.by_service.then(|| service.into());
        match entry.item {
            Some(item) => {
                let part = Part { domain: item.domain, day, service: service(&item.service) };
                self.push_to(part, entry, learned, is_final)
            }
            // A gap is one of all items.
            None if entry.record.kind == Kind::Gap => {
                let parts: BTreeSet<Part> =
                    learned.items().map(|(domain, name)| Part { domain, day, service: service(name) }).collect();
                parts.into_iter().try_for_each(|part| self.push_to(part, entry, learned, is_final))
            }
            None => Err(Error::Column {
                column: "item".to_owned(),
                problem: format!("record {} is of no item", entry.record.sequence),
            }
            .into()),
        }
    }

    fn push_to(&mut self, part: Part, entry: &Entry<'_>, learned: &Learned, is_final: bool) -> Result<(), Refused> {
        let Some(table) = self.tables.get_mut(&part) else {
            let table = Table::new(part.domain, learned, self.dictionary, self.to.config, is_final);
            self.send(Order::Begin(part.clone(), table.schema()))?;
            self.tables.insert(part.clone(), table);
            return self.push_to(part, entry, learned, is_final);
        };
        table.push(entry)?;
        self.count += 1;
        if table.is_full(self.to.form.batch_rows()) {
            let batch = table.take_batch()?;
            self.send(Order::Batch(part, batch))?;
        }
        Ok(())
    }

    /// Ends the files of days that are over: time does not go back in a recording.
    fn end_before(&mut self, day: u64) -> Result<(), Error> {
        while let Some((part, _)) = self.tables.iter().find(|(part, _)| part.day < Some(day)) {
            let part = part.clone();
            if let Some(table) = self.tables.remove(&part) {
                self.end(part, table)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, part: Part, mut table: Table) -> Result<(), Error> {
        self.unfit += table.unfit();
        if table.rows() > 0 {
            let batch = table.take_batch()?;
            self.send(Order::Batch(part.clone(), batch))?;
        }
        self.send(Order::End(part))
    }

    fn finish(&mut self) -> Result<(), Error> {
        while let Some((part, table)) = self.tables.pop_first() {
            self.end(part, table)?;
        }
        self.send(Order::Keep)
    }

    /// The thread that writes has gone only where it has failed; its failure is told then.
    fn send(&self, order: Order) -> Result<(), Error> {
        self.orders.send(order).map_err(|_| Error::Io(io::Error::other("writing has failed")))
    }
}

/// File that grows under a name of its own, so that nobody takes it for a whole one.
struct Growing {
    writer: TableWriter<BufWriter<File>>,
    path: PathBuf,
}

/// Writes files as ordered; `None` if they were not to be kept. Nothing of those is left.
fn write_files(orders: &Receiver<Order>, to: &Tables) -> Result<Option<Vec<PathBuf>>, Failure> {
    let mut growing = BTreeMap::new();
    let mut ended = Vec::new();
    let kept = follow(orders, to, &mut growing, &mut ended);
    let names = growing.into_values().map(|file: Growing| file.path).chain(ended);
    if !matches!(kept, Ok(true)) {
        for path in names {
            // There may be none yet, and where it cannot be removed the failure before is the one to tell.
            let _ = fs::remove_file(unfinished(&path));
        }
        return kept.map(|_| None);
    }
    let mut files = Vec::new();
    for path in names {
        fs::rename(unfinished(&path), &path).map_err(|e| at(&path, &e))?;
        files.push(path);
    }
    Ok(Some(files))
}

fn follow(
    orders: &Receiver<Order>,
    to: &Tables,
    growing: &mut BTreeMap<Part, Growing>,
    ended: &mut Vec<PathBuf>,
) -> Result<bool, Failure> {
    let gone = || Failure::Write(io::Error::other("a table was not begun"));
    for order in orders {
        match order {
            Order::Begin(part, schema) => {
                let path = to.folder.join(path_of(&part, to.form, &to.part));
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder).map_err(|e| at(folder, &e))?;
                }
                let file = net::output::create(&unfinished(&path)).map_err(|e| at(&path, &e))?;
                growing
                    .insert(part, Growing { writer: TableWriter::new(to.form, BufWriter::new(file), schema)?, path });
            }
            Order::Batch(part, batch) => growing.get_mut(&part).ok_or_else(gone)?.writer.write(&batch)?,
            Order::End(part) => {
                let Growing { writer, path } = growing.remove(&part).ok_or_else(gone)?;
                ended.push(path);
                let file = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.sync_all()?;
            }
            Order::Keep => return Ok(true),
        }
    }
    Ok(false)
}

fn at(path: &Path, error: &io::Error) -> Failure {
    Failure::Write(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// Name of a part's file below the folder: `MARKET_PRICE.parquet`, or `MARKET_PRICE/date=2026-11-27/service=FEED/part-0.parquet`.
fn path_of(part: &Part, form: FileForm, name: &str) -> PathBuf {
    let domain = Domain(part.domain).name().map_or_else(|| format!("DOMAIN_{}", part.domain), str::to_owned);
    let ending = form.ending();
    if part.day.is_none() && part.service.is_none() {
        return format!("{domain}.{ending}").into();
    }
    let mut path = domain;
    if let Some(day) = part.day {
        let _ = write!(path, "/date={}", &when::text(day * DAY)[..10]);
    }
    if let Some(service) = &part.service {
        let _ = write!(path, "/service={}", escaped(service));
    }
    format!("{path}/{name}.{ending}").into()
}

/// A name as Hive writes it in a path: letters, digits and a few others as they are, all else as %XX.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') {
            out.push(byte as char);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    if out.is_empty() { "__HIVE_DEFAULT_PARTITION__".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Clocks, Item, Journal, JournalConfig, Memory};
    use record_columns::{Assumed, Row, TableReader};
    use rwf::msg::UpdateMsg;
    use rwf::wire::Writer;
    use rwf::{DataType, EncodeError, FieldListEncoder, Real, RealHint};

    const BID: i16 = 22;
    const ASK: i16 = 25;
    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 1_795_789_800 * SECOND;

    fn update(fid: i16, real: Real) -> Vec<u8> {
        let mut buffer = [0; 200];
        let mut w = Writer::new(&mut buffer);
        let mut encode = || -> Result<(), EncodeError> {
            let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
            update.encode_header(&mut w)?;
            let mut list = FieldListEncoder::begin(&mut w)?;
            list.real(fid, real)?;
            list.finish()
        };
        encode().expect("room");
        w.written().to_vec()
    }

    /// Updates of two services, `step` apart, of whole numbers; the last has what none before had.
    fn recorded(count: u64, step: u64, last: &[u8]) -> Recording<Memory> {
        let mut journal = Journal::open(Memory::default(), JournalConfig::default(), &mut Vec::new()).expect("memory");
        let items = ["FEED", "A B/C"]
            .map(|service| journal.item(Item { service: service.into(), domain: 6, name: "IBM.N".into() }));
        let whole = update(BID, Real::new(7, RealHint::EXPONENT0));
        for at in 0..count {
            let clocks = Clocks { wall: START + at * step, mono: at * step, source: None };
            let message = if at + 1 == count { last } else { &whole };
            journal.append(Kind::Update, Some(items[at as usize % 2]), clocks, message);
        }
        let wall = START + count * step;
        journal.overflow(3, 9, Clocks { wall, mono: count * step, source: None });
        journal.end();
        Recording::open(journal.store().clone()).expect("a recording")
    }

    const ALL: Wanted = Wanted { from: 0, to: u64::MAX, patterns: Vec::new(), domains: Vec::new() };

    fn written(recording: &Recording<Memory>, folder: &Path, config: TableConfig) -> Written {
        let to = Tables { folder: folder.to_owned(), form: FileForm::Parquet, config, part: ONLY_PART.to_owned() };
        write_tables(recording, &ALL, &Dictionary::builtin(), &to, &|| false).expect("written")
    }

    fn rows(file: &Path) -> Vec<Row> {
        let assumed = Assumed { service: "X".to_owned(), domain: 6 };
        let file = File::open(file).expect("a file");
        let mut reader = TableReader::parquet(file, &Dictionary::builtin(), assumed).expect("a table");
        std::iter::from_fn(|| reader.next_row().expect("rows")).collect()
    }

    #[test]
    fn what_comes_behind_the_sample_has_its_column_all_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        for last in [update(BID, Real::new(5, RealHint::EXPONENT_2)), update(ASK, Real::new(5, RealHint::EXPONENT_2))] {
            let recording = recorded(SAMPLE + 2, 1_000, &last);
            let written = written(&recording, folder.path(), TableConfig::default());
            assert_eq!((written.files.len(), written.rows, written.unfit), (1, SAMPLE + 3, 0));
            assert_eq!(written.files, [folder.path().join("MARKET_PRICE.parquet")]);
            let rows = rows(&written.files[0]);
            assert_eq!((rows.len() as u64, &rows[rows.len() - 2].body), (SAMPLE + 3, &reread(&last)));
            assert!(rows.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing unfinished is left");
    }

    /// The message as a table makes it again.
    fn reread(message: &[u8]) -> Vec<u8> {
        let mut again = message.to_vec();
        rwf::peek::set_stream_id(&mut again, 1);
        again
    }

    #[test]
    fn parts_are_of_a_day_and_a_service() {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = recorded(6, 4 * 3600 * SECOND, &update(BID, Real::new(5, RealHint::EXPONENT_2)));
        let config = TableConfig { by_date: true, by_service: true, scale: 4, ..TableConfig::default() };
        let mut written = written(&recording, folder.path(), config);
        written.files.sort_unstable();
        let names: Vec<_> = written.files.iter().map(|file| file.strip_prefix(folder.path()).expect("below")).collect();
        let name = |day: &str, service: &str| {
            PathBuf::from(format!("MARKET_PRICE/date={day}/service={service}/part-0.parquet"))
        };
        let days = ["2026-11-27", "2026-11-28"];
        let expected: Vec<PathBuf> =
            days.iter().flat_map(|day| ["A%20B%2FC", "FEED"].map(|service| name(day, service))).collect();
        assert_eq!(names, expected);
        // From 14:30 on, each four hours: three on the first day; the gap is of both services.
        let counts: Vec<usize> = written.files.iter().map(|file| rows(file).len()).collect();
        assert_eq!((counts, written.rows), (vec![1, 2, 3, 2], 8));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = folder.path().join("MARKET_PRICE.parquet.unfinished");
        fs::create_dir(&taken).expect("a folder");
        let recording = recorded(3, 1, &update(BID, Real::default()));
        let to = Tables {
            folder: folder.path().to_owned(),
            form: FileForm::Arrow,
            config: TableConfig::default(),
            part: ONLY_PART.to_owned(),
        };
        assert!(write_tables(&recording, &ALL, &Dictionary::builtin(), &to, &|| false).is_ok(), "of another form");
        let to = Tables { form: FileForm::Parquet, ..to };
        match write_tables(&recording, &ALL, &Dictionary::builtin(), &to, &|| false) {
            Err(Failure::Write(error)) => assert!(error.to_string().contains("MARKET_PRICE.parquet"), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}
