//! The file of the persistent cache: a table of records in a `redb` database, each with a check value of its own.
//!
//! A key is the service's name behind its length (two bytes, little endian) and the item's key; a value is a check value and the time when
//! the item was published last (eight bytes each, little endian; nanoseconds since 1970) and the image's parts.

use std::fs;
use std::hash::Hasher as _;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, StorageError, TableDefinition,
};
use siphasher::sip::SipHasher13;

/// The table's name has the version of its content: a file of another one is empty to us.
const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records-1");
const FILE: &str = "records.redb";
/// Memory that the database may use for pages.
const PAGES: usize = 16 << 20;
/// Check value and time.
const HEAD: usize = 16;

/// Changes that are written together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    changes: Vec<(Range<usize>, Option<Range<usize>>)>,
    puts: u64,
}

impl Batch {
    /// A record is as this says.
    pub(super) fn put(&mut self, service: &str, key: &[u8], parts: &[u8], at: u64) {
        let key = self.key(service, key);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&check(&self.bytes[key.clone()], at, parts).to_le_bytes());
        self.bytes.extend_from_slice(&at.to_le_bytes());
        self.bytes.extend_from_slice(parts);
        self.changes.push((key, Some(start..self.bytes.len())));
        self.puts += 1;
    }

    /// A record is no more.
    pub(super) fn delete(&mut self, service: &str, key: &[u8]) {
        let key = self.key(service, key);
        self.changes.push((key, None));
    }

    fn key(&mut self, service: &str, key: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&(service.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(service.as_bytes());
        self.bytes.extend_from_slice(key);
        start..self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Records that are written.
    pub(super) fn puts(&self) -> u64 {
        self.puts
    }

    /// Records that are deleted.
    pub(super) fn deletes(&self) -> u64 {
        self.changes.len() as u64 - self.puts
    }
}

/// Tells a record from one whose bytes a disk has changed.
fn check(key: &[u8], at: u64, parts: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(key);
    hasher.write_u64(at);
    hasher.write(parts);
    hasher.finish()
}

/// Service, key, time and parts of a record; `None` if it is not as it was written.
fn read<'a>(key: &'a [u8], value: &'a [u8]) -> Option<(&'a str, &'a [u8], u64, &'a [u8])> {
    let (head, parts) = value.split_at_checked(HEAD)?;
    let (sum, at) = head.split_at(8);
    let (sum, at) = (u64::from_le_bytes(sum.try_into().ok()?), u64::from_le_bytes(at.try_into().ok()?));
    let (length, rest) = key.split_first_chunk::<2>()?;
    let (service, item) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    (check(key, at, parts) == sum).then_some((std::str::from_utf8(service).ok()?, item, at, parts))
}

/// The open file.
pub(super) struct Store {
    path: PathBuf,
    /// `None` between an error and the next try.
    database: Option<Database>,
}

impl Store {
    /// Opens the file in a folder, or makes both. One that is no database, or is damaged, is put aside: what it had comes again from the
    /// providers.
    ///
    /// # Errors
    /// Folder or file cannot be opened, or another process has the file; the message names it.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let naming = |what: &Path, e: &io::Error| {
            io::Error::new(e.kind(), format!("the persistent cache {} cannot be opened: {e}", what.display()))
        };
        fs::create_dir_all(folder).map_err(|e| naming(folder, &e))?;
        let path = folder.join(FILE);
        let database = match open(&path) {
            Ok(database) => database,
            Err(Fault::Ours(e)) => return Err(naming(&path, &e)),
            Err(Fault::Damaged(why)) => {
                let aside = put_aside(&path).map_err(|e| naming(&path, &e))?;
                tracing::error!(
                    "the persistent cache {} cannot be read ({why}): it is put aside as {}, and one without images begins",
                    path.display(),
                    aside.display()
                );
                open(&path).map_err(|fault| naming(&path, &fault.into_io()))?
            }
        };
        Ok(Self { path, database: Some(database) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file anew after an error.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.database = None;
        self.database = Some(open(&self.path).map_err(Fault::into_io)?);
        Ok(())
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or_else(|| redb::Error::Io(io::Error::other("it is not open")))
    }

    /// Gives each record, the oldest first: service, key, parts, and when it was published last. One that is not as it was written is left out.
    ///
    /// # Errors
    /// The file cannot be read any further.
    pub(super) fn each(&self, mut each: impl FnMut(&str, &[u8], &[u8], u64)) -> Result<(), redb::Error> {
        let reading = self.database()?.begin_read()?;
        let table = match reading.open_table(RECORDS) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let mut order: Vec<(u64, Box<[u8]>)> = Vec::new();
        let mut damaged = 0;
        for record in table.iter()? {
            let (key, value) = record?;
            match read(key.value(), value.value()) {
                Some((.., at, _)) => order.push((at, key.value().into())),
                None => damaged += 1,
            }
        }
        if damaged > 0 {
            tracing::warn!("{damaged} records of {} are not as they were written", self.path.display());
        }
        order.sort_unstable();
        for (_, key) in order {
            let Some(value) = table.get(&key[..])? else { continue };
            if let Some((service, item, at, parts)) = read(&key, value.value()) {
                each(service, item, parts, at);
            }
        }
        Ok(())
    }

    /// Writes batches as one commit, which is on the disk when this returns.
    ///
    /// # Errors
    /// Nothing was written.
    pub(super) fn write<'a>(&self, batches: impl IntoIterator<Item = &'a Batch>) -> Result<(), redb::Error> {
        let writing = self.database()?.begin_write()?;
        {
            let mut table = writing.open_table(RECORDS)?;
            for batch in batches {
                for (key, value) in &batch.changes {
                    let key = &batch.bytes[key.clone()];
                    match value {
                        Some(value) => drop(table.insert(key, &batch.bytes[value.clone()])?),
                        None => drop(table.remove(key)?),
                    }
                }
            }
        }
        writing.commit()?;
        Ok(())
    }
}

/// Why a file cannot be opened.
enum Fault {
    /// The file is not what was written.
    Damaged(String),
    /// The file may be good.
    Ours(io::Error),
}

impl Fault {
    fn into_io(self) -> io::Error {
        match self {
            Self::Damaged(why) => io::Error::new(io::ErrorKind::InvalidData, why),
            Self::Ours(e) => e,
        }
    }
}

fn open(path: &Path) -> Result<Database, Fault> {
    let file = net::output::keep(path).map_err(Fault::Ours)?;
    // A file that something else has written may lead the database astray, and must not end the server.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let file = FileBackend::new(file)?;
        Builder::new().set_cache_size(PAGES).set_check_integrity_on_open(true).create_with_backend(file)
    }));
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => {
            Err(Fault::Ours(io::Error::new(io::ErrorKind::ResourceBusy, "another process has it open")))
        }
        Ok(Err(DatabaseError::Storage(StorageError::Io(e)))) if !is_of_content(&e) => Err(Fault::Ours(e)),
        Ok(Err(e)) => Err(Fault::Damaged(e.to_string())),
        Err(_) => Err(Fault::Damaged("its content contradicts itself".to_owned())),
    }
}

/// An error of reading that says what is in the file, and not that it cannot be read.
fn is_of_content(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Gives a file another name; which one.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let free =
        (1..u32::MAX).map(|number| path.with_extension(format!("damaged-{number}"))).find(|aside| !aside.exists());
    let aside = free.expect("numbers have no end");
    fs::rename(path, &aside)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = Vec<(String, Vec<u8>, Vec<u8>, u64)>;

    fn all(store: &Store) -> Found {
        let mut found = Found::new();
        store
            .each(|service, key, parts, at| found.push((service.to_owned(), key.to_vec(), parts.to_vec(), at)))
            .expect("read");
        found
    }

    fn filled(folder: &Path, records: u16) {
        let store = Store::open(folder).expect("opened");
        let mut batch = Batch::default();
        for number in 0..records {
            let key = number.to_le_bytes();
            batch.put("FEED", &key, &[number as u8; 300], u64::from(records - number));
        }
        assert_eq!((batch.puts(), batch.deletes()), (u64::from(records), 0));
        store.write([&batch]).expect("written");
    }

    #[test]
    fn what_was_written_is_read_oldest_first() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(all(&Store::open(&folder.path().join("made")).expect("made")).is_empty());
        filled(folder.path(), 3);
        let store = Store::open(folder.path()).expect("opened");
        let found = all(&store);
        assert_eq!(found.iter().map(|(_, key, ..)| key[0]).collect::<Vec<_>>(), [2, 1, 0]);
        assert!(found.iter().all(|(service, key, parts, _)| service == "FEED" && parts[..] == [key[0]; 300]));
        let mut batch = Batch::default();
        batch.delete("FEED", &1_u16.to_le_bytes());
        batch.put("FEED", &2_u16.to_le_bytes(), b"new", 9);
        batch.delete("OTHER", &2_u16.to_le_bytes());
        store.write([&batch]).expect("written");
        let keys: Vec<_> = all(&store).into_iter().map(|(_, key, parts, at)| (key[0], parts.len(), at)).collect();
        assert_eq!(keys, [(0, 300, 3), (2, 3, 9)]);
    }

    #[test]
    fn a_file_is_one_process_s() {
        let folder = tempfile::tempdir().expect("a folder");
        let _first = Store::open(folder.path()).expect("opened");
        let why = Store::open(folder.path()).map(drop).expect_err("refused").to_string();
        assert!(why.contains("records.redb") && why.contains("another process has it open"), "{why}");
        let why = Store::open(Path::new("/dev/null/x")).map(drop).expect_err("refused").to_string();
        assert!(why.contains("/dev/null/x"), "{why}");
    }

    /// Cut off anywhere, or changed anywhere, the file is read as it was written or put aside; nothing that is given out was not written.
    #[test]
    fn a_damaged_file_gives_what_was_written_or_is_put_aside() {
        let whole = tempfile::tempdir().expect("a folder");
        filled(whole.path(), 200);
        let bytes = fs::read(whole.path().join(FILE)).expect("read");
        let written = all(&Store::open(whole.path()).expect("opened"));
        let mut aside = 0;
        for step in 0..60 {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join(FILE);
            let mut bytes = bytes.clone();
            match step % 3 {
                0 => bytes.truncate(bytes.len() * step / 60),
                1 => {
                    let at = bytes.len() * step / 60;
                    bytes[at..].iter_mut().take(100).for_each(|byte| *byte ^= 0x55);
                }
                // Where the content is.
                _ => bytes.iter_mut().skip(step * 97).step_by(4_099).for_each(|byte| *byte ^= 1 << (step % 8)),
            }
            fs::write(&path, &bytes).expect("written");
            let store = Store::open(folder.path()).expect("one that is damaged is put aside");
            let mut found = Found::new();
            let _ = store.each(|service, key, parts, at| {
                found.push((service.to_owned(), key.to_vec(), parts.to_vec(), at));
            });
            assert!(found.iter().all(|record| written.contains(record)), "step {step}");
            aside += usize::from(folder.path().join("records.damaged-1").exists());
            filled_again(&store);
        }
        assert!(aside > 20, "{aside} of 60 were put aside");
    }

    fn filled_again(store: &Store) {
        let mut batch = Batch::default();
        batch.put("FEED", b"new", b"image", 1);
        store.write([&batch]).expect("it can be written again");
        assert!(all(store).iter().any(|(_, key, ..)| key == b"new"));
    }

    #[test]
    fn text_is_no_database() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(FILE), "not a database, and long enough to be looked at").expect("written");
        assert!(all(&Store::open(folder.path()).expect("put aside")).is_empty());
        assert!(folder.path().join("records.damaged-1").exists());
    }
}
