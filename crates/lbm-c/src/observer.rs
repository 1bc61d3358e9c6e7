//! The observer: when messages were sent and received, for `quoteway-lab observed`.

use std::ffi::{c_char, c_int};
use std::path::Path;

use measure::observer::{End, Observer, Plan};

use crate::arguments::{borrowed_mut, hand_out, take_back, text};
use crate::error::{Code, Failure, guard};

/// See the header.
///
/// # Safety
/// The place is null, or a pointer can be written there; the file's name is null or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_observer_create(
    place: *mut *mut Observer,
    end: c_int,
    records: usize,
    every: u32,
    file: *const c_char,
) -> c_int {
    guard(|| {
        let end = match end {
            1 => End::Sender,
            2 => End::Receiver,
            _ => return Err(Failure::new(Code::Invalid, format!("{end} is no end of a test"))),
        };
        if records == 0 || records > RECORDS_MAX || every == 0 {
            let text = format!("{records} records of one in {every} messages: 1 to {RECORDS_MAX}, one in 1 or more");
            return Err(Failure::new(Code::Invalid, text));
        }
        // SAFETY: this function's contract.
        let file = unsafe { text(file, "the file") }?;
        let plan = Plan { capacity: records, every, connections: 1 };
        let observer = Observer::writing(Path::new(file), end, &plan)?;
        // SAFETY: this function's contract.
        unsafe { hand_out(place, observer) }.map(drop)
    })
}

/// 24 GB for a sender: more is a mistake.
const RECORDS_MAX: usize = 1_000_000_000;

/// The clock of the observer.
#[unsafe(no_mangle)]
pub extern "C" fn qw_lbm_observer_now() -> u64 {
    net::clock::now()
}

/// See the header.
///
/// # Safety
/// The observer is null, or was created, not deleted, and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_observer_sent(observer: *mut Observer, id: u64, intended: u64) -> c_int {
    // SAFETY: this function's contract.
    guard(|| unsafe { borrowed_mut(observer, "the observer") }.map(|observer| observer.sent(id, intended)))
}

/// See the header.
///
/// # Safety
/// As for [`qw_lbm_observer_sent`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_observer_refused(observer: *mut Observer, id: u64) -> c_int {
    // SAFETY: this function's contract.
    guard(|| unsafe { borrowed_mut(observer, "the observer") }.map(|observer| observer.refused(id)))
}

/// See the header.
///
/// # Safety
/// As for [`qw_lbm_observer_sent`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_observer_received(observer: *mut Observer, id: u64) -> c_int {
    // SAFETY: this function's contract.
    guard(|| unsafe { borrowed_mut(observer, "the observer") }.map(|observer| observer.received(id)))
}

/// See the header.
///
/// # Safety
/// The observer is null, or was created and not deleted; no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_observer_finish(observer: *mut Observer) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let observer = unsafe { take_back(observer, "the observer") }?;
        observer.finish().map_err(Failure::from)
    })
}
