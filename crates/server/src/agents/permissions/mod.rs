//! Permissions of a process: where rights come from, where the audit goes, and how both reach the P2PSs of the process.
//!
//! ```text
//! rights file, or a server -> [thread "rights"] -- commands --> [ThreadPermissions of each P2PS thread] -- bounded queue --> [thread "audit"] -> audit file
//!                                                 ^      |
//!                         Administration (REST) --+      +-- who is on, to the other threads
//! ```
//!
//! `ThreadPermissions` hands its P2PS the commands and takes its audit lines, in its thread's turns. While the audit file takes nothing, the
//! queue fills, then that of the P2PS, and then logins, requests and posts wait: no line is lost.

mod administration;
mod audit;
pub(crate) mod rights;
mod thread;

pub use administration::{Administration, On};
pub use thread::ThreadPermissions;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use config::Config;
use net::Waker;
use permissions::rights::{Explanation, Rights};
use permissions::{Mode, Usage};

use audit::AuditFile;

/// Lines that may be on their way to the audit's thread.
const QUEUE: usize = 4_096;

/// A change of rights, or a question of an administrator, for one P2PS thread.
enum Command {
    /// New rights, checked as a whole.
    Rights(Arc<Rights>),
    /// The source of rights cannot be read.
    Lost,
    /// The source of rights can be read again, and says what it said.
    Back,
    /// A connection of a user at a position has logged in at another P2PS of this process, or is over.
    Elsewhere { user: Arc<str>, position: Arc<str>, is_on: bool },
    /// End all logins of a user; the answer is their number.
    ForceLogout(String, Sender<usize>),
    /// Check again what a user, or everybody, has open.
    Repermission(Option<String>),
    /// Asks for the users that are on.
    WhoIsOn(Sender<Vec<On>>),
    /// Why may a user (name, position, application) see an item of a service, or not?
    Explain((String, String, u32), String, String, Sender<Option<Explanation>>),
    /// Asks for the usage of today so far.
    Usage(Sender<Usage>),
}

/// Commands for one P2PS thread.
struct CommandQueue {
    commands: Mutex<Vec<Command>>,
    /// Whether there are some: looked at in each turn without taking the lock.
    has_commands: AtomicBool,
    waker: Waker,
}

impl CommandQueue {
    fn push(&self, command: Command) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        self.has_commands.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn take(&self) -> Vec<Command> {
        if !self.has_commands.load(Ordering::Relaxed) || !self.has_commands.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rights of the process and the queues of its P2PS threads, as those, the source of rights and administrators share them.
#[derive(Default)]
struct SharedRights {
    queues: Mutex<Vec<Arc<CommandQueue>>>,
    /// The rights of now; `None` while there are none.
    rights: Mutex<Option<Arc<Rights>>>,
}

impl SharedRights {
    fn queues(&self) -> Vec<Arc<CommandQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn send_to_all(&self, command: impl Fn() -> Command) {
        for queue in self.queues() {
            queue.push(command());
        }
    }

    fn rights(&self) -> Option<Arc<Rights>> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn publish(&self, rights: &Arc<Rights>) {
        *self.rights.lock().unwrap_or_else(PoisonError::into_inner) = Some(rights.clone());
        self.send_to_all(|| Command::Rights(rights.clone()));
    }
}

/// The permissions of a process that are not off. Ends its threads when dropped: drop those of the threads first, so that their last lines are
/// written.
pub struct Permissioning {
    shared: Arc<SharedRights>,
    lines: Option<SyncSender<audit::Line>>,
    stop: Arc<AtomicBool>,
    rights: Option<JoinHandle<()>>,
    audit: Option<JoinHandle<()>>,
}

impl Permissioning {
    /// Reads the rights, opens the audit file, and starts the threads; `None` where permissions are off.
    ///
    /// # Errors
    /// The rights file cannot be read, or has faults, all of which are told; what a server of rights is asked with, or the audit file, cannot
    /// be opened.
    pub fn start(config: &Config) -> io::Result<Option<Self>> {
        let c = &config.permissions;
        if c.mode.0 == Mode::Off {
            return Ok(None);
        }
        let shared = Arc::<SharedRights>::default();
        let stop = Arc::<AtomicBool>::default();
        let source = rights::Source::open(c)?;
        if let Some(rights) = source.rights() {
            shared.publish(&rights);
        }
        let (mut lines, mut audit) = (None, None);
        if c.audit_file.is_empty() {
            tracing::warn!("permissions are {}, and no audit is written: permissions.audit_file is not set", c.mode);
        } else {
            let file = AuditFile::open(c)?;
            let (sender, receiver) = sync_channel(QUEUE);
            audit = Some(audit::start(file, receiver, stop.clone())?);
            lines = Some(sender);
        }
        let grace = Duration::from_secs(c.rights_grace_s.into());
        let rights = rights::start(source, grace, shared.clone(), stop.clone())?;
        Ok(Some(Self { shared, lines, stop, rights, audit }))
    }

    /// Permissions for the P2PS of a thread, which `waker` wakes.
    pub fn of_thread(&self, shard: u16, waker: Waker) -> ThreadPermissions {
        let queue = Arc::new(CommandQueue { commands: Mutex::default(), has_commands: AtomicBool::new(false), waker });
        self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner).push(queue.clone());
        if let Some(rights) = self.shared.rights() {
            queue.push(Command::Rights(rights));
        }
        ThreadPermissions::new(shard, queue, self.shared.clone(), self.lines.clone())
    }

    /// The administration of permissions; for any thread.
    pub fn administration(&self) -> Administration {
        Administration::new(self.shared.clone())
    }
}

impl Drop for Permissioning {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.lines = None;
        for thread in [self.rights.take(), self.audit.take()].into_iter().flatten() {
            thread.thread().unpark();
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}
