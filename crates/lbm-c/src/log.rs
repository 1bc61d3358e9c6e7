//! Warnings, to a C function or to standard error.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use crate::callbacks::{Running, inside};
use crate::error::guard;

/// `qw_lbm_log_cb_proc`.
pub type LogProc = unsafe extern "C" fn(*const c_char, *mut c_void);

#[derive(Clone, Copy)]
struct Sink {
    proc: LogProc,
    clientd: *mut c_void,
}

// SAFETY: the pointer is only given back to the application, which hands it to a library that it told to call from any thread.
unsafe impl Send for Sink {}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);

/// See the header.
///
/// # Safety
/// The function takes these arguments, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_log(proc: Option<LogProc>, clientd: *mut c_void) -> c_int {
    guard(|| {
        *SINK.lock().unwrap_or_else(PoisonError::into_inner) = proc.map(|proc| Sink { proc, clientd });
        Ok(())
    })
}

/// Tells the operator what works less well than asked for. With no context locked: the function may take its time.
pub(crate) fn tell(text: &str) {
    // Copied out: the function may set another one.
    let sink = *SINK.lock().unwrap_or_else(PoisonError::into_inner);
    match sink {
        Some(sink) => {
            let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
            inside(Running::Log, || {
                // SAFETY: the application gave this function for these arguments; the text lives through the call.
                unsafe { (sink.proc)(text.as_ptr(), sink.clientd) }
            });
        }
        None => eprintln!("quoteway-lbm: {text}"),
    }
}
