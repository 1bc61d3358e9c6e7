//! Processes of a run: children, their lines with the time at which they came.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The user has stopped the lab.
    #[error("stopped")]
    Stopped,
    /// What went wrong.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}

/// A line that a process has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was read, monotonic nanoseconds.
    pub at: u64,
    /// The line came on standard output.
    pub is_output: bool,
    /// Without its end.
    pub text: String,
}

/// A running process, which does not outlive this value.
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Line>,
    /// What it has written on standard error, for when it fails.
    errors: Vec<String>,
}

const SECOND: u64 = 1_000_000_000;

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Result<Self, Fault> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{name} cannot be started: {e}"))?;
        let (sender, lines) = channel();
        let output = child.stdout.take().map(|s| (true, Box::new(s) as Box<dyn Read + Send>));
        let error = child.stderr.take().map(|s| (false, Box::new(s) as Box<dyn Read + Send>));
        for (is_output, stream) in [output, error].into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for text in BufReader::new(stream).lines() {
                    let Ok(text) = text else { return };
                    if sender.send(Line { at: net::clock::now(), is_output, text }).is_err() {
                        return;
                    }
                }
            });
        }
        let input = child.stdin.take();
        Ok(Self { name: name.to_owned(), child, input, lines, errors: Vec::new() })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line; `None` when the process has closed its streams.
    ///
    /// # Errors
    /// The user has stopped the lab, or nothing came for so many seconds.
    pub fn next_line(&mut self, patience_s: f64) -> Result<Option<Line>, Fault> {
        let end = net::clock::now() + (patience_s * SECOND as f64) as u64;
        loop {
            if stopped() {
                return Err(Fault::Stopped);
            }
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    if !line.is_output {
                        self.errors.push(line.text.clone());
                    }
                    return Ok(Some(line));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if net::clock::now() > end => {
                    return Err(self.failed(&format!("said nothing for {patience_s:.0} seconds")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits for a line that contains `sign`.
    ///
    /// # Errors
    /// It does not come, or the lab was stopped.
    pub fn wait_for(&mut self, sign: &str, patience_s: f64) -> Result<Line, Fault> {
        while let Some(line) = self.next_line(patience_s)? {
            if line.text.contains(sign) {
                return Ok(line);
            }
        }
        Err(self.failed(&format!("ended without {sign:?}")))
    }

    /// Waits for the end; gives the last line that is a JSON object.
    ///
    /// # Errors
    /// There is none, or the lab was stopped.
    pub fn json(&mut self, patience_s: f64) -> Result<serde_json::Value, Fault> {
        let mut last = None;
        while let Some(line) = self.next_line(patience_s)? {
            if line.is_output && line.text.starts_with('{') {
                last = serde_json::from_str(&line.text).ok();
            }
        }
        last.ok_or_else(|| self.failed("ended without a result"))
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// It reads no more.
    pub fn tell(&mut self, line: &str) -> Result<(), Fault> {
        let written = self.input.as_mut().map(|input| input.write_all(format!("{line}\n").as_bytes()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed("takes no commands any more")),
        }
    }

    /// Processor time of its threads so far, in nanoseconds; `None` where the kernel does not say or it is gone.
    pub fn cpu(&self) -> Option<u64> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).ok()?.flatten();
        let used = threads.map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        let used: Vec<u64> = used.flatten().collect();
        (!used.is_empty()).then(|| used.iter().sum())
    }

    /// Resident bytes.
    ///
    /// # Errors
    /// It is gone.
    pub fn resident(&self) -> Result<u64, Fault> {
        net::memory::Memory::of(self.id()).map(|m| m.resident).map_err(|e| self.failed(&e.to_string()))
    }

    /// A fault that names the process and what it last complained of.
    pub fn failed(&self, what: &str) -> Fault {
        let said = self.errors.iter().rev().take(3).rev().cloned().collect::<Vec<_>>().join("; ");
        let said = if said.is_empty() { said } else { format!(" ({said})") };
        Fault::Failed(format!("{} {what}{said}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the user wants the lab to end.
pub fn stopped() -> bool {
    net::signal::stop_requested() > 0
}

/// Sleeps, unless the lab is stopped.
///
/// # Errors
/// It is.
pub fn pause(seconds: f64) -> Result<(), Fault> {
    let end = net::clock::now() + (seconds * SECOND as f64) as u64;
    while net::clock::now() < end {
        if stopped() {
            return Err(Fault::Stopped);
        }
        std::thread::sleep(Duration::from_millis(20).min(Duration::from_nanos(end.saturating_sub(net::clock::now()))));
    }
    Ok(())
}
