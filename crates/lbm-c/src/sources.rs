//! Sources.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use lbm_io::failover::{Mark, Number};
use lbm_io::options::{Scope, SourceOption};
use lbm_io::{SendFlags, SourceId};
use lbm_queue_io::{Index, MessageId};
use lbm_store_io::PersistentSource;

use crate::arguments::{borrowed, bytes, hand_out, take_back, text};
use crate::attributes::{self, Attributes};
use crate::callbacks::{self, Callback, SourceProc, UmeEvent};
use crate::context::ContextHandle;
use crate::engine::{Engine, Inner};
use crate::error::{Code, Failure, guard};

/// `qw_lbm_src_t`.
pub struct Source {
    pub(crate) engine: Arc<Engine>,
    id: Id,
}

/// As what the engine has a source.
#[derive(Clone, Copy)]
enum Id {
    Plain(SourceId),
    /// With stores.
    Persistent(PersistentSource),
    /// With application sets.
    Queued(SourceId),
}

impl Source {
    /// The source as one without stores, for what those alone can do.
    pub(crate) fn plain(&self) -> Result<SourceId, Failure> {
        match self.id {
            Id::Plain(id) => Ok(id),
            Id::Persistent(_) => {
                Err(Failure::new(Code::Invalid, "a source with stores (ume_store) sends plain messages alone"))
            }
            Id::Queued(_) => {
                let text = "a source with application sets (umq_ulb_application_set) sends messages of its queue alone";
                Err(Failure::new(Code::Invalid, text))
            }
        }
    }

    /// Sends to stores; waits for them unless it must not, or nobody else takes turns.
    fn persist(&self, source: PersistentSource, payload: &[u8], send: c_int) -> Result<u32, Failure> {
        let known = flags(send)?;
        let try_now = || self.engine.persisting(|client| client.send(source, payload, known));
        if send & NONBLOCK != 0 || !self.engine.is_embedded() {
            return try_now()?.map_err(Failure::from);
        }
        self.engine.until(|| match try_now() {
            Ok(Err(refused)) if refused.is_passing() => None,
            Ok(sent) => Some(sent.map_err(Failure::from)),
            Err(failure) => Some(Err(failure)),
        })
    }

    /// Sends to application sets; waits for room unless it must not, or nobody else takes turns.
    pub(crate) fn send_queued(&self, index: Option<&Index>, payload: &[u8], send: c_int) -> Result<MessageId, Failure> {
        let Id::Queued(source) = self.id else {
            let text = "the source has no application sets: attribute umq_ulb_application_set";
            return Err(Failure::new(Code::Invalid, text));
        };
        let known = flags(send)?;
        let try_now = || {
            self.engine.queuing(|queues, client| {
                queues.send(client.context().sources(), source, payload, index.cloned(), known)
            })
        };
        if send & NONBLOCK != 0 || !self.engine.is_embedded() {
            return try_now()?.map_err(Failure::from);
        }
        self.engine.until(|| match try_now() {
            Ok(Err(refused)) if refused.is_passing() => None,
            Ok(sent) => Some(sent.map_err(Failure::from)),
            Err(failure) => Some(Err(failure)),
        })
    }

    fn send(&self, payload: &[u8], send: c_int) -> Result<u32, Failure> {
        match self.id {
            Id::Plain(id) => {
                let send = flags(send)?;
                self.engine.sending(|sources| sources.send(id, payload, send).map_err(Failure::from))
            }
            Id::Persistent(source) => self.persist(source, payload, send),
            Id::Queued(_) => self.send_queued(None, payload, send).map(|id| id.stamp as u32),
        }
    }
}

const FLUSH: c_int = 1;
const NONBLOCK: c_int = 2;
const HF_32: c_int = 4;
const HF_64: c_int = 8;
const HF_OPTIONAL: c_int = 16;

pub(crate) fn flags(flags: c_int) -> Result<SendFlags, Failure> {
    if flags & !(FLUSH | NONBLOCK) != 0 {
        return Err(Failure::new(Code::Invalid, format!("flags {flags:#x} are not known")));
    }
    let mut out = SendFlags::NONE;
    if flags & FLUSH != 0 {
        out = out | SendFlags::FLUSH;
    }
    if flags & NONBLOCK != 0 {
        out = out | SendFlags::NONBLOCK;
    }
    Ok(out)
}

/// See the header.
///
/// # Safety
/// Place, context, topic and attributes are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_create(
    place: *mut *mut Source,
    context: *mut ContextHandle,
    topic: *const c_char,
    attributes: *const Attributes,
    proc: Option<SourceProc>,
    clientd: *mut c_void,
) -> c_int {
    guard(|| {
        if place.is_null() {
            return Err(Failure::null("the place for the source"));
        }
        // SAFETY: this function's contract.
        let (handle, topic, options) = unsafe {
            (
                borrowed(context, "the context")?,
                text(topic, "the topic")?,
                attributes::options(attributes, Scope::Source)?,
            )
        };
        let mut inner = handle.engine.lock()?;
        let id = if options.stores().next().is_some() {
            Id::Persistent(inner.client.source(topic, &options)?)
        } else if !options.get(SourceOption::UMQ_ULB_APPLICATION_SET).is_empty() {
            let Inner { client, queues, .. } = &mut *inner;
            Id::Queued(queues.source(client.context(), topic, &options)?)
        } else {
            Id::Plain(inner.client.context().source(topic, &options)?)
        };
        let source = Source { engine: Arc::clone(&handle.engine), id };
        // SAFETY: this function's contract.
        let source = unsafe { hand_out(place, source) }?;
        let callback = proc.map(|proc| Callback { proc, clientd, handle: source });
        match id {
            Id::Plain(id) | Id::Queued(id) => inner.dispatch.set_source(id, callback),
            Id::Persistent(id) => inner.dispatch.set_persistent_source(id, callback),
        }
        drop(inner);
        handle.engine.wake();
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// The source is null, or was created and not deleted, and is used by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_delete(source: *mut Source) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(source, "the source") }?;
        let mut inner = handle.engine.lock()?;
        match handle.id {
            Id::Plain(id) => {
                inner.client.context().remove_source(id);
                inner.dispatch.set_source(id, None);
            }
            Id::Queued(id) => {
                let Inner { client, queues, .. } = &mut *inner;
                queues.remove_source(client.context(), id);
                inner.dispatch.set_source(id, None);
            }
            Id::Persistent(id) => {
                inner.client.remove_source(id);
                inner.dispatch.set_persistent_source(id, None);
            }
        }
        drop(inner);
        // SAFETY: this function's contract.
        unsafe { take_back(source, "the source") }.map(drop)
    })
}

/// See the header.
///
/// # Safety
/// The source is null or valid; the message has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_send(
    source: *mut Source,
    message: *const c_void,
    length: usize,
    send: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, payload) = unsafe { (borrowed(source, "the source")?, bytes(message, length)?) };
        handle.send(payload, send).map(|_| ())
    })
}

/// See the header.
///
/// # Safety
/// The source is null or valid; the message has so many bytes; the place is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_ume_send(
    source: *mut Source,
    message: *const c_void,
    length: usize,
    send: c_int,
    number: *mut u32,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, payload) = unsafe { (borrowed(source, "the source")?, bytes(message, length)?) };
        let sqn = handle.send(payload, send)?;
        if !number.is_null() {
            // SAFETY: this function's contract.
            unsafe { number.write(sqn) };
        }
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// The place is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_ume_event(place: *mut UmeEvent) -> c_int {
    guard(|| {
        let event = callbacks::ume_event().ok_or_else(|| {
            Failure::new(Code::Invalid, "there is no event of a source with stores on this thread now")
        })?;
        if place.is_null() {
            return Err(Failure::null("the place for the event"));
        }
        // SAFETY: this function's contract.
        unsafe { place.write(event) };
        Ok(())
    })
}

/// The number of a hot failover message, in the width that the flags name, and the other flags.
fn failover(number: u64, flags: c_int) -> Result<(Number, c_int), Failure> {
    let rest = flags & !(HF_32 | HF_64);
    match (flags & (HF_32 | HF_64), u32::try_from(number)) {
        (HF_32, Ok(number)) => Ok((Number::Bits32(number), rest)),
        (HF_64, _) => Ok((Number::Bits64(number), rest)),
        (HF_32, Err(_)) => Err(Failure::new(Code::Invalid, format!("{number} has more than 32 bits"))),
        _ => Err(Failure::new(Code::Invalid, "flags name neither QW_LBM_SRC_HF_32 nor _64, or both".to_owned())),
    }
}

/// See the header.
///
/// # Safety
/// The source is null or valid; the message has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_hf_src_send(
    source: *mut Source,
    number: u64,
    message: *const c_void,
    length: usize,
    send: c_int,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, payload) = unsafe { (borrowed(source, "the source")?, bytes(message, length)?) };
        let (number, send) = failover(number, send)?;
        let mark = Mark { optional: send & HF_OPTIONAL != 0, ..Mark::new(number) };
        let send = flags(send & !HF_OPTIONAL)?;
        let id = handle.plain()?;
        let send = |sources: &mut lbm_io::Sources| sources.send_failover(id, mark, payload, send);
        handle.engine.sending(|sources| send(sources).map_err(Failure::from)).map(|_| ())
    })
}

/// See the header.
///
/// # Safety
/// The source is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_hf_src_send_rcv_reset(source: *mut Source, next: u64, send: c_int) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(source, "the source") }?;
        let (next, send) = failover(next, send)?;
        let send = flags(send)?;
        let id = handle.plain()?;
        let reset = |sources: &mut lbm_io::Sources| sources.reset_failover(id, next, send);
        handle.engine.sending(|sources| reset(sources).map_err(Failure::from)).map(|_| ())
    })
}

/// See the header.
///
/// # Safety
/// The source is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_flush(source: *mut Source) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(source, "the source") }?;
        match handle.id {
            Id::Plain(id) | Id::Queued(id) => handle.engine.sending(|sources| sources.flush(id).map_err(Failure::from)),
            Id::Persistent(id) => handle.engine.persisting(|client| client.flush(id))?.map_err(Failure::from),
        }
    })
}
