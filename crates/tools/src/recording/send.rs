//! A recording on its way to NATS, Kafka or an object store.

use crate::recording::{SECOND, counted};
use anyhow::{Context as _, anyhow};
use clap::{Args as ClapArgs, ValueEnum};
use permissions::rights::Pattern;
use record_streams::{Access, Config, Form, Progress, Start, Target};
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// What is sent where.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    quoteway record send today --to nats://localhost:4222/TICKS\n  \
    quoteway record send today --to kafka://broker1:9092,broker2:9092/ticks --until-end\n  \
    quoteway record send today --to s3://market-data/ticks --s3-region eu-central-1\n  \
    quoteway record send today --to file:///var/lake\n  \
    quoteway record send today --to tls://nats.example:4222/TICKS --broker-user me --broker-password-file nats.password --item '*.N'\n\n\
    It follows the recording, which `quoteway record` or a server's [record] may be writing, and sends each record until the broker says that it has it. What the \
    broker does not take waits on the disk, in the recording; started again it goes on behind what was taken (a file NAME.sent in FOLDER says up to where).\n\n\
    NATS: subject STREAM.SERVICE.DOMAIN.ITEM (FEED.DIRECT_FEED.6.IBM.N), the header Nats-Msg-Id has an id that is each message's own, by which JetStream leaves out \
    what is sent twice. The stream is made if it is not there. Kafka: key SERVICE/DOMAIN/ITEM, by which items stay in order; the header Quoteway-Id has the id.\n\n\
    An object store gets each segment when it is closed, as files of Parquet: DOMAIN/date=2026-11-27/service=NAME/RECORDING-SEGMENT.parquet, which DuckDB, polars and \
    Spark read as one dataset, and behind them _segments/RECORDING-SEGMENT.json, which names them. A segment is put once, and no object is seen before it is whole. The bucket \
    has to be there. Keys, region and endpoint are those of --broker-user and the flags below, else of the environment, as AWS's programs have them (AWS_ACCESS_KEY_ID, \
    AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL), or the machine's role.")]
pub(super) struct Args {
    /// Folder of the recording
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// `nats://HOST:PORT/STREAM`, `tls://HOST:PORT/STREAM` (NATS, encrypted), `kafka://HOST:PORT/TOPIC` (several hosts between commas), `s3://BUCKET/PREFIX` or
    /// `file:///FOLDER`
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    to: Target,
    /// How it is written: messages as json (the default) or rwf, an object store has parquet alone
    #[arg(long = "as", value_enum)]
    form: Option<Written>,
    /// Only items that match: * stands for any text, ? for a character, ^... is a regular expression
    #[arg(long = "item", value_name = "PATTERN")]
    items: Vec<String>,
    /// Begin with what comes now, if nothing was sent there so far; without it with the first record
    #[arg(long)]
    from_now: bool,
    /// End when the recording has ended and all of it was sent
    #[arg(long)]
    until_end: bool,
    /// User name at the broker (Kafka: SASL PLAIN); of S3 the id of the key
    #[arg(long, value_name = "NAME", requires = "broker_password_file")]
    broker_user: Option<String>,
    /// File with the password, or with the secret key of S3, in its first line
    #[arg(long, value_name = "FILE", requires = "broker_user")]
    broker_password_file: Option<PathBuf>,
    /// Certificates (PEM) that the one of NATS or S3 may be signed by, beside those of the system
    #[arg(long, value_name = "FILE")]
    broker_ca: Option<PathBuf>,
    #[command(flatten)]
    s3: S3,
    /// Seconds between two lines of progress; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    interval: u64,
}

/// Where a bucket is.
#[derive(ClapArgs, Clone, Debug)]
pub(super) struct S3 {
    /// Where S3 is, if it is not Amazon's: `http://localhost:9000`
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Region of the bucket
    #[arg(long, value_name = "NAME")]
    s3_region: Option<String>,
}

impl S3 {
    /// A login of none, which leaves keys to the environment.
    pub(super) fn access(&self) -> Access {
        Access { endpoint: self.s3_endpoint.clone(), region: self.s3_region.clone(), ..Access::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Written {
    /// A JSON object, as `record export` writes it.
    Json,
    /// The bytes as they came: RWF.
    Rwf,
    /// Tables of an object store.
    Parquet,
}

impl Args {
    fn access(&self) -> anyhow::Result<Access> {
        let login = match (&self.broker_user, &self.broker_password_file) {
            (Some(user), Some(file)) => {
                let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
                Some((user.clone(), text.lines().next().unwrap_or_default().to_owned()))
            }
            _ => None,
        };
        Ok(Access { login, certificates: self.broker_ca.clone(), ..self.s3.access() })
    }

    fn form(&self) -> anyhow::Result<Form> {
        match (self.form, self.to.takes_objects()) {
            (None | Some(Written::Json), false) | (None | Some(Written::Parquet), true) => Ok(Form::Json),
            (Some(Written::Rwf), false) => Ok(Form::Rwf),
            (Some(Written::Parquet), false) => {
                Err(anyhow!("--as parquet is for s3:// and file://; a broker has json or rwf"))
            }
            (Some(_), true) => Err(anyhow!("an object store has parquet alone: leave out --as")),
        }
    }

    fn config(&self) -> anyhow::Result<Config> {
        let patterns = self.items.iter().map(|text| Pattern::parse(text).map_err(|e| anyhow!("--item: {e}")));
        Ok(Config {
            folder: self.folder.clone(),
            target: self.to.clone(),
            access: self.access()?,
            form: self.form()?,
            items: patterns.collect::<anyhow::Result<_>>()?,
            start: if self.from_now { Start::Now } else { Start::Beginning },
            until_end: self.until_end,
        })
    }
}

/// Sends until it is stopped.
///
/// # Errors
/// A text for the user: the recording cannot be read.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let config = args.config()?;
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    eprintln!("{} is sent to {}", args.folder.display(), config.target);
    let noun = if config.target.takes_objects() { "row" } else { "message" };
    let mut line = Line::new(args.interval, noun);
    let done =
        record_streams::run(&config, &|| net::signal::stop_requested() > 0, &mut |progress| line.tell(progress))?;
    line.end();
    let beside = if done.known > 0 { format!(", {} that it had already", done.known) } else { String::new() };
    eprintln!("{} taken by {}{beside}, {} behind", counted(done.sent, noun), config.target, done.behind);
    if config.target.takes_objects() {
        eprintln!("{} put", counted(done.objects, "object"));
        if done.unfit > 0 {
            eprintln!("{} in the messages alone: their columns have no room for them", counted(done.unfit, "value"));
        }
    }
    if done.gone > 0 {
        let gone = counted(done.gone, noun);
        eprintln!(
            "of those that it had, it has removed {gone} since (a purge, or a limit of the stream), and so has them no more: it takes them again when its window of duplicates is over; remove the *.sent file then, and send again"
        );
    }
    if done.removed > 0 {
        eprintln!("{} had been removed from the recording before they were sent", counted(done.removed, "record"));
    }
    if done.too_long > 0 {
        return Err(anyhow!("{} are longer than it takes, and were left out", counted(done.too_long, "message")));
    }
    Ok(())
}

/// Lines about how far it is.
struct Line {
    noun: &'static str,
    every: u64,
    next: u64,
    last: (u64, u64),
    in_place: bool,
    trouble: Option<String>,
}

impl Line {
    fn new(seconds: u64, noun: &'static str) -> Self {
        let now = net::clock::now();
        let every = seconds.saturating_mul(SECOND);
        let next = if every == 0 { u64::MAX } else { now };
        Self { noun, every, next, last: (now, 0), in_place: std::io::stderr().is_terminal(), trouble: None }
    }

    fn tell(&mut self, progress: &Progress) {
        if progress.trouble != self.trouble {
            self.end();
            match &progress.trouble {
                Some(trouble) => {
                    eprintln!(
                        "{}; it is tried again, what comes meanwhile waits on the disk",
                        net::plain::escaped(trouble)
                    );
                }
                None => eprintln!("{}s are taken again", self.noun),
            }
            self.trouble.clone_from(&progress.trouble);
        }
        let now = net::clock::now();
        if now < self.next {
            return;
        }
        self.next = now.saturating_add(self.every);
        let seconds = now.saturating_sub(self.last.0).max(1) as f64 / 1e9;
        let rate = progress.sent.saturating_sub(self.last.1) as f64 / seconds;
        self.last = (now, progress.sent);
        let line = format!("{}, {rate:.0}/s, {} behind", counted(progress.sent, self.noun), progress.behind);
        if self.in_place {
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{line}");
        }
    }

    /// What comes next begins a line.
    fn end(&self) {
        if self.in_place {
            eprintln!();
        }
    }
}
