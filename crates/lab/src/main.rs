//! `quoteway-lab`: what `quoteway lab` starts.
#![forbid(unsafe_code)]

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser};
use tools::command_line::{end_with_the_reader, print};
use tools::manual;
use tracing_subscriber::EnvFilter;

/// Measures Quoteway, beside bare loops and other products, and reports.
#[derive(Parser)]
#[command(name = "quoteway-lab", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    manual: Option<Manual>,
    #[command(flatten)]
    lab: lab::RunArgs,
}

#[derive(clap::Subcommand)]
enum Manual {
    /// What the lab does besides running scenarios
    #[command(flatten)]
    Lab(lab::What),
    /// Write the man page into a folder
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
    end_with_the_reader();
    let cli = Cli::parse();
    start_log();
    let result = match &cli.manual {
        Some(Manual::Man { dir }) => manual::man_pages(Cli::command(), "quoteway-lab", dir)
            .with_context(|| dir.display().to_string())
            .and_then(|files| shown(format!("{} man pages are in {}\n", files.len(), dir.display()))),
        Some(Manual::Completions { shell }) => shown(manual::completions(Cli::command(), "quoteway-lab", *shell)),
        Some(Manual::Lab(what)) => lab::look(what),
        None => lab::run(&cli.lab),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quoteway-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn shown(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    Ok(print(text)?)
}

/// What a user should see goes to standard error; `QUOTEWAY_LOG` chooses how much (error, warn, info, debug).
fn start_log() {
    let filter = EnvFilter::try_from_env("QUOTEWAY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    log.with_ansi(std::io::stderr().is_terminal()).log_internal_errors(false).init();
}
