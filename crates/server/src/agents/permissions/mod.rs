//! Who may see what, as a process has it: where rights come from, where the audit goes, and how both reach the P2PSs of the process.
//!
//! ```text
//! rights file, or a server -> [thread "rights"] -- mail --> [Clerk of each P2PS thread] -- bounded queue --> [thread "audit"] -> audit file
//!                                                 ^      |
//!                         Administration (REST) --+      +-- who is on, to the other clerks
//! ```
//!
//! A clerk hands its P2PS what came by mail and takes its audit lines, in its thread's turns. While the audit file takes nothing, the
//! queue fills, then that of the P2PS, and then logins, requests and posts wait: no line is lost.

mod administration;
mod audit;
mod clerk;
pub(crate) mod rights;

pub use administration::{Administration, On};
pub use clerk::Clerk;

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

/// What a clerk is told.
enum Mail {
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
    /// Who is on?
    WhoIsOn(Sender<Vec<On>>),
    /// Why may a user (name, position, application) see an item of a service, or not?
    Explain((String, String, u32), String, String, Sender<Option<Explanation>>),
    /// What was used today so far?
    Usage(Sender<Usage>),
}

/// The mail of one clerk.
struct Inbox {
    mail: Mutex<Vec<Mail>>,
    /// There is some: looked at in each turn without taking the lock.
    has_mail: AtomicBool,
    waker: Waker,
}

impl Inbox {
    fn post(&self, mail: Mail) {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
        self.has_mail.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn take(&self) -> Vec<Mail> {
        if !self.has_mail.load(Ordering::Relaxed) || !self.has_mail.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What clerks, threads and administrators share.
#[derive(Default)]
struct Office {
    inboxes: Mutex<Vec<Arc<Inbox>>>,
    /// The rights of now; `None` while there are none.
    rights: Mutex<Option<Arc<Rights>>>,
}

impl Office {
    fn inboxes(&self) -> Vec<Arc<Inbox>> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell_all(&self, mail: impl Fn() -> Mail) {
        for inbox in self.inboxes() {
            inbox.post(mail());
        }
    }

    fn rights(&self) -> Option<Arc<Rights>> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn publish(&self, rights: &Arc<Rights>) {
        *self.rights.lock().unwrap_or_else(PoisonError::into_inner) = Some(rights.clone());
        self.tell_all(|| Mail::Rights(rights.clone()));
    }
}

/// The permissions of a process that are not off. Ends its threads when dropped: drop the clerks first, so that their last lines are
/// written.
pub struct Permissioning {
    office: Arc<Office>,
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
        let office = Arc::<Office>::default();
        let stop = Arc::<AtomicBool>::default();
        let source = rights::Source::open(c)?;
        if let Some(rights) = source.rights() {
            office.publish(&rights);
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
        let rights = rights::start(source, grace, office.clone(), stop.clone())?;
        Ok(Some(Self { office, lines, stop, rights, audit }))
    }

    /// The clerk of the P2PS of a thread, which `waker` wakes.
    pub fn clerk(&self, shard: u16, waker: Waker) -> Clerk {
        let inbox = Arc::new(Inbox { mail: Mutex::default(), has_mail: AtomicBool::new(false), waker });
        self.office.inboxes.lock().unwrap_or_else(PoisonError::into_inner).push(inbox.clone());
        if let Some(rights) = self.office.rights() {
            inbox.post(Mail::Rights(rights));
        }
        Clerk::new(shard, inbox, self.office.clone(), self.lines.clone())
    }

    /// What administrators ask and do; for any thread.
    pub fn administration(&self) -> Administration {
        Administration::new(self.office.clone())
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
