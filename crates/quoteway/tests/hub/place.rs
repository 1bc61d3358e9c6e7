//! Where a part of a test runs: this machine's loopback, or a host of a test network.

use std::net::Ipv4Addr;
use std::process::Command;
use std::thread::{Builder, JoinHandle};

use quoteway::lab::process::Process;

/// A place.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// This machine, over the loopback.
    Here,
}

impl Place {
    /// Its address.
    pub(crate) fn address(&self) -> Ipv4Addr {
        match self {
            Self::Here => Ipv4Addr::LOCALHOST,
        }
    }

    /// Runs a thread there.
    pub(crate) fn spawn(&self, name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        match self {
            Self::Here => Builder::new().name(name.into()).spawn(f).expect("a thread"),
        }
    }

    /// Starts `quoteway` there and gives it with the first line that it writes on standard output.
    pub(crate) fn start(&self, name: &str, args: &[String]) -> (Process, String) {
        let mut process = match self {
            Self::Here => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
                Process::start(name, command.args(args).env_remove("QUOTEWAY_LOG"))
            }
        }
        .unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        let line = process.wait_for("ready ", 30.0).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        (process, line.text)
    }
}
