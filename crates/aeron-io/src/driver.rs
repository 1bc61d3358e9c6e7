//! A media driver in a thread of this process, shared by all ends of the process that use its directory. One that fails is started anew.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use rusteron_media_driver::bindings::aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED;
use rusteron_media_driver::{AeronCError, AeronDriver, AeronDriverContext};

use crate::client::{ASK_AGAIN, Report, c_path, silence};
use crate::idling::{Alarm, Idling, Sleepers};
use crate::{AeronError, DriverOf, Settings};

/// Where drivers have their directories that are told of none.
const HOME: &str = "/dev/shm";
const PREFIX: &str = "quoteway-aeron-";
/// A directory whose driver was not alive for so long is nobody's.
const DEAD: Duration = Duration::from_mins(1);
/// So many times the silence after which a client is gone, what it has left half written is skipped.
const UNBLOCKED_AFTER: u64 = 3;
/// Datagrams of one system call: four by default.
const DATAGRAMS: u32 = 16;

/// The drivers of this process, by directory.
static RUNNING: Mutex<Option<HashMap<PathBuf, Weak<Driver>>>> = Mutex::new(None);

/// A running driver; it ends with the last one that holds it.
#[derive(Debug)]
pub(crate) struct Driver {
    stop: Arc<AtomicBool>,
    /// Who polls what it receives.
    sleepers: Arc<Sleepers>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// The directory of the driver to use, and the driver, if it is one of this process.
    pub(crate) fn of(settings: &Settings, report: &Arc<Report>) -> Result<(PathBuf, Option<Arc<Self>>), AeronError> {
        let own = || Path::new(HOME).join(format!("{PREFIX}{}", std::process::id()));
        let dir = settings.dir.clone().unwrap_or_else(own);
        if settings.driver == DriverOf::Another {
            return Ok((dir, None));
        }
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.get_or_insert_with(HashMap::new);
        if let Some(driver) = running.get(&dir).and_then(Weak::upgrade) {
            return Ok((dir, Some(driver)));
        }
        sweep();
        let driver = Arc::new(Self::start(settings, &dir, report)?);
        running.insert(dir.clone(), Arc::downgrade(&driver));
        Ok((dir, Some(driver)))
    }

    fn start(settings: &Settings, dir: &Path, report: &Arc<Report>) -> Result<Self, AeronError> {
        c_path(dir)?;
        let (stop, sleepers) = (Arc::new(AtomicBool::new(false)), Arc::new(Sleepers::default()));
        let (settings, dir, report, until) = (settings.clone(), dir.to_owned(), report.clone(), stop.clone());
        let pollers = sleepers.clone();
        let run = move || {
            while !until.load(Ordering::Acquire) {
                if let Err(e) = drive(&settings, &dir, &until, &pollers) {
                    report.warn(format!("the media driver in {}: {e}; it is started again", dir.display()));
                    std::thread::sleep(ASK_AGAIN);
                }
            }
        };
        let thread = Builder::new().name("aeron driver".into()).spawn(run)?;
        Ok(Self { stop, sleepers, thread: Some(thread) })
    }

    /// There is something to be sent, or to be heard of those who hold it back: a driver that sleeps does not wait for the end of its nap.
    #[inline]
    pub(crate) fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Threads that are woken when something has come.
    pub(crate) fn sleepers(&self) -> &Sleepers {
        &self.sleepers
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // The driver has said what it had to say.
            let _ = thread.join();
        }
    }
}

/// One life of a driver.
fn drive(settings: &Settings, dir: &Path, until: &AtomicBool, pollers: &Sleepers) -> Result<(), String> {
    let said = |e: AeronCError| e.get_last_err_message().lines().next().unwrap_or("it failed").to_owned();
    let context = context(settings, dir).map_err(|e| e.to_string())?.map_err(said)?;
    let driver = AeronDriver::new(&context).map_err(said)?;
    driver.start(true).map_err(said)?;
    let (mut idling, mut alarm) = (Idling::new(settings.idle), Alarm::default());
    while !until.load(Ordering::Acquire) {
        let work = driver.main_do_work().map_err(said)? > 0;
        if work {
            alarm.ring(pollers);
        }
        idling.turn(work);
    }
    Ok(())
}

type Configured = Result<AeronDriverContext, AeronCError>;

fn context(settings: &Settings, dir: &Path) -> Result<Configured, AeronError> {
    let dir = c_path(dir)?;
    let configure = || {
        let context = AeronDriverContext::new()?;
        context.set_dir(&dir)?;
        // Not that of a driver which is alive: it is looked at first.
        context.set_dir_delete_on_start(silence(&dir).is_none_or(|silence| silence > settings.silence))?;
        context.set_dir_delete_on_shutdown(true)?;
        context.set_threading_mode(AERON_THREADING_MODE_SHARED)?;
        context.set_sender_io_vector_capacity(DATAGRAMS)?;
        context.set_receiver_io_vector_capacity(DATAGRAMS)?;
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Aeron looks for the next gap when the first is closed: what it waits at each of them bounds how many it closes. With a single destination it
        // waits a microsecond, and asks again after 100: that stays as it is.
        context.set_nak_multicast_max_backoff_ns(nanoseconds(settings.nak_delay))?;
        context.set_retransmit_unicast_linger_ns(nanoseconds(settings.retransmit_linger))?;
        context.set_term_buffer_sparse_file(true)?;
        context.set_print_configuration(false)?;
        let silence = nanoseconds(settings.silence);
        context.set_driver_timeout_ms(u64::try_from(settings.silence.as_millis()).unwrap_or(u64::MAX))?;
        context.set_client_liveness_timeout_ns(silence)?;
        // A driver does not start if that is not longer; by default it is 15 s.
        context.set_publication_unblock_timeout_ns(silence.saturating_mul(UNBLOCKED_AFTER))?;
        context.set_image_liveness_timeout_ns(silence)?;
        context.set_publication_connection_timeout_ns(silence)?;
        Ok(context)
    };
    Ok(configure())
}

/// Removes the directories of drivers of this program that were killed.
fn sweep() {
    let dead = |dir: &Path| {
        let silence = c_path(dir).ok().and_then(|dir| silence(&dir));
        silence.is_some_and(|silence| silence > DEAD)
    };
    let all = fs::read_dir(HOME).into_iter().flatten().flatten();
    let ours = all.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for dir in ours.map(|entry| entry.path()).filter(|dir| dead(dir)) {
        // Another process may do the same at the same time.
        let _: io::Result<()> = fs::remove_dir_all(dir);
    }
}
