//! `quoteway`: one binary for every role and tool.
#![forbid(unsafe_code)]

mod delays;
mod demo;
mod feed;
mod feeds;
mod lab;
mod replays;

use anyhow::anyhow;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use net::huge_pages::{self, HugePages};
use scenario_io::command::NotPassed;
use server::{log, roles};
use tools::command_line::{end_with_the_reader, print};
use tools::{manual, ui};
use tracing_subscriber::EnvFilter;

/// Tables of many items lie in huge pages, where the machine gives them.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// Open market-data distribution, compatible with RSSL/RWF (RMDS, TREP, RTDS): unmodified EMA and ETA programs work
/// against it.
///
/// Start with `quoteway demo`. To distribute the data of a provider: `quoteway serve --route HOST:PORT`, then point
/// consumers at port 14002.
#[derive(Parser)]
#[command(
    name = "quoteway",
    version,
    max_term_width = 110,
    after_help = "Environment:\n  QUOTEWAY_LOG  how much of the log goes to standard error: off, error, warn, info (the default), debug, trace"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the whole system at work: source, Source Distributor, hub, P2PS and a live watchlist
    #[command(
        after_help = "Examples:\n  quoteway demo\n  quoteway demo IBM.N TRI.N --no-ui\n  quoteway demo --data DIR --speed 10\n\n\
        While it runs, EMA and ETA programs can connect to port 14002; the service is DIRECT_FEED."
    )]
    Demo(demo::DemoArgs),
    /// Serve consumers: Source Distributor and P2PS in one process
    #[command(
        after_help = "Examples:\n  quoteway serve --route localhost:14010\n  quoteway serve --config site.toml\n\n\
        Consumers connect to port 14002, non-interactive providers to 14003; interactive providers are dialled (--route)."
    )]
    Serve(roles::serve::ServeArgs),
    /// Face providers in a process of its own; P2PSs join it over the hub
    #[command(
        aliases = ["source_distributor", "src-dist", "src_dist", "adh"],
        after_help = "Examples:\n  quoteway source-distributor --route localhost:14010\n  \
        quoteway source-distributor --config site.toml\n\n\
        P2PSs join at port 14004 (quoteway p2ps --source-distributor HOST:14004), or by multicast ([hub] in the file)."
    )]
    SourceDistributor(roles::source_distributor::SourceDistributorArgs),
    /// Serve consumers in a process of its own, with the data of Source Distributors that it joins over the hub
    #[command(
        alias = "ads",
        after_help = "Examples:\n  quoteway p2ps --source-distributor localhost:14004\n  quoteway p2ps --config site.toml\n\n\
        Consumers connect to port 14002. Several P2PSs may join the same Source Distributors."
    )]
    P2ps(roles::p2ps::P2psArgs),
    /// Serve the programs of one user on their own machine, with the data of a hub that it finds by itself (RTIC)
    #[command(
        alias = "rtic",
        after_help = "Examples:\n  quoteway desktop\n  quoteway desktop --hub prod --hub-interface 10.1.0.0/16\n  \
        quoteway desktop --source-distributor sdhost:14004\n\n\
        It needs neither root nor a file. Programs of this machine connect to port 14002 (RSSL and WebSocket) or 15000 (WebSocket), such as:\n  \
        quoteway test-client -h localhost -il 'IBM.N TRI.N'\n\n\
        The hub is found by multicast (its Source Distributors have transport = \"lbt-rm\" in [hub], and the same name). If none is heard within \
        10 s the log says what to look at. Where no multicast passes, as by a VPN, name a Source Distributor. http://localhost:8080 shows \
        what comes in; docs/operating/desktop.md says the rest."
    )]
    Desktop(roles::desktop::DesktopArgs),
    /// Carry the hub's data streams between the network and the shared memory of this host
    #[command(after_help = "Examples:\n  quoteway rrcpd --interface 10.0.0.7\n  quoteway rrcpd --config site.toml\n\n\
        One daemon a host, or one a network card. P2PSs and Source Distributors of the host have transport = \"lbt-ipc\" in [hub].")]
    Rrcpd(roles::rrcpd::RrcpdArgs),
    /// Turn an exchange's own file (Nasdaq ITCH, DBN, IEX) into a live service: prices, books, trades, status
    Feed(feed::FeedArgs),
    /// Give items as raw Marketfeed by lines of text on a plain socket (not SSL)
    MarketfeedLines(tools::marketfeed_lines::Args),
    /// Publish the data of a service later, under another name
    Delay(tools::delay::Args),
    /// Record a service as it comes, show what a recording holds, make it smaller
    Record(tools::recording::Args),
    /// Play a recording to any client, from any time on
    Replay(replays::ReplayArgs),
    /// Simulated source: publishes at a chosen rate, a built-in market or recorded data
    #[command(aliases = ["sink_driven_src", "Sink_Driven_Src"])]
    SinkDrivenSrc(tools::sink_driven_src::Args),
    /// Simulated consumers: open watchlists and measure what comes
    #[command(aliases = ["rmdstestclient", "RMDSTestClient", "testclient"])]
    TestClient(tools::test_client::Args),
    /// Show RWF messages and RSSL byte streams as text
    Dump(tools::dump::Args),
    /// Break it on purpose: a server that misbehaves by script, and a verdict on what a client does about it
    Scenario(scenario_io::command::ScenarioArgs),
    /// Show a page (ANSI page or page record) in the terminal
    #[command(
        after_help = "Examples:\n  quoteway page DIRECT_FEED GBPX\n  quoteway page -h mdhost1 FEED FXFX --json --seconds 10"
    )]
    Page(ui::page::Args),
    /// Make, show, combine and explain locks (permission data)
    Lock(tools::lock::Args),
    /// Show captures of LBM traffic as text: sessions, topics, losses, NAKs
    Lbmdump(tools::lbmdump::Args),
    /// Publish test messages by LBM at a fixed rate
    #[command(alias = "staclbmpub")]
    Lbmpub(tools::lbmtest::publish::Args),
    /// Receive the messages of lbmpub and measure latency, rate and loss
    #[command(alias = "staclbmsub")]
    Lbmsub(tools::lbmtest::subscribe::Args),
    /// Show the LBM sessions of this host: rates, NAKs, retransmissions, losses
    Lbmstat(tools::lbmstat::Args),
    /// Resolve topics between contexts that cannot use multicast
    Lbmrd(tools::lbmrd::Args),
    /// Resolve topics between contexts over TCP: know every source, and tell who wants it
    Lbmsrs(tools::lbmsrs::Args),
    /// Pass LBM topics between domains, to where somebody wants them
    Lbmrouter(tools::lbmrouter::Args),
    /// Hold the messages of LBM sources until receivers that were away come back
    Lbmstore(tools::lbmstore::Args),
    /// Look at a running process and steer it: services, clients, items, disconnect, drain, level of the log
    Ctl(tools::ctl::Args),
    /// Watch a running process in the terminal: rates, clients, services, providers, events
    #[command(alias = "adsmon")]
    Top(tools::top::Args),
    /// Measure this system, beside bare loops and other products, and report: quoteway-lab, when it is installed
    Lab(lab::Args),
    /// Show what the benchmark reports tuned, as it is here and as it should be; set it, set it back
    Tune(tools::tune::Args),
    /// Show every configuration parameter, check a file, or turn an rmds.cnf into TOML
    #[command(
        after_help = "Examples:\n  quoteway config\n  quoteway config maxMounts\n  quoteway config check rmds.cnf --host mdhost1\n  \
        quoteway config import rmds.cnf -o quoteway.toml"
    )]
    Config(config::command::ConfigCommand),
    /// Write the man pages into a folder
    Man {
        /// The folder; it is made if it is not there
        dir: PathBuf,
    },
    /// Print the completions of a shell: bash, zsh, fish, elvish, powershell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    huge_pages::use_for_heap();
    end_with_the_reader();
    let cli = parse();
    // A command that answers once and ends logs nothing, and needs no thread for that.
    let log = match (!matches!(cli.command, Command::Ctl(_))).then(|| start_log(&cli.command)).transpose() {
        Ok(log) => log,
        Err(error) => {
            net::output::tell(format_args!("quoteway: no thread for the log: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let is_scenario = matches!(cli.command, Command::Scenario(_));
    let result = match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Serve(args) => feeds::serve(&args),
        Command::SourceDistributor(args) => feeds::source_distributor(&args),
        Command::P2ps(args) => roles::p2ps::run(&args),
        Command::Desktop(args) => roles::desktop::run(&args),
        Command::Rrcpd(args) => roles::rrcpd::run(&args),
        Command::Feed(args) => feed::run(&args),
        Command::Delay(args) => tools::delay::run(&args),
        Command::Record(args) => tools::recording::run(&args),
        Command::Replay(args) => replays::run(&args),
        Command::MarketfeedLines(args) => tools::marketfeed_lines::run(&args),
        Command::SinkDrivenSrc(args) => tools::sink_driven_src::run(&args),
        Command::TestClient(args) => tools::test_client::run(&args),
        Command::Dump(args) => tools::dump::run(&args),
        Command::Scenario(args) => match args.stand() {
            Some(stand) => roles::scenarios::run(stand),
            None => scenario_io::command::run(&args),
        },
        Command::Page(args) => ui::page::run(&args),
        Command::Lock(args) => tools::lock::run(&args).and_then(|text| shown(text + "\n")),
        Command::Lbmdump(args) => tools::lbmdump::run(&args),
        Command::Lbmpub(args) => tools::lbmtest::publish::run(&args),
        Command::Lbmsub(args) => tools::lbmtest::subscribe::run(&args),
        Command::Lbmstat(args) => tools::lbmstat::run(&args),
        Command::Lbmrd(args) => tools::lbmrd::run(&args),
        Command::Lbmsrs(args) => tools::lbmsrs::run(&args),
        Command::Lbmrouter(args) => tools::lbmrouter::run(&args),
        Command::Lbmstore(args) => tools::lbmstore::run(&args),
        Command::Ctl(args) => tools::ctl::run(&args).and_then(shown),
        Command::Top(args) => tools::top::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Tune(args) => tools::tune::run(&args),
        Command::Config(command) => config::command::run(&command).map_err(anyhow::Error::msg).and_then(shown),
        Command::Man { dir } => manual::man_pages(Cli::command(), "quoteway", &dir)
            .map_err(|e| anyhow!("{}: {e}", dir.display()))
            .and_then(|files| shown(format!("{} man pages are in {}\n", files.len(), dir.display()))),
        Command::Completions { shell } => {
            shown(manual::completions(lab::with_scenarios(Cli::command()), "quoteway", shell))
        }
    };
    // Lines that wait come before the last word.
    drop(log);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // An answer, not a fault: scripts tell it by the exit status.
        Err(answer) if answer.is::<tools::lock::Denied>() => {
            let _ = print(format!("{answer}\n"));
            ExitCode::FAILURE
        }
        Err(answer) if answer.is::<NotPassed>() => {
            answer.downcast_ref().map_or(ExitCode::FAILURE, |NotPassed(status)| ExitCode::from(*status))
        }
        Err(message) => {
            // Of several lines, if ours; a server's words steer no terminal.
            let message = message.to_string();
            let lines: Vec<_> = message.split('\n').map(net::plain::escaped).collect();
            net::output::tell(format_args!("quoteway: {}", lines.join("\n")));
            // The exit codes tell a rule that was broken from a run that was none.
            if is_scenario { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn shown(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    Ok(print(text)?)
}

/// Reads the command line. The programs may be named as the originals are, in any case and also by the name under which the
/// binary is called (a link `Sink_Driven_Src`); the tools' flags may be spelled as the original tools spell them (`-tps 500`),
/// and are in errors then.
fn parse() -> Cli {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(subcommand) = words.first().and_then(|program| tools::flags::subcommand_of(program)) {
        words.insert(1, subcommand.into());
    }
    let tool = words.get(1).and_then(|tool| tools::flags::subcommand_of(tool));
    if let Some(tool) = tool {
        words[1] = tool.into();
    }
    let flags = match tool {
        Some("sink-driven-src") => tools::flags::SINK_DRIVEN_SRC,
        Some("test-client") => tools::flags::TEST_CLIENT,
        _ => &[],
    };
    let typed = words.split_off(words.len().min(1));
    words.extend(tools::flags::modernise(flags, typed.clone()));
    Cli::try_parse_from(words).unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        let text = tools::flags::as_typed(flags, &typed, &error.render().to_string());
        net::output::tell(format_args!("{}", text.trim_end_matches('\n')));
        std::process::exit(2)
    })
}

/// What an operator should see goes to standard error; `QUOTEWAY_LOG` chooses how much (error, warn, info, debug).
fn start_log(command: &Command) -> std::io::Result<log::Log> {
    let terminal = std::io::stderr().is_terminal();
    // The demo's screen has the terminal for itself, unless lines are asked for.
    let screen = matches!(command, Command::Demo(args) if !args.no_ui) && std::io::stdout().is_terminal() && terminal;
    let asked = EnvFilter::try_from_env("QUOTEWAY_LOG");
    let silent = screen && asked.is_err();
    log::start(asked.unwrap_or_else(|_| EnvFilter::new("info")), terminal, silent)
}
