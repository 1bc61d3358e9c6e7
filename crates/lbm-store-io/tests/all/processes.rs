//! Processes of a test, and what they have said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::roles;

/// Longer than anything takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Lines of options by which a test has groups and ports of its own; messages that are not stable are sent again soon.
pub(crate) fn lines(transport: &str) -> String {
    lbm_trials::lines::lines(transport) + "source ume_message_stability_timeout 500\n"
}

/// A process that plays a role.
pub(crate) struct Role {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Role {
    pub(crate) fn start(role: &str, options: &str, more: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "roles::the_process_that_is_killed", "--nocapture"]);
        command.env(roles::ROLE, role).env(roles::OPTIONS, options).envs(more.iter().cloned());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (send, said) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, said }
    }

    /// The next line, if one comes within so long.
    pub(crate) fn line(&mut self, patience: Duration) -> Option<String> {
        match self.said.recv_timeout(patience) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("it has ended by itself: {:?}", self.child.wait()),
        }
    }

    /// What is behind this word on the next line that begins with it.
    pub(crate) fn wait_for(&mut self, word: &str, record: &mut Record) -> String {
        let began = Instant::now();
        loop {
            let left = PATIENCE.checked_sub(began.elapsed()).unwrap_or_else(|| panic!("no {word} came"));
            let Some(line) = self.line(left) else { continue };
            record.note(&line);
            // The harness of tests prints the name of the test before it.
            if let Some(at) = line.find(word) {
                return line[at + word.len()..].trim().to_owned();
            }
        }
    }

    /// As `kill -9`; what it has said until then is noted.
    pub(crate) fn kill(mut self, record: &mut Record) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it is over");
        while let Ok(line) = self.said.recv() {
            record.note(&line);
        }
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A store, and how it is started again.
pub(crate) struct StoreProcess {
    options: String,
    folder: Option<tempfile::TempDir>,
    limits: Option<(u64, u64)>,
    pub(crate) address: SocketAddrV4,
    role: Option<Role>,
}

impl StoreProcess {
    pub(crate) fn start(options: &str, on_disk: bool) -> Self {
        let folder = on_disk.then(|| tempfile::tempdir().expect("a folder"));
        let mut store = Self {
            options: options.to_owned(),
            folder,
            limits: None,
            address: SocketAddrV4::new([127, 0, 0, 1].into(), 0),
            role: None,
        };
        store.begin();
        store
    }

    /// Starts it again with so many bytes of messages, and of the log, at most.
    pub(crate) fn limit(&mut self, messages: u64, log: u64) {
        self.kill();
        self.limits = Some((messages, log));
        self.begin();
    }

    /// Starts it where it was.
    pub(crate) fn begin(&mut self) {
        let mut more = vec![(roles::PORT, self.address.port().to_string())];
        if let Some(folder) = self.folder() {
            more.push((roles::FOLDER, folder.display().to_string()));
        }
        if let Some((messages, log)) = self.limits {
            more.push((roles::LIMITS, format!("{messages} {log}")));
        }
        let mut role = Role::start("store", &self.options, &more);
        self.address = role.wait_for("ready ", &mut Record::default()).parse().expect("an address");
        self.role = Some(role);
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(tempfile::TempDir::path)
    }

    pub(crate) fn kill(&mut self) {
        if let Some(role) = self.role.take() {
            role.kill(&mut Record::default());
        }
    }
}

/// Options of a source with these stores.
pub(crate) fn with_stores<'a>(options: &str, stores: impl IntoIterator<Item = &'a StoreProcess>) -> String {
    let mut lines = format!("{options}source ume_session_id 1\nreceiver ume_session_id 2\n");
    for store in stores {
        writeln!(lines, "source ume_store {}", store.address).expect("a text");
    }
    lines
}

/// The lines that all processes of a test have written, over all their lives.
#[derive(Default, Debug)]
pub(crate) struct Record {
    /// Messages that a source was told are stable.
    pub(crate) stable: BTreeSet<u64>,
    /// Of each message: how often it came, and how often without its flag.
    pub(crate) had: BTreeMap<u64, (u32, u32)>,
    /// The message before, in the present life of the receiver.
    last: Option<u64>,
    pub(crate) gone: u64,
}

impl Record {
    /// A new life of the receiver begins.
    pub(crate) fn begin_receiver(&mut self) {
        self.last = None;
    }

    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "stable" => drop(self.stable.insert(number(1))),
            "had" => {
                let id = number(1);
                assert!(self.last.is_none_or(|last| last < id), "message {id:x} came behind {:x?}", self.last);
                self.last = Some(id);
                let had = self.had.entry(id).or_default();
                had.0 += 1;
                had.1 += u32::from(words[3] == "0");
            }
            "gone" => self.gone += number(2),
            "superseded" => panic!("a source was superseded"),
            _ => {}
        }
    }

    /// Takes the lines that have come.
    pub(crate) fn read(&mut self, role: &mut Role) {
        while let Some(line) = role.line(Duration::ZERO) {
            self.note(&line);
        }
    }

    /// Takes lines until all that is stable was delivered.
    pub(crate) fn wait_for_stable(&mut self, receiver: &mut Role) {
        let began = Instant::now();
        while let Some(missing) = self.stable.iter().find(|id| !self.had.contains_key(id)) {
            assert!(began.elapsed() < PATIENCE, "message {missing:x} was stable and did not come");
            if let Some(line) = receiver.line(Duration::from_secs(1)) {
                self.note(&line);
            }
        }
    }

    /// Takes lines until this message was delivered.
    pub(crate) fn wait_for_message(&mut self, id: u64, receiver: &mut Role) {
        let began = Instant::now();
        while !self.had.contains_key(&id) {
            assert!(began.elapsed() < PATIENCE, "message {id:x} did not come");
            if let Some(line) = receiver.line(Duration::from_secs(1)) {
                self.note(&line);
            }
        }
    }

    /// Nothing that is stable is missing, and nothing came twice without its flag.
    pub(crate) fn check(&self, what: &str) {
        let missing = self.stable.iter().find(|id| !self.had.contains_key(id));
        assert_eq!(missing, None, "{what}: was stable and did not come");
        let twice = self.had.iter().find(|(_, (_, unflagged))| *unflagged > 1);
        assert_eq!(twice, None, "{what}: came twice without its flag");
    }
}
