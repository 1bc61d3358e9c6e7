//! Contexts.

use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::time::Duration;

use lbm_io::options::Scope;

use crate::arguments::{borrowed, borrowed_mut, hand_out, take_back};
use crate::attributes::{self, Attributes, write_text};
use crate::callbacks;
use crate::engine::Engine;
use crate::error::{Code, Failure, guard};

/// `qw_lbm_context_t`.
pub struct ContextHandle {
    pub(crate) engine: Arc<Engine>,
}

/// See the header.
///
/// # Safety
/// The place is null or writable; the attributes are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_context_create(place: *mut *mut ContextHandle, attributes: *const Attributes) -> c_int {
    guard(|| {
        if place.is_null() {
            return Err(Failure::null("the place for the context"));
        }
        callbacks::refuse_in_callback("a context cannot be created")?;
        // SAFETY: this function's contract.
        let options = unsafe { attributes::options(attributes, Scope::Context) }?;
        let engine = Engine::new(&options)?;
        // SAFETY: this function's contract.
        unsafe { hand_out(place, ContextHandle { engine }) }.map(|_| ())
    })
}

/// See the header.
///
/// # Safety
/// The context is null, or was created and not deleted, and is used by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_context_delete(context: *mut ContextHandle) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(context, "the context") }?;
        // The context's thread may be in a callback that waits for the context whose callback this is.
        callbacks::refuse_in_callback("a context cannot be deleted")?;
        handle.engine.stop()?;
        // SAFETY: this function's contract.
        unsafe { take_back(context, "the context") }.map(drop)
    })
}

/// See the header.
///
/// # Safety
/// The context is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_context_process_events(context: *mut ContextHandle, milliseconds: u32) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(context, "the context") }?;
        callbacks::refuse_in_callback("events cannot be processed")?;
        if handle.engine.is_embedded() {
            let text =
                "the context has a thread of its own; the attribute operational_mode sequential makes one without";
            return Err(Failure::new(Code::Mode, text));
        }
        handle.engine.turn(Duration::from_millis(milliseconds.into())).map(|_| ())
    })
}

/// See the header.
///
/// # Safety
/// The context is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_context_unblock(context: *mut ContextHandle) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        unsafe { borrowed(context, "the context") }?.engine.wake();
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// The context is null or valid; the places are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_context_fd(
    context: *mut ContextHandle,
    descriptor: *mut c_int,
    milliseconds: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, descriptor, milliseconds) = unsafe {
            (
                borrowed(context, "the context")?,
                borrowed_mut(descriptor, "the place for the descriptor")?,
                borrowed_mut(milliseconds, "the place for the time")?,
            )
        };
        let mut inner = handle.engine.lock()?;
        *descriptor = inner.client.as_fd().as_raw_fd();
        *milliseconds = match inner.timeout() {
            Some(at) => {
                let left = at.saturating_sub(net::clock::now()).div_ceil(1_000_000);
                c_int::try_from(left).unwrap_or(c_int::MAX)
            }
            None => -1,
        };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// The context is null or valid; the size is null or valid, and the text has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_context_stats(
    context: *mut ContextHandle,
    text: *mut c_char,
    size: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, size) = unsafe { (borrowed(context, "the context")?, borrowed_mut(size, "the size")?) };
        let report = handle.engine.lock()?.client.context().report_text();
        // SAFETY: this function's contract.
        unsafe { write_text(&report, text, size) }
    })
}
