//! Sessions.

use crate::arguments::{borrowed, hand_out, take_back, text};
use crate::error::{Code, Failure, guard};
use client_io::{Session, SessionConfig};
use std::ffi::{c_char, c_double, c_int};
use std::time::Duration;

/// A session behind a handle.
pub struct QwSession(pub(crate) Session);

/// Seconds as a time to wait; `None` for one without an end.
pub(crate) fn time(seconds: c_double) -> Result<Option<Duration>, Failure> {
    if seconds < 0.0 {
        return Ok(None);
    }
    let wrong = |_| Failure::new(Code::Invalid, format!("{seconds} s is no time to wait; a negative one has no end"));
    Duration::try_from_secs_f64(seconds).map(Some).map_err(wrong)
}

/// See the header.
///
/// # Safety
/// As the header says: texts end with a NUL, and a pointer can be written to `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_connect(
    servers: *const c_char,
    user: *const c_char,
    timeout_s: c_double,
    session: *mut *mut QwSession,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (servers, user) = unsafe { (text(servers, "servers")?, text(user, "user")?) };
        let timeout = time(timeout_s)?.unwrap_or(Duration::MAX / 4);
        let config = SessionConfig::new(servers, user).map_err(|e| Failure::new(Code::Invalid, e.to_string()))?;
        let made = Session::connect(config)?;
        // A time that the clock cannot hold is one without an end.
        let timeout = timeout.min(Duration::from_secs(u64::from(u32::MAX)));
        let status = made.wait(timeout, |status| {
            let is_ready = status.is_logged_in && !status.services.is_empty() && status.dictionary.is_some();
            is_ready || status.refusal.is_some()
        });
        let failed = |why: String| Err(Failure::new(Code::Connect, format!("{servers}: {why}")));
        if let Some(refusal) = status.refusal {
            return failed(format!("the login is refused: {refusal}"));
        }
        if !status.is_logged_in {
            return failed(status.lost.unwrap_or_else(|| "nobody has answered in time".to_owned()));
        }
        if status.services.is_empty() || status.dictionary.is_none() {
            return failed("no service is up that gives its dictionary; look at the server".to_owned());
        }
        // SAFETY: by this function's contract.
        unsafe { hand_out(session, QwSession(made)) }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `session` is null or a session that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_session_close(session: *mut QwSession) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        drop(unsafe { take_back(session, "session") }?);
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `session` is null or a session; `connections_lost` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_session_status(session: *const QwSession, connections_lost: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let status = unsafe { borrowed(session, "session") }?.0.status();
        if !connections_lost.is_null() {
            // SAFETY: not null, and writable by this function's contract.
            unsafe { connections_lost.write(status.connections_lost) };
        }
        Ok(c_int::from(status.is_logged_in))
    })
}
