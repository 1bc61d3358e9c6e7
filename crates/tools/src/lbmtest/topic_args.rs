//! Flags of both tools: topics, options, how to wait, what to record.

use anyhow::anyhow;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lbm_io::options::Options;
use lbm_io::{Context, Warning};
use net::affinity::{CpuList, Priority};

use measure::observer::{End, Observer, Plan};

/// Arguments of `lbmpub` and `lbmsub`.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
pub struct TopicArgs {
    /// Topic; with --topics a number follows it
    #[arg(long, value_name = "NAME", default_value = "quoteway.test")]
    pub topic: String,

    /// How many topics: NAME.0 to NAME.(N-1)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub topics: u32,

    /// Options to start from: the two sets of the reports
    #[arg(long, value_enum, default_value_t = Profile::Latency)]
    pub profile: Profile,

    /// File of LBM options (context|source|receiver NAME VALUE a line), read over the profile; may be given several times
    #[arg(long = "options", value_name = "FILE")]
    pub option_files: Vec<PathBuf>,

    /// Refuse option files with lines that have no effect here; without it each is a warning
    #[arg(long)]
    pub strict_options: bool,

    /// One LBM option as a line of such a file, for example 'source transport_lbtrm_ignore_interval 15'; may be given several times
    #[arg(short = 'o', long = "option", value_name = "LINE")]
    pub option_lines: Vec<String>,

    /// What to do while there is nothing to do
    #[arg(long, value_enum, default_value_t = Idle::Block)]
    pub idle: Idle,

    /// Run on these processors only, for example 1 or 2-3
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,

    /// Run with this real-time priority (SCHED_FIFO, 1 to 99)
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,

    /// Write every observed message to this file after the test; `quoteway lab observed` reads those of both ends
    #[arg(long, value_name = "FILE")]
    pub observe: Option<PathBuf>,

    /// Observe one of so many messages
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub observe_every: u32,

    /// Observations for which memory is taken before the test
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    pub observe_capacity: usize,

    /// Only the line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Where the options start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Every message at once, in datagrams of one Ethernet frame
    Latency,
    /// Messages together in datagrams of up to 8 KB
    Throughput,
    /// The options' defaults
    None,
}

impl Profile {
    fn lines(self) -> &'static str {
        match self {
            Self::Latency => {
                "source transport lbtrm
                 source implicit_batching_minimum_length 1
                 context transport_datagram_max_size 1472
                 context transport_lbtrm_receiver_socket_buffer 8388608
                 context transport_session_multiple_sending_threads 0
                 source transport_lbtrm_ignore_interval 15"
            }
            Self::Throughput => {
                "source transport lbtrm
                 source implicit_batching_minimum_length 8192
                 source implicit_batching_interval 3
                 context transport_lbtrm_receiver_socket_buffer 8388608
                 context transport_session_multiple_sending_threads 0"
            }
            Self::None => "source transport lbtrm",
        }
    }
}

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// Sleep in the kernel until something happens
    Block,
    /// Look again and again, and let others run in between
    Yield,
    /// Look again and again
    Spin,
}

impl TopicArgs {
    /// Profile, then files, then lines.
    ///
    /// # Errors
    /// Every bad line with its place and the nearest option.
    pub fn options(&self, more: &str) -> anyhow::Result<Options> {
        let mut options = Options::new();
        let told = |errors: Vec<lbm_io::options::OptionError>| {
            anyhow!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        };
        options.parse("profile", self.profile.lines()).map_err(told)?;
        options.parse("profile", more).map_err(told)?;
        for file in &self.option_files {
            let text = std::fs::read_to_string(file).map_err(|e| anyhow!("{}: {e}", file.display()))?;
            let name = file.display().to_string();
            let warnings: Vec<String> =
                options.load(&name, &text).map_err(told)?.iter().map(ToString::to_string).collect();
            if self.strict_options && !warnings.is_empty() {
                return Err(anyhow!(warnings.join("\n")));
            }
            for warning in warnings {
                eprintln!("{warning}");
            }
        }
        for line in &self.option_lines {
            options.parse("-o", line).map_err(|errors| {
                anyhow!(errors.iter().map(|e| format!("-o '{line}': {}", e.fault)).collect::<Vec<_>>().join("\n"))
            })?;
        }
        Ok(options)
    }

    /// The topics' names.
    pub fn names(&self) -> Vec<String> {
        match self.topics {
            1 => vec![self.topic.clone()],
            n => (0..n).map(|i| format!("{}.{i}", self.topic)).collect(),
        }
    }

    /// Processors and priority, as asked for.
    ///
    /// # Errors
    /// A text for the user: not a list of processors, or the system refuses.
    pub(super) fn place_thread(&self) -> anyhow::Result<()> {
        if let Some(cpus) = &self.cpus {
            let list: CpuList = cpus.parse().map_err(|e| anyhow!("--cpus {cpus}: {e}"))?;
            list.pin().map_err(|e| anyhow!("--cpus {cpus}: {e}"))?;
        }
        if let Some(priority) = self.fifo {
            Priority::Fifo(priority)
                .apply()
                .map_err(|e| anyhow!("--fifo {priority}: {e} (it takes root, or CAP_SYS_NICE)"))?;
        }
        Ok(())
    }

    /// The observer, if there is to be one, with its file; its memory is touched now.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(super) fn observer(&self, end: End) -> anyhow::Result<Option<Observer>> {
        let plan = Plan { capacity: self.observe_capacity, every: self.observe_every, connections: 1 };
        Ok(self.observe.as_deref().map(|path| Observer::writing(path, end, &plan)).transpose()?)
    }
}

/// Tells the operator what works less well than asked for.
pub(super) fn warn(context: &mut Context) {
    for warning in context.warnings() {
        tell(&warning);
    }
}

fn tell(warning: &Warning) {
    tracing::warn!("{warning}");
}
