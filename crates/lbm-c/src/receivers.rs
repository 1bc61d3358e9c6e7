//! Receivers, for one topic or for a pattern.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use lbm_io::options::Scope;
use lbm_io::{Context, ContextError, ReceiverId};

use crate::arguments::{borrowed, hand_out, take_back, text};
use crate::attributes::{self, Attributes};
use crate::callbacks::{Callback, ReceiverProc};
use crate::context::ContextHandle;
use crate::engine::Engine;
use crate::error::{Failure, guard};

/// `qw_lbm_rcv_t`.
pub struct Receiver {
    engine: Arc<Engine>,
    id: ReceiverId,
}

/// # Safety
/// Place, context and name are null or valid.
unsafe fn create(
    place: *mut *mut Receiver,
    context: *mut ContextHandle,
    name: *const c_char,
    proc: Option<ReceiverProc>,
    clientd: *mut c_void,
    add: impl FnOnce(&mut Context, &str) -> Result<ReceiverId, ContextError>,
) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null("the place for the receiver"));
    }
    let proc = proc.ok_or_else(|| Failure::null("the callback"))?;
    // SAFETY: this function's contract.
    let (handle, name) = unsafe { (borrowed(context, "the context")?, text(name, "the topic or pattern")?) };
    let mut inner = handle.engine.lock()?;
    let id = add(&mut inner.context, name)?;
    let receiver = Receiver { engine: Arc::clone(&handle.engine), id };
    // SAFETY: this function's contract.
    let receiver = unsafe { hand_out(place, receiver) }?;
    inner.dispatch.set_receiver(id, Some(Callback { proc, clientd, handle: receiver }));
    drop(inner);
    handle.engine.wake();
    Ok(())
}

/// See the header.
///
/// # Safety
/// Place, context, topic and attributes are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_rcv_create(
    place: *mut *mut Receiver,
    context: *mut ContextHandle,
    topic: *const c_char,
    attributes: *const Attributes,
    proc: Option<ReceiverProc>,
    clientd: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let options = unsafe { attributes::options(attributes, Scope::Receiver) }?;
        // SAFETY: this function's contract.
        unsafe { create(place, context, topic, proc, clientd, |context, topic| context.receiver(topic, &options)) }
    })
}

/// See the header.
///
/// # Safety
/// Place, context, topic and attributes are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_hf_rcv_create(
    place: *mut *mut Receiver,
    context: *mut ContextHandle,
    topic: *const c_char,
    attributes: *const Attributes,
    proc: Option<ReceiverProc>,
    clientd: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let options = unsafe { attributes::options(attributes, Scope::Receiver) }?;
        // SAFETY: this function's contract.
        unsafe {
            create(place, context, topic, proc, clientd, |context, topic| context.failover_receiver(topic, &options))
        }
    })
}

/// See the header.
///
/// # Safety
/// Place, context, pattern and attributes are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_wildcard_rcv_create(
    place: *mut *mut Receiver,
    context: *mut ContextHandle,
    pattern: *const c_char,
    receiver_attributes: *const Attributes,
    wildcard_attributes: *const Attributes,
    proc: Option<ReceiverProc>,
    clientd: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (mut options, wildcard) = unsafe {
            (
                attributes::options(receiver_attributes, Scope::Receiver)?,
                attributes::options(wildcard_attributes, Scope::Wildcard)?,
            )
        };
        options.take(Scope::Wildcard, &wildcard);
        // SAFETY: this function's contract.
        unsafe {
            create(place, context, pattern, proc, clientd, |context, pattern| context.wildcard(pattern, &options))
        }
    })
}

/// See the header.
///
/// # Safety
/// The receiver is null, or was created and not deleted, and is used by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_rcv_delete(receiver: *mut Receiver) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(receiver, "the receiver") }?;
        let mut inner = handle.engine.lock()?;
        inner.context.remove_receiver(handle.id);
        inner.dispatch.set_receiver(handle.id, None);
        drop(inner);
        // SAFETY: this function's contract.
        unsafe { take_back(receiver, "the receiver") }.map(drop)
    })
}
