//! SIGINT and SIGTERM as a request to stop, SIGHUP as a request to read the configuration again.
//!
//! Signals belong to the process, so this state does too. A handler does nothing but count and wake.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Waker;
use crate::sys::check;

/// Threads that can be woken by a signal.
const WAKERS: usize = 64;

/// A third request to stop ends the process on the spot: whoever sends it has seen that the orderly way does not come to an end.
const IMPATIENT: u32 = 3;

static STOP: AtomicU32 = AtomicU32::new(0);
static RELOAD: AtomicU32 = AtomicU32::new(0);
static WAKE: [OnceLock<Waker>; WAKERS] = [const { OnceLock::new() }; WAKERS];

/// Installs the handlers. The first SIGINT or SIGTERM sets what [`stop_requested`] reads, the third ends the process with exit code
/// 128 + signal.
///
/// # Errors
/// When the kernel refuses a handler; it has no reason to.
pub fn install() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all zero is a valid sigaction (default handler, empty mask, no flags).
        let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
        action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` lives through the call, and `on_signal` does only what a signal handler may.
        check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    }
    Ok(())
}

/// Also wakes this poll at each signal. At most 64 in a process; `false` if there is no room.
pub fn wake(waker: &Waker) -> bool {
    WAKE.iter().any(|slot| slot.set(waker.clone()).is_ok())
}

/// How often a stop was asked for: 0 not at all, 1 in order, 2 quickly.
pub fn stop_requested() -> u32 {
    STOP.load(Ordering::Acquire)
}

/// Asks for a stop as a signal would.
pub fn request_stop() {
    STOP.fetch_add(1, Ordering::AcqRel);
    wake_all();
}

/// Whether the configuration is to be read again; asking takes the request.
pub fn take_reload() -> bool {
    RELOAD.swap(0, Ordering::AcqRel) > 0
}

/// Async-signal-safe: atomics, and `write` to eventfds that are never closed while they are registered here.
extern "C" fn on_signal(signal: c_int) {
    // The interrupted code must find errno as it left it.
    // SAFETY: errno's address is this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    if signal == libc::SIGHUP {
        RELOAD.fetch_add(1, Ordering::AcqRel);
    } else if STOP.fetch_add(1, Ordering::AcqRel) + 1 >= IMPATIENT {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(128 + signal) };
    }
    wake_all();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn wake_all() {
    for waker in WAKE.iter().map_while(OnceLock::get) {
        waker.wake();
    }
}
