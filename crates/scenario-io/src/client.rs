//! The client under test: a process whose lines are read.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A line that is longer is cut there, bytes.
const LINE_MAX: usize = 64 << 10;

/// A command that starts a client: program and arguments, in which `{host}`, `{port}` and `{address}` stand for the server's, and `{port2}`
/// and `{address2}` for the second one's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start(pub Vec<String>);

/// A client that runs. It ends with this value, and all that it has started with it.
#[derive(Debug)]
pub struct Client {
    child: Child,
    lines: Option<ChildStdout>,
    begun: Vec<u8>,
}

impl Client {
    /// Starts a client of the servers at `at`; the first one's address is in its arguments and in `QUOTEWAY_HOST` and `QUOTEWAY_PORT`, a second
    /// one's port in `{port2}`, `{address2}` and `QUOTEWAY_PORT_2`, which stand for nothing where there is no such server.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(start: &Start, at: &[SocketAddr], quiet: bool) -> io::Result<Self> {
        let [at, others @ ..] = at else { return Err(io::Error::other("there is no server to connect to")) };
        let port_2 = others.first().map(|other| other.port().to_string());
        let address_2 = others.first().map(SocketAddr::to_string).unwrap_or_default();
        let (host, port) = (at.ip().to_string(), at.port().to_string());
        let placed = |text: &String| {
            let text = text.replace("{address}", &at.to_string()).replace("{host}", &host).replace("{port}", &port);
            text.replace("{address2}", &address_2).replace("{port2}", port_2.as_deref().unwrap_or_default())
        };
        let mut words = start.0.iter().map(placed);
        let program = words.next().ok_or_else(|| io::Error::other("no command stands behind --"))?;
        let mut command = Command::new(program);
        match &port_2 {
            Some(port) => command.env("QUOTEWAY_PORT_2", port),
            None => command.env_remove("QUOTEWAY_PORT_2"),
        };
        let mut child = command
            .args(words)
            .env("QUOTEWAY_HOST", &host)
            .env("QUOTEWAY_PORT", &port)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(if quiet { Stdio::null() } else { Stdio::inherit() })
            .process_group(0)
            .spawn()?;
        let lines = child.stdout.take();
        Ok(Self { child, lines, begun: Vec::new() })
    }

    /// The end of the pipe that becomes readable when the client writes.
    pub fn output(&self) -> Option<BorrowedFd<'_>> {
        self.lines.as_ref().map(|lines| lines.as_fd())
    }

    /// Takes what the client has written, when its output is readable: whole lines. `false`: there will be no more, and
    /// [`Client::output`] is the caller's to be given up before [`Client::close_output`].
    ///
    /// # Errors
    /// The pipe cannot be read.
    pub fn read(&mut self, mut line: impl FnMut(&str)) -> io::Result<bool> {
        let Some(lines) = &mut self.lines else { return Ok(false) };
        let mut buffer = [0; 16 << 10];
        let count = lines.read(&mut buffer)?;
        self.begun.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            line(String::from_utf8_lossy(&self.begun[..end]).trim_end());
            self.begun.drain(..=end);
        }
        if self.begun.len() > LINE_MAX {
            self.begun.clear();
        }
        Ok(count > 0)
    }

    /// The output is read no more.
    pub fn close_output(&mut self) {
        self.lines = None;
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The system does not say.
    pub fn ended(&mut self) -> io::Result<Option<String>> {
        Ok(self.child.try_wait()?.map(|status| status.to_string()))
    }

    /// Its resident memory, bytes; `None` where the system does not say.
    pub fn memory(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The whole group: a shell or a build tool may stand between. Who is gone by then is what is wanted.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
