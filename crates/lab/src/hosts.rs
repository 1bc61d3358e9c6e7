//! Hosts of a test that are machines of their own, reached by ssh. What is between source and client runs there; source and client run on this
//! machine, as in the reports, so that one clock has both ends of a latency and no other clock has to be believed.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

use tempfile::TempDir;

use super::product;
use measure::process::Fault;

/// What ssh is called with, and what leads to it: `QUOTEWAY_SSH` holds the command if it is another than `ssh`, with its flags (`ssh -p 2222`).
const SSH: &str = "QUOTEWAY_SSH";

/// A host as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// As ssh takes it: `[user@]name`.
    ssh: String,
    /// Where this machine reaches its sockets; what the name stands for, if it is not said.
    address: Option<IpAddr>,
}

/// No host has such a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host: [user@]name as ssh takes it, or [user@]name=address where the test's network is another")]
pub struct NoDestination(String);

impl FromStr for Destination {
    type Err = NoDestination;

    fn from_str(text: &str) -> Result<Self, NoDestination> {
        let wrong = || NoDestination(text.to_owned());
        let (ssh, address) = match text.split_once('=') {
            Some((ssh, address)) => (ssh, Some(address.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        // A name that begins like a flag would be one to ssh.
        let is_name = !ssh.is_empty() && !ssh.starts_with('-') && !ssh.contains(char::is_whitespace);
        is_name.then(|| Self { ssh: ssh.to_owned(), address }).ok_or_else(wrong)
    }
}

/// A host that was reached, with the product on it.
#[derive(Debug)]
struct Host {
    destination: String,
    address: IpAddr,
    /// Folder there of the product and its configurations.
    folder: String,
    /// What it is: kernel and processors.
    about: String,
}

/// The hosts of the system, one or two, and the way to them. What was put there is removed when this value goes.
#[derive(Debug)]
pub struct Hosts {
    all: Vec<Host>,
    /// Where they reach this machine.
    here: IpAddr,
    /// ssh and its flags: one connection a host for all that is done there.
    ssh: Vec<String>,
    _connections: TempDir,
}

impl Hosts {
    /// Reaches hosts and puts the product on them.
    ///
    /// # Errors
    /// One cannot be reached without a password, has no folder for the product, or cannot run it.
    pub fn reach(destinations: &[Destination]) -> Result<Self, Fault> {
        let connections = tempfile::tempdir().map_err(|e| format!("no folder for connections: {e}"))?;
        let named = std::env::var(SSH).unwrap_or_else(|_| "ssh".to_owned());
        let mut ssh: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
        let socket = connections.path().join("%C");
        for option in ["BatchMode=yes", "ControlMaster=auto", "ControlPersist=60"] {
            ssh.extend(["-o".to_owned(), option.to_owned()]);
        }
        ssh.extend(["-o".to_owned(), format!("ControlPath={}", socket.display())]);
        let mut hosts = Self { all: Vec::new(), here: LOOPBACK, ssh, _connections: connections };
        let program = product::binary()?;
        for destination in destinations {
            hosts.add(destination, &program)?;
        }
        let first = hosts.all.first().ok_or("no host is named")?;
        hosts.here = address_towards(first.address)?;
        Ok(hosts)
    }

    fn add(&mut self, destination: &Destination, program: &Path) -> Result<(), Fault> {
        let Destination { ssh, address } = destination;
        let address = address.map_or_else(|| resolved(ssh), Ok)?;
        let folder = self.ask(ssh, "mktemp -d", None)?.trim().to_owned();
        if folder.is_empty() || !folder.bytes().all(is_plain) {
            return Err(Fault::Failed(format!("{ssh}: mktemp names no folder, but {folder:?}")));
        }
        let about = self.ask(ssh, "uname -srm; nproc; sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1", None)?;
        let [kernel, processors, model] = std::array::from_fn(|n| about.lines().nth(n).unwrap_or("?"));
        let about = format!("{kernel}, {processors} processor(s) {model}");
        self.all.push(Host { destination: ssh.clone(), address, folder: folder.clone(), about });
        let bytes = std::fs::read(program).map_err(|e| format!("{}: {e}", program.display()))?;
        self.ask(ssh, &format!("cat > {folder}/quoteway && chmod 700 {folder}/quoteway"), Some(&bytes))?;
        let script = SCRIPT.replace("PROGRAM", &program.display().to_string());
        self.ask(ssh, &format!("cat > {folder}/run && chmod 700 {folder}/run"), Some(script.as_bytes()))?;
        let there = self.ask(ssh, &format!("{folder}/quoteway --version"), None)?;
        let here =
            Command::new(program).arg("--version").output().map_err(|e| format!("{}: {e}", program.display()))?;
        if there.as_bytes() != here.stdout {
            return Err(Fault::Failed(format!("{ssh}: quoteway says it is {there:?} there")));
        }
        Ok(())
    }

    /// How many hosts there are beside this one.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Where sources and clients are, as the system sees them.
    pub fn here(&self) -> IpAddr {
        self.here
    }

    /// Where the Source Distributor is.
    pub fn first(&self) -> IpAddr {
        self.all.first().map_or(LOOPBACK, |host| host.address)
    }

    /// Where the P2PSs are.
    pub fn last(&self) -> IpAddr {
        self.all.last().map_or(LOOPBACK, |host| host.address)
    }

    /// The hosts as a report names them.
    pub fn about(&self) -> String {
        let all = self.all.iter().map(|host| format!("{} ({})", host.destination, host.about));
        all.collect::<Vec<_>>().join("; ")
    }

    /// Which host a process of the system is on; `None` is this machine.
    fn of(&self, process: &str) -> Option<&Host> {
        match process {
            "source" | "client" => None,
            "server" => self.all.last(),
            _ => self.all.first(),
        }
    }

    /// The words in front of a command that run it on its host; none for this machine. It says `pid N` before anything else, and ends with its
    /// standard input.
    pub fn enter(&self, process: &str) -> Vec<String> {
        let Some(host) = self.of(process) else { return Vec::new() };
        let there = [host.destination.clone(), format!("{}/run", host.folder)];
        self.ssh.iter().cloned().chain(there).collect()
    }

    /// Puts a configuration where a process reads it; gives its path there, or `None` for this machine.
    ///
    /// # Errors
    /// It cannot be put there.
    pub fn put(&self, process: &str, name: &str, text: &str) -> Result<Option<String>, Fault> {
        let Some(host) = self.of(process) else { return Ok(None) };
        let path = format!("{}/{name}", host.folder);
        self.ask(&host.destination, &format!("cat > {path}"), Some(text.as_bytes()))?;
        Ok(Some(path))
    }

    /// Processor time so far of processes, each by what it is and its number on its host, in nanoseconds; `None` where a host does not say.
    pub fn cpu(&self, processes: &[(&'static str, u32)]) -> Option<u64> {
        let mut sum = 0;
        for host in &self.all {
            let is_here = |process: &str| self.of(process).is_some_and(|of| of.folder == host.folder);
            let numbers = processes.iter().filter(|(process, _)| is_here(process)).map(|(_, number)| number);
            let files: Vec<String> = numbers.map(|number| format!("/proc/{number}/task/*/schedstat")).collect();
            if !files.is_empty() {
                let text = self.ask(&host.destination, &format!("cat {}", files.join(" ")), None).ok()?;
                let used = text.lines().map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
                sum += used.sum::<Option<u64>>()?;
            }
        }
        (!processes.is_empty()).then_some(sum)
    }

    /// Does something on a host; gives what it writes.
    fn ask(&self, destination: &str, command: &str, input: Option<&[u8]>) -> Result<String, Fault> {
        let wrong = |what: String| Fault::Failed(format!("{destination}: {what}"));
        let (program, flags) = self.ssh.split_first().ok_or("QUOTEWAY_SSH is empty")?;
        let mut child = Command::new(program)
            .args(flags)
            .args([destination, command])
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| wrong(format!("{program} cannot be started: {e}")))?;
        let written = match (child.stdin.take(), input) {
            (Some(mut stdin), Some(bytes)) => stdin.write_all(bytes),
            _ => Ok(()),
        };
        let output = child.wait_with_output().map_err(|e| wrong(e.to_string()))?;
        if !output.status.success() || written.is_err() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let why = if said.is_empty() { output.status.to_string() } else { said };
            return Err(wrong(format!("`{command}` by {program}, which may ask for no password: {why}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &self.all {
            let folder = &host.folder;
            let _ = self.ask(&host.destination, &format!("rm -r {folder}"), None);
        }
    }
}

/// Everything is on loopback.
pub const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Runs a command there until it ends or this script's input does, which ends with the lab; by whatever way that came.
const SCRIPT: &str = r#"#!/bin/sh
folder=${0%/*}
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    if [ "$word" = 'PROGRAM' ]; then word=$folder/quoteway; fi
    set -- "$@" "$word"
    left=$((left - 1))
done
export QUOTEWAY_LOG=warn
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
echo "pid $program"
(
    cat <&3
    kill -9 "$program"
) >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait "$program"
status=$?
kill "$watch" 2>/dev/null
exit "$status"
"#;

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)
}

/// What a name stands for.
fn resolved(ssh: &str) -> Result<IpAddr, Fault> {
    let name = ssh.rsplit('@').next().unwrap_or(ssh);
    let found = (name, 22).to_socket_addrs().ok().and_then(|mut all| all.find(SocketAddr::is_ipv4));
    let found = found.ok_or_else(|| format!("{name} stands for no IPv4 address: --host {ssh}=ADDRESS says which"))?;
    Ok(found.ip())
}

/// This machine's address on the way to another.
fn address_towards(other: IpAddr) -> Result<IpAddr, Fault> {
    let find = || {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        // Nothing is sent: the kernel chooses the way.
        socket.connect((other, 9))?;
        socket.local_addr()
    };
    Ok(find().map_err(|e| format!("no way to {other}: {e}"))?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_as_for_ssh() {
        let named = |text: &str| text.parse::<Destination>();
        assert_eq!(named("me@far"), Ok(Destination { ssh: "me@far".to_owned(), address: None }));
        let apart = Destination { ssh: "far".to_owned(), address: Some([10, 1, 1, 2].into()) };
        assert_eq!(named("far=10.1.1.2"), Ok(apart));
        for wrong in ["", "=10.1.1.2", "far=near", "-oProxyCommand=x", "a b"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_that_is_not_there_is_named() {
        let wrong = resolved("me@no.such.host.invalid").unwrap_err().to_string();
        assert!(wrong.contains("--host me@no.such.host.invalid=ADDRESS"), "{wrong}");
    }
}
