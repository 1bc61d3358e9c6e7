//! The records of a recording as lines of JSON, as a table (CSV), or as tables of columns.

use super::counted;
use super::send::S3;
use crate::{output, when};
use anyhow::{Context as _, anyhow};
use clap::{Args as ClapArgs, ValueEnum};
use permissions::rights::Pattern;
use record::{Folder, Recording};
use record_files::{Failure, FileForm, ONLY_PART, TableConfig, Tables, TextForm, Wanted, Written};
use record_io::dictionary_at;
use record_streams::Target;
use rwf::dictionary::Dictionary;
use std::collections::BTreeSet;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// What is exported.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    quoteway record export today > today.jsonl\n  \
    quoteway record export today --as csv -o today.csv --item '*.N' --from 2026-11-27T14:30:00Z --to 2026-11-27T15:00:00Z\n  \
    quoteway record export today --as parquet -o tables\n  \
    quoteway record export today --as parquet -o tables --partition date,service\n  \
    quoteway record export today --as parquet -o s3://market-data/2026-11-27\n\n\
    JSON has a record a line: sequence number, clocks in nanoseconds, item, and the message as the WebSocket protocol writes it, or its bytes (rwf, \
    hexadecimal) where the dictionary lacks a field. CSV has the images, updates and statuses of items that are lists of fields: a column a field; an \
    enumeration has its number, and its display in a column beside it. A field that is blank and one that is not in the message are both empty there.\n\n\
    Parquet and Arrow have a table a domain (MARKET_PRICE.parquet) with all records of it: prices are decimals, times have nanoseconds, a column `blanks` \
    names the fields that are blank, and `message` has the bytes of what columns do not tell. docs/operating/record.md has all columns, and how DuckDB, \
    polars and pandas read them. s3://BUCKET/PREFIX as folder puts them there when they are whole; keys and region are those of the environment, as AWS's programs have \
    them (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL), or the machine's role.")]
pub(super) struct Args {
    /// Folder of the recording, or one of its segments
    #[arg(value_name = "FOLDER_OR_FILE")]
    path: PathBuf,
    /// How it is written
    #[arg(long = "as", value_enum, default_value_t = Form::Json)]
    form: Form,
    /// File to write, without it standard output; of Parquet and Arrow the folder of the tables, or `s3://BUCKET/PREFIX`
    #[arg(short, long, value_name = "FILE_OR_FOLDER", required_if_eq_any([("form", "parquet"), ("form", "arrow")]))]
    output: Option<PathBuf>,
    /// Records from this time on: UTC, 2026-11-27T14:30:00Z
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    from: Option<u64>,
    /// Records up to this time
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    to: Option<u64>,
    /// Only items that match: * stands for any text, ? for a character, ^... is a regular expression
    #[arg(long = "item", value_name = "PATTERN")]
    items: Vec<String>,
    /// Only items of these domains, by number
    #[arg(long = "domain", value_name = "NUMBER")]
    domains: Vec<u8>,
    /// Parquet or Arrow as a dataset in parts, a folder each (Hive): databases and Spark read only those that they need
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    partition: Vec<Partition>,
    /// Parquet or Arrow with prices of so many decimal places (8 with --partition), so that the tables of several days have columns of one type
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..=14))]
    decimals: Option<u8>,
    /// Parquet or Arrow with the bytes of all messages, so that an import has them again byte for byte
    #[arg(long)]
    messages: bool,
    #[command(flatten)]
    s3: S3,
}

/// By what tables are in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Partition {
    /// A folder a day, UTC.
    Date,
    /// A folder a service.
    Service,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A JSON object a line.
    Json,
    /// Values between commas, with a line of names.
    Csv,
    /// Apache Parquet, a table a domain.
    Parquet,
    /// Apache Arrow IPC files, a table a domain.
    Arrow,
}

/// Text, or tables of columns.
enum Output {
    Text(TextForm),
    Tables(Tables),
    /// Tables that go to an object store from a folder that is removed afterwards.
    Put(Tables, Target),
}

impl Args {
    fn output(&self) -> anyhow::Result<Output> {
        let form = match self.form {
            Form::Parquet => FileForm::Parquet,
            Form::Arrow => FileForm::Arrow,
            Form::Json | Form::Csv if !self.partition.is_empty() || self.decimals.is_some() || self.messages => {
                return Err(anyhow!("--partition, --decimals and --messages are for --as parquet and --as arrow"));
            }
            Form::Json => return Ok(Output::Text(TextForm::Json)),
            Form::Csv => return Ok(Output::Text(TextForm::Csv)),
        };
        let folder = self.output.clone().ok_or_else(|| anyhow!("name a folder for the tables: -o FOLDER"))?;
        let fixed = self.decimals.is_some() || !self.partition.is_empty();
        let config = TableConfig {
            scale: self.decimals.unwrap_or(if fixed { TableConfig::PLACES } else { 0 }),
            fixed,
            messages: self.messages,
            by_date: self.partition.contains(&Partition::Date),
            by_service: self.partition.contains(&Partition::Service),
        };
        let part = ONLY_PART.to_owned();
        let Some(url) = folder.to_str().filter(|folder| folder.starts_with("s3://")) else {
            return Ok(Output::Tables(Tables { folder, form, config, part }));
        };
        let target = Target::parse(url)?;
        let folder = std::env::temp_dir().join(format!("quoteway-export-{}", std::process::id()));
        Ok(Output::Put(Tables { folder, form, config, part }, target))
    }
}

/// Exports.
///
/// # Errors
/// A text for the user: the recording cannot be read, or the file cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let patterns = args.items.iter().map(|text| Pattern::parse(text).map_err(|e| anyhow!("--item: {e}")));
    let wanted = Wanted {
        from: args.from.unwrap_or(0),
        to: args.to.unwrap_or(u64::MAX),
        patterns: patterns.collect::<anyhow::Result<_>>()?,
        domains: args.domains.clone(),
    };
    let to = args.output()?;
    let recording = Recording::open(Folder::to_read(&args.path))?;
    for found in recording.damage() {
        eprintln!("{}: {}", args.path.display(), net::plain::escaped(&found.to_string()));
    }
    let services: BTreeSet<&str> = recording.items().into_iter().map(|item| &*item.service).collect();
    let mut found = None;
    for service in services {
        found = found.or(dictionary_at(&recording, service, wanted.from)?);
    }
    let dictionary = found.unwrap_or_else(|| {
        eprintln!("the recording has no whole dictionary: the built-in one names the fields");
        Dictionary::builtin()
    });
    let written = match (to, &args.output) {
        (Output::Tables(to), _) => {
            record_files::write_tables(&recording, &wanted, &dictionary, &to, &|| false).map(|done| tell(&done))
        }
        (Output::Put(to, target), _) => {
            let written = record_files::write_tables(&recording, &wanted, &dictionary, &to, &|| false);
            let put = written.map(|done| put(&done, &to.folder, &target, &args.s3));
            // It may not have been made.
            let _ = std::fs::remove_dir_all(&to.folder);
            match put {
                Ok(put) => return put,
                Err(failure) => Err(failure),
            }
        }
        (Output::Text(form), Some(path)) => {
            let file = net::output::create(path).with_context(|| path.display().to_string())?;
            record_files::write_text(&recording, &wanted, &dictionary, form, &mut BufWriter::new(file))
                .map(tell_left_out)
        }
        (Output::Text(form), None) => {
            let mut out = BufWriter::new(io::stdout().lock());
            record_files::write_text(&recording, &wanted, &dictionary, form, &mut out).map(tell_left_out)
        }
    };
    match written {
        Ok(()) | Err(Failure::Stopped) => Ok(()),
        Err(Failure::Read(error)) => Err(error.into()),
        Err(Failure::Table(error)) => Err(error.into()),
        Err(Failure::Write(error)) => match &args.output {
            Some(path) => Err(anyhow!("{}: {error}", path.display())),
            None => output::ended(&error),
        },
    }
}

fn tell_left_out(count: u64) {
    if count > 0 {
        eprintln!("{count} records have no fields of their own and are not in the table; --as json has them");
    }
}

/// Puts tables into an object store.
fn put(written: &Written, folder: &Path, target: &Target, s3: &S3) -> anyhow::Result<()> {
    let count = record_streams::put_files(target, &s3.access(), folder, &written.files, &|| false)?;
    eprintln!("{} in {} at {target}", counted(written.rows, "row"), counted(count, "object"));
    tell_unfit(written.unfit);
    Ok(())
}

fn tell(written: &Written) {
    for file in &written.files {
        eprintln!("{}", file.display());
    }
    eprintln!("{} in {}", counted(written.rows, "row"), counted(written.files.len() as u64, "file"));
    tell_unfit(written.unfit);
}

fn tell_unfit(unfit: u64) {
    if unfit > 0 {
        let values = counted(unfit, "value");
        eprintln!("{values} in no column, since it has no room for them: their rows have the message as it came");
    }
}
