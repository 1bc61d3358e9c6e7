//! `quoteway scenario`: the scenarios that ship and those of files, against a client of the user's.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use rwf::dictionary::Dictionary;
use scenario::file::{self, Judges, ScenarioFile};
use scenario::judge::{LIMITS, RULES};
use scenario::library::{SHIPPED, shipped};
use scenario::verdict::{self, Outcome, Verdict};

use crate::client::Start;
use crate::stage::{self, Settings};

const EXAMPLES: &str = "\
Examples:
  quoteway scenario list
  quoteway scenario run server-away -- ./consumer --host {host}:{port}
  quoteway scenario run --all --junit scenarios.xml -- java -jar consumer.jar {host} {port}
  quoteway scenario run --all --judges provider -- ./provider --port {port}
  quoteway scenario serve
  quoteway scenario run mine.toml --set item=TRI.N --record out -- python3 client.py

Each scenario is a server of its own on a free port of this machine. The client is started for it, gets {host}, {port} or {address} in its \
arguments (and QUOTEWAY_HOST, QUOTEWAY_PORT in its environment), and is ended with it. Where an interactive provider is judged, it is what \
listens on this port. docs/operating/scenarios.md has the steps and the rules.

Exit status: 0 no rule was broken; 1 a rule was broken; 2 it could not be run; 3 nothing was judged.";

/// Breaks it on purpose: a server that misbehaves by script, and a verdict on what the client does about it.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScenarioArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// List the scenarios that ship, with what each of them shows
    List,
    /// Show a scenario: its file, to be read or to begin one's own with
    Show {
        /// A scenario that ships
        name: String,
    },
    /// List the rules that clients are judged by: what a right client does, and where that is written
    Rules,
    /// Run scenarios against a client
    #[command(after_help = EXAMPLES)]
    Run(RunArgs),
    /// Serve a client that stays connected, and a page on which scenarios are chosen and their steps seen as they happen
    Serve(ServeArgs),
}

/// A test stand with a page.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Where the client under test connects
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:14002")]
    pub listen: SocketAddr,
    /// Port of the page and of /api/v1, on the loopback; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub http_port: u16,
}

impl ScenarioArgs {
    /// What a test stand is started with, if that is what the command line asks for.
    pub fn stand(&self) -> Option<&ServeArgs> {
        match &self.action {
            Action::Serve(args) => Some(args),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
struct RunArgs {
    /// Scenarios: names of those that ship, or files
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Run all that ship for what is under test
    #[arg(long)]
    all: bool,
    /// What is under test, for --all
    #[arg(long, value_name = "KIND", default_value = "consumer", value_parser = ["consumer", "provider", "publisher"])]
    judges: String,
    /// Seed of all that is random; a verdict names it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Give a variable of the scenarios another value
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Scenarios that run at the same time
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Where servers listen; a free port each
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// Listen on this port; one scenario after the other then
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the verdicts as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Record each run into this folder, as a packet capture that `quoteway dump` and Wireshark read
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Wait so many seconds for the client to start and connect; what is slower is not judged [default: 30 for as many at a time as there are
    /// processors, more by as many times as there are more]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    start: Option<f64>,
    /// End a scenario so many seconds after that whatever happens
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0, value_parser = seconds)]
    most: f64,
    /// Say each step as it begins
    #[arg(long)]
    steps: bool,
    /// Throw away what the client writes to its standard error
    #[arg(long)]
    quiet: bool,
    /// What is under test: a program and its arguments
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<String>,
}

/// An answer that is no fault: scripts tell it by the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPassed(pub u8);

impl fmt::Display for NotPassed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "a rule was broken",
            3 => "nothing was judged",
            _ => "the scenarios could not be run",
        })
    }
}

impl std::error::Error for NotPassed {}

/// Does what the command line says.
///
/// # Errors
/// [`NotPassed`] with the exit status, when what there is to say has been said; otherwise a text for the user.
pub fn run(args: &ScenarioArgs) -> anyhow::Result<()> {
    match &args.action {
        Action::List => print(&list()?),
        Action::Show { name } => print(&text_of(name)?),
        Action::Rules => print(&rules()),
        Action::Run(args) => run_all(args),
        // The page is that of servers, which this crate does not know.
        Action::Serve(_) => Err(anyhow!("quoteway scenario serve is started by quoteway")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds up to 3600".to_owned()),
    }
}

/// How long a client is given to start where so many are started at a time, s.
fn start_s(jobs: usize) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    scenario::play::START as f64 / 1e9 * (jobs as f64 / processors as f64).max(1.0)
}

fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // A reader who has seen enough ends the reading.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn list() -> anyhow::Result<String> {
    use fmt::Write as _;
    let mut text = String::new();
    for judges in Judges::ALL {
        let _ = writeln!(text, "{}s:", judges.name());
        for shipped in SHIPPED {
            let scenario = load(shipped.name, &BTreeMap::new())?;
            if scenario.judges == judges {
                let _ = writeln!(text, "  {:<28} {}", shipped.name, scenario.title);
            }
        }
    }
    Ok(text)
}

fn rules() -> String {
    use fmt::Write as _;
    let mut text = String::new();
    for rule in RULES {
        let _ = writeln!(text, "{}\n    {}\n    source: {}", rule.name, rule.about, rule.source);
    }
    text += "\nLimits, for [limits] of a scenario:\n";
    for limit in LIMITS {
        let _ = writeln!(text, "    {} = {}", limit.name, limit.value);
    }
    text
}

/// The text of a scenario that ships or of a file.
fn text_of(name: &str) -> anyhow::Result<String> {
    match shipped(name) {
        Some(shipped) => Ok(shipped.text.to_owned()),
        None => read(Path::new(name)),
    }
}

/// Bytes of a scenario's file at most.
const FILE_MAX: u64 = 4 << 20;

fn read(path: &Path) -> anyhow::Result<String> {
    let named = |why: &dyn fmt::Display| anyhow!("{}: {why}", path.display());
    let file = std::fs::metadata(path).map_err(|error| {
        let known = SHIPPED.iter().map(|shipped| shipped.name);
        anyhow!("{}: {error}, and no scenario of that name ships{}", path.display(), near(path, known))
    })?;
    if !file.is_file() || file.len() > FILE_MAX {
        return Err(named(&"a scenario is a file of 4 MB at most"));
    }
    std::fs::read_to_string(path).map_err(|error| named(&error))
}

fn near<'a>(path: &Path, known: impl Iterator<Item = &'a str>) -> String {
    file::nearest(&path.to_string_lossy(), known)
}

fn load(name: &str, set: &BTreeMap<String, String>) -> anyhow::Result<ScenarioFile> {
    let text = text_of(name)?;
    let folder = Path::new(name).parent().map(Path::to_owned).unwrap_or_default();
    let include = |file: &str| read(&folder.join(file)).map_err(|error| error.to_string());
    let scenario = file::read(name, &text, set, &include)?;
    scenario::program::compile(&scenario)?;
    Ok(scenario)
}

fn run_all(args: &RunArgs) -> anyhow::Result<()> {
    let set = args.set.iter().map(|pair| {
        let (name, value) = pair.split_once('=').ok_or_else(|| anyhow!("--set {pair}: NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let set: BTreeMap<String, String> = set.collect::<anyhow::Result<_>>()?;
    let mut names = args.scenarios.clone();
    if args.all {
        for shipped in SHIPPED {
            if load(shipped.name, &set)?.judges.name() == args.judges {
                names.push(shipped.name.to_owned());
            }
        }
    }
    if names.is_empty() {
        return Err(anyhow!("which scenarios? name some, or --all; quoteway scenario list has them"));
    }
    let scenarios: Vec<ScenarioFile> = names.iter().map(|name| load(name, &set)).collect::<anyhow::Result<_>>()?;
    if let Some(folder) = &args.record {
        std::fs::create_dir_all(folder).map_err(|error| anyhow!("{}: {error}", folder.display()))?;
    }
    let verdicts = played(args, &scenarios)?;
    let dictionary = Dictionary::builtin();
    let dump = |bytes: &[u8]| rwf_text::message(bytes, Some(&dictionary)).to_string();
    let write = |path: &Path, bytes: Vec<u8>| {
        net::output::write(path, bytes).map_err(|error| anyhow!("{}: {error}", path.display()))
    };
    if let Some(path) = &args.junit {
        write(path, verdict::junit(&verdicts, &dump)?)?;
    }
    if let Some(path) = &args.json {
        write(path, format!("{:#}\n", verdict::json(&verdicts, &dump)).into_bytes())?;
    }
    print(&verdict::text(&verdicts, &dump))?;
    let has = |outcome: Outcome| verdicts.iter().any(|verdict| verdict.outcome == outcome);
    match (has(Outcome::Failed), has(Outcome::Passed)) {
        (true, _) => Err(NotPassed(1).into()),
        (false, false) => Err(NotPassed(3).into()),
        (false, true) => Ok(()),
    }
}

/// Runs scenarios, some at the same time; their verdicts in the scenarios' order.
fn played(args: &RunArgs, scenarios: &[ScenarioFile]) -> anyhow::Result<Vec<Verdict>> {
    // Clients are in groups of their own: who stops this program by a signal would leave them behind.
    net::signal::install().map_err(|error| anyhow!("signals cannot be caught: {error}"))?;
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let jobs = if args.port.is_some() { 1 } else { args.jobs.clamp(1, 64) };
    let settings = Settings {
        start_s: args.start.unwrap_or_else(|| start_s(jobs)),
        seed: args.seed,
        listen: SocketAddr::new(args.listen, args.port.unwrap_or(0)),
        quiet: args.quiet,
        most_s: args.most,
        steps: args.steps,
        record: args.record.clone(),
    };
    let start = Start(args.command.clone());
    let shows = io::stderr().is_terminal() || args.steps;
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(scenario) = scenarios.get(number) else { break };
            let verdict = stage::run(scenario, &start, &settings);
            let failed = verdict.is_err();
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            done.insert(number, verdict);
            if shows {
                let _ = writeln!(io::stderr(), "{} of {}: {}", done.len(), scenarios.len(), scenario.name);
            }
            if failed {
                next.store(scenarios.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(scenarios.len()) {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.into_values().map(|verdict| verdict.map_err(anyhow::Error::msg)).collect()
}
