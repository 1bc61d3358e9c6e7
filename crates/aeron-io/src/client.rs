//! A client of a media driver, whose turns its owner takes: it has no thread of its own.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusteron_client::{Aeron, AeronCError, AeronCnc, AeronContext, AeronSystemCounterType as Kept};

use crate::{AeronError, Counters};

/// Pause before a driver that is not there is looked for again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Pause before what a driver has refused is asked for again.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Looks in vain before the operator is told: 3 s.
const ABSENCES_TOLD: u64 = 30;
/// Warnings that wait to be read, at most.
const MOST_WARNINGS: usize = 64;

/// What the threads of an end tell its owner.
#[derive(Debug, Default)]
pub(crate) struct Report {
    warnings: Mutex<VecDeque<String>>,
    pub(crate) unheard: AtomicU64,
    pub(crate) drivers_lost: AtomicU64,
    pub(crate) images: AtomicU64,
    pub(crate) images_ended: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// Times in a row that no driver was alive.
    absences: AtomicU64,
    /// NAKs sent, NAKs received, datagrams sent again, errors.
    driver: [AtomicU64; 4],
}

impl Report {
    /// Tells the owner of something; not twice in a row.
    pub(crate) fn warn(&self, warning: String) {
        let Ok(mut all) = self.warnings.lock() else { return };
        if all.back() != Some(&warning) && all.len() < MOST_WARNINGS {
            all.push_back(warning);
        }
    }

    /// No driver is alive. Told once, and not while one may be starting.
    fn absent(&self, dir: &CStr) {
        if self.absences.fetch_add(1, Relaxed) == ABSENCES_TOLD {
            self.warn(format!("no media driver is alive in {}: it is waited for", dir.to_string_lossy()));
        }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().map(|mut all| all.drain(..).collect()).unwrap_or_default()
    }

    /// Takes over what the driver has counted.
    pub(crate) fn take_counters(&self, aeron: &Aeron) {
        let kept = [Kept::NakMessagesSent, Kept::NakMessagesReceived, Kept::RetransmitsSent, Kept::Errors];
        let reader = aeron.counters_reader();
        for (which, to) in kept.into_iter().zip(&self.driver) {
            if let Ok(count) = reader.get_counter_value(which as i32) {
                to.store(u64::try_from(count).unwrap_or(0), Relaxed);
            }
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let [naks_sent, naks_received, retransmits, errors] = self.driver.each_ref().map(|count| count.load(Relaxed));
        Counters {
            unheard: self.unheard.load(Relaxed),
            drivers_lost: self.drivers_lost.load(Relaxed),
            images: self.images.load(Relaxed),
            images_ended: self.images_ended.load(Relaxed),
            held: self.held.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            naks_sent,
            naks_received,
            retransmits,
            errors,
        }
    }
}

/// A text for the driver.
pub(crate) fn c_string(text: &str) -> Result<CString, AeronError> {
    CString::new(text).map_err(|_| AeronError::Nul(text.to_owned()))
}

/// A directory's name for the driver.
pub(crate) fn c_path(dir: &Path) -> Result<CString, AeronError> {
    c_string(&dir.to_string_lossy())
}

/// How long ago the driver of a directory was alive last; `None` if none ever was.
pub(crate) fn silence(dir: &CStr) -> Option<Duration> {
    let mut beat = None;
    AeronCnc::read(dir, |cnc| beat = cnc.get_to_driver_heartbeat_ms().ok()).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.saturating_sub(Duration::from_millis(u64::try_from(beat?).ok().filter(|beat| *beat > 0)?)))
}

/// Becomes a client of the driver of a directory. `None` while none is alive there: connecting would wait for one.
pub(crate) fn connect(dir: &CStr, borne: Duration, report: &Arc<Report>) -> Result<Option<Aeron>, AeronCError> {
    if silence(dir).is_none_or(|silence| silence > borne) {
        report.absent(dir);
        return Ok(None);
    }
    report.absences.store(0, Relaxed);
    let context = AeronContext::new()?;
    context.set_dir(dir)?;
    context.set_use_conductor_agent_invoker(true)?;
    context.set_driver_timeout_ms(u64::try_from(borne.as_millis()).unwrap_or(u64::MAX))?;
    context.set_client_name(c"quoteway")?;
    let told = report.clone();
    // Without a handler, Aeron ends the process.
    context.set_error_handler(Some(move |code: i32, text: &str| {
        told.warn(format!("Aeron: {code}: {}", text.lines().next().unwrap_or_default()));
    }))?;
    let aeron = Aeron::new(&context)?;
    aeron.start()?;
    Ok(Some(aeron))
}

/// Why Aeron refuses, in words.
pub(crate) fn reason(error: &AeronCError) -> String {
    let text = error.get_last_err_message();
    text.lines().find(|line| !line.trim().is_empty()).map_or_else(|| error.to_string(), |line| line.trim().to_owned())
}
