//! Where a part of a test runs: this machine's loopback, or a host of a test network.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread::{Builder, JoinHandle};

use measure::process::Process;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::hosts::Host;

/// A place.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// This machine, over the loopback.
    Here,
    /// A host of a test network, by its network namespace.
    Host { namespace: String, address: Ipv4Addr },
}

impl From<&Host> for Place {
    fn from(host: &Host) -> Self {
        Self::Host { namespace: host.namespace().to_owned(), address: host.address }
    }
}

impl Place {
    /// Its address.
    pub(crate) fn address(&self) -> Ipv4Addr {
        match self {
            Self::Here => Ipv4Addr::LOCALHOST,
            Self::Host { address, .. } => *address,
        }
    }

    /// Runs a thread there: the sockets that it opens are of the place.
    pub(crate) fn spawn(&self, name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        let place = self.clone();
        let run = move || {
            if let Self::Host { namespace, .. } = place {
                let file = File::open(format!("/var/run/netns/{namespace}")).expect("the host is up");
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
            }
            f();
        };
        Builder::new().name(name.into()).spawn(run).expect("a thread")
    }

    fn command(&self) -> Command {
        let binary = env!("CARGO_BIN_EXE_quoteway");
        match self {
            Self::Here => Command::new(binary),
            Self::Host { namespace, .. } => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, binary]);
                command
            }
        }
    }

    /// Runs `quoteway` there to its end and gives what it wrote.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.command().args(args).output().expect("quoteway runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Starts `quoteway` there and gives it with the first line that it writes on standard output.
    pub(crate) fn start(&self, name: &str, args: &[String]) -> (Process, String) {
        Self::begin(name, self.command(), args)
    }

    /// As [`Place::start`], as the user `nobody`.
    pub(crate) fn start_as_nobody(&self, name: &str, args: &[String]) -> (Process, String) {
        let mut command = Command::new("ip");
        let Self::Host { namespace, .. } = self else { panic!("{name}: only a host has other users") };
        command.args(["netns", "exec", namespace, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_quoteway"));
        Self::begin(name, command, args)
    }

    fn begin(name: &str, mut command: Command, args: &[String]) -> (Process, String) {
        command.args(args).env_remove("QUOTEWAY_LOG");
        let started = Process::start(name, &mut command);
        let mut process = started.unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        let ready = process.wait_for("ready ", 30.0).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        (process, ready.text)
    }
}
