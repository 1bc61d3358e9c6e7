//! Receivers, for one topic or for a pattern.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use lbm_io::ReceiverId;
use lbm_io::options::Scope;
use lbm_queue_io::Queues;
use lbm_store_io::{Client, PersistentReceiver};

use crate::arguments::{borrowed, hand_out, take_back, text};
use crate::attributes::{self, Attributes};
use crate::callbacks::{Callback, ReceiverProc};
use crate::context::ContextHandle;
use crate::engine::{Engine, Inner};
use crate::error::{Code, Failure, guard};

/// `qw_lbm_rcv_t`.
pub struct Receiver {
    engine: Arc<Engine>,
    id: Id,
}

impl Receiver {
    /// The receiver as one without a session at stores.
    pub(crate) fn plain(&self) -> Result<ReceiverId, Failure> {
        match self.id {
            Id::Plain(id) => Ok(id),
            Id::Persistent(_) => Err(Failure::new(Code::Invalid, "a receiver with a session at stores has no queues")),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// As what the engine has a receiver.
#[derive(Clone, Copy)]
enum Id {
    Plain(ReceiverId),
    /// Known to stores.
    Persistent(PersistentReceiver),
}

/// # Safety
/// Place, context and name are null or valid.
unsafe fn create(
    place: *mut *mut Receiver,
    context: *mut ContextHandle,
    name: *const c_char,
    proc: Option<ReceiverProc>,
    clientd: *mut c_void,
    add: impl FnOnce(&mut Client, &mut Queues, &str) -> Result<Id, Failure>,
) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null("the place for the receiver"));
    }
    let proc = proc.ok_or_else(|| Failure::null("the callback"))?;
    // SAFETY: this function's contract.
    let (handle, name) = unsafe { (borrowed(context, "the context")?, text(name, "the topic or pattern")?) };
    let mut inner = handle.engine.lock()?;
    let Inner { client, queues, .. } = &mut *inner;
    let id = add(client, queues, name)?;
    let receiver = Receiver { engine: Arc::clone(&handle.engine), id };
    // SAFETY: this function's contract.
    let receiver = unsafe { hand_out(place, receiver) }?;
    let callback = Some(Callback { proc, clientd, handle: receiver });
    match id {
        Id::Plain(id) => inner.dispatch.set_receiver(id, callback),
        Id::Persistent(id) => inner.dispatch.set_persistent_receiver(id, name, callback),
    }
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
        unsafe {
            create(place, context, topic, proc, clientd, |client, queues, topic| {
                if client.is_persistent(&options) {
                    return Ok(Id::Persistent(client.receiver(topic, &options)?));
                }
                Ok(Id::Plain(queues.receiver(client.context(), topic, &options)?))
            })
        }
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
            create(place, context, topic, proc, clientd, |client, _, topic| {
                Ok(Id::Plain(client.context().failover_receiver(topic, &options)?))
            })
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
            create(place, context, pattern, proc, clientd, |client, _, pattern| {
                Ok(Id::Plain(client.context().wildcard(pattern, &options)?))
            })
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
        match handle.id {
            Id::Plain(id) => {
                let Inner { client, queues, .. } = &mut *inner;
                queues.remove_receiver(client.context(), id);
                inner.dispatch.set_receiver(id, None);
            }
            Id::Persistent(id) => {
                inner.client.remove_receiver(id);
                inner.dispatch.set_persistent_receiver(id, "", None);
            }
        }
        drop(inner);
        // SAFETY: this function's contract.
        unsafe { take_back(receiver, "the receiver") }.map(drop)
    })
}

/// See the header.
///
/// # Safety
/// The receiver is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_rcv_ume_ack(receiver: *mut Receiver, source: u32, number: u32) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(receiver, "the receiver") }?;
        let Id::Persistent(id) = handle.id else {
            return Err(Failure::new(Code::Invalid, "the receiver has no session at stores: attribute ume_session_id"));
        };
        handle.engine.persisting(|client| client.acknowledge(id, source, number))
    })
}
