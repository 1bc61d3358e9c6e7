//! Consumers in processes of their own, as many for each P2PS: more of them than one process may have open files for.

use std::io::BufRead;
use std::net::SocketAddr;

use measure::process::{Fault, Process};
use net::tcp::SocketOptions;

use super::swarm::Swarm;
use crate::chain::{PATIENCE, words};
use crate::product;

/// Brings all consumers of a process, and what it answers in front of the seconds that took.
const BRING: &str = "bring";
const BACK: &str = "back ";
/// Has all of them gone without a word, and the answer.
const DROP: &str = "drop";
const GONE: &str = "gone";

/// What a process of consumers is asked.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Where they connect
    #[arg(long)]
    server: SocketAddr,
    /// How many there are
    #[arg(long)]
    count: usize,
}

/// Does what the lines of the input say, until it ends.
///
/// # Errors
/// A consumer does not get in, or the lab was stopped.
pub fn run(load: &Load) -> Result<(), Fault> {
    let mut swarm = Swarm::new(load.server, SocketOptions::default())?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        match line.map_err(|e| format!("commands: {e}"))?.as_str() {
            BRING => println!("{BACK}{}", swarm.bring(load.count)?),
            DROP => {
                swarm.drop_all()?;
                println!("{GONE}");
            }
            other => return Err(Fault::Failed(format!("no command {other:?}"))),
        }
    }
    Ok(())
}

/// The processes, one for each P2PS.
pub(super) struct Swarms(Vec<Process>);

impl Swarms {
    /// `count` consumers in all, spread evenly over the servers. None has come yet.
    ///
    /// # Errors
    /// A process does not start.
    pub(super) fn start(servers: &[SocketAddr], count: u32) -> Result<Self, Fault> {
        let each = (count as usize).div_ceil(servers.len().max(1));
        let start = |server: &SocketAddr| {
            let args = words(&format!("swarm --server {server} --count {each}"));
            let mut process = product::start_part("consumers", &[], &args)?;
            process.wait_for("ready", PATIENCE)?;
            Ok(process)
        };
        servers.iter().map(start).collect::<Result<_, Fault>>().map(Self)
    }

    /// All of them come, as fast as the servers let them. Seconds until the last one is logged in.
    ///
    /// # Errors
    /// One is refused, or the lab was stopped.
    pub(super) fn bring(&mut self) -> Result<f64, Fault> {
        self.0.iter_mut().try_for_each(|process| process.tell(BRING))?;
        let mut last = 0.0_f64;
        for process in &mut self.0 {
            let text = process.wait_for(BACK, 4.0 * PATIENCE)?.text;
            let seconds = text.strip_prefix(BACK).and_then(|seconds| seconds.parse().ok());
            last = last.max(seconds.ok_or_else(|| process.failed("does not say how long it took"))?);
        }
        Ok(last)
    }

    /// All are gone at once, without a word.
    ///
    /// # Errors
    /// A process has ended.
    pub(super) fn drop_all(&mut self) -> Result<(), Fault> {
        self.0.iter_mut().try_for_each(|process| process.tell(DROP))?;
        self.0.iter_mut().try_for_each(|process| process.wait_for(GONE, PATIENCE).map(drop))
    }
}
