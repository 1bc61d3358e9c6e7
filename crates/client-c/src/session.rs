//! Sessions.

use crate::arguments::{borrowed, hand_out, take_back, text, write_text};
use crate::error::{Code, Failure, guard};
use client::Arrangement;
use client_io::{Session, SessionConfig, Transport};
use std::ffi::{c_char, c_double, c_int};
use std::path::Path;
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

/// A time to wait as a duration that the clock can hold; one without an end is more than a hundred years.
pub(crate) fn bounded(time: Option<Duration>) -> Duration {
    let longest = Duration::from_secs(u64::from(u32::MAX));
    time.map_or(longest, |time| time.min(longest))
}

/// `qw_session_options_t`.
#[repr(C)]
pub struct QwSessionOptions {
    application_id: *const c_char,
    password: *const c_char,
    roots: *const c_char,
    preferred: *const c_char,
    fall_back_at: *const c_char,
    fall_back_s: c_double,
    arrangement: u8,
    is_encrypted: u8,
    is_websocket: u8,
    reserved: [u8; 5],
}

/// A text that may be left out.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn optional<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    // SAFETY: by this function's contract.
    (!pointer.is_null()).then(|| unsafe { text(pointer, what) }).transpose()
}

pub(crate) fn invalid(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::Invalid, error.to_string())
}

impl QwSessionOptions {
    /// # Safety
    /// The texts are as the header says.
    unsafe fn apply(&self, config: &mut SessionConfig) -> Result<(), Failure> {
        if self.reserved != [0; 5] {
            let text = "options.reserved is not zero: set the whole of options to zero first";
            return Err(Failure::new(Code::Invalid, text));
        }
        // SAFETY: by this function's contract.
        let [application, password, roots, preferred, fall_back_at] = unsafe {
            [
                optional(self.application_id, "options.application_id")?,
                optional(self.password, "options.password")?,
                optional(self.roots, "options.roots")?,
                optional(self.preferred, "options.preferred")?,
                optional(self.fall_back_at, "options.fall_back_at")?,
            ]
        };
        let login = &mut config.client.consumer.login;
        if let Some(application) = application {
            login.attributes.application_id = Some(application.to_owned());
        }
        login.password = password.map(str::to_owned);
        config.client.arrangement = match self.arrangement {
            0 => Arrangement::Routing,
            1 => Arrangement::StandbyByLogin,
            2 => Arrangement::StandbyByService,
            other => {
                let names = "QW_ROUTING, QW_STANDBY_BY_LOGIN, QW_STANDBY_BY_SERVICE";
                return Err(invalid(&format!("options.arrangement: {other} is none of {names}")));
            }
        };
        let fall_back = time(if self.fall_back_s > 0.0 { self.fall_back_s } else { -1.0 })?;
        match preferred {
            Some(preferred) => {
                let ns = fall_back.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                config.prefer(preferred, ns).map_err(|e| invalid(&e))?;
            }
            None if fall_back.is_some() || fall_back_at.is_some() => {
                return Err(invalid(
                    &"options.fall_back_s and fall_back_at: there is no server to go back to; name it as options.preferred",
                ));
            }
            None => {}
        }
        if let Some(schedule) = fall_back_at {
            config.fall_back_at(schedule).map_err(|e| invalid(&e))?;
        }
        if self.is_encrypted != 0 || roots.is_some() {
            config.encrypt(roots.map(Path::new)).map_err(|e| invalid(&e))?;
        }
        if self.is_websocket != 0 {
            config.transport = Transport::WebSocket;
        }
        Ok(())
    }
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
    // SAFETY: by this function's contract.
    unsafe { qw_connect_with(servers, user, std::ptr::null(), timeout_s, session) }
}

/// See the header.
///
/// # Safety
/// As the header says: texts end with a NUL, `options` is null or whole, and a pointer can be written to `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_connect_with(
    servers: *const c_char,
    user: *const c_char,
    options: *const QwSessionOptions,
    timeout_s: c_double,
    session: *mut *mut QwSession,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (servers, user) = unsafe { (text(servers, "servers")?, text(user, "user")?) };
        let mut config = SessionConfig::new(servers, user).map_err(|e| invalid(&e))?;
        // SAFETY: likewise.
        if let Some(options) = unsafe { options.as_ref() } {
            // SAFETY: likewise.
            unsafe { options.apply(&mut config) }?;
        }
        let made = connect(servers, config, timeout_s)?;
        // SAFETY: likewise.
        unsafe { hand_out(session, QwSession(made)) }?;
        Ok(0)
    })
}

/// Connects and waits for what a program needs to begin: a login, a service, the dictionary.
fn connect(servers: &str, config: SessionConfig, timeout_s: c_double) -> Result<Session, Failure> {
    let timeout = bounded(time(timeout_s)?);
    let made = Session::connect(config)?;
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
    Ok(made)
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
/// `session` is null or a session; `text` is null or `size` bytes from it on can be written; `length` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_session_server(
    session: *const QwSession,
    text: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let server = unsafe { borrowed(session, "session") }?.0.status().server;
        // SAFETY: likewise.
        unsafe { write_text(server.as_deref().unwrap_or_default(), text, size, length) }?;
        Ok(c_int::from(server.is_some()))
    })
}

/// See the header.
///
/// # Safety
/// `session` is null or a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_session_fall_back(session: *const QwSession) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let left = unsafe { borrowed(session, "session") }?.0.fall_back();
        let left = left.map_err(|e| Failure::new(Code::Ended, e.to_string()))?;
        Ok(c_int::try_from(left).unwrap_or(c_int::MAX))
    })
}

/// See the header.
///
/// # Safety
/// `session` is null or a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_session_pause(session: *const QwSession, is_paused: c_int) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        unsafe { borrowed(session, "session") }?.0.pause(is_paused != 0);
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
