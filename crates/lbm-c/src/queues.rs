//! Sources and receivers of queues.

use std::ffi::{c_char, c_int, c_void};

use lbm_io::ReceiverId;
use lbm_queue_io::Index;

use crate::arguments::{borrowed, bytes};
use crate::callbacks::{self, UlbEvent};
use crate::error::{Code, Failure, guard};
use crate::receivers::Receiver;
use crate::sources::Source;

/// `qw_lbm_umq_index_t`.
#[repr(C)]
#[derive(Debug)]
pub struct IndexArgument {
    text: *const c_char,
    length: usize,
    number: u64,
}

/// # Safety
/// The index is null or valid, and its text has so many bytes.
unsafe fn index(index: *const IndexArgument) -> Result<Option<Index>, Failure> {
    // SAFETY: this function's contract.
    let Some(index) = (unsafe { index.as_ref() }) else { return Ok(None) };
    if index.text.is_null() {
        return Ok(Some(Index::Number(index.number)));
    }
    // SAFETY: this function's contract.
    let text = unsafe { bytes(index.text.cast(), index.length) }?;
    if text.len() > Index::TEXT_MAX {
        let why = format!("an index of {} bytes: it has {} at most", text.len(), Index::TEXT_MAX);
        return Err(Failure::new(Code::Invalid, why));
    }
    Ok(Some(Index::Text(text.into())))
}

/// See the header.
///
/// # Safety
/// The source is null or valid; the index is null or valid; the message has so many bytes; the place is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_ulb_send(
    source: *mut Source,
    index_of: *const IndexArgument,
    message: *const c_void,
    length: usize,
    send: c_int,
    number: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, index, payload) =
            unsafe { (borrowed(source, "the source")?, index(index_of)?, bytes(message, length)?) };
        let id = handle.send_queued(index.as_ref(), payload, send)?;
        if !number.is_null() {
            // SAFETY: this function's contract.
            unsafe { number.write(id.stamp) };
        }
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// The place is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_src_ulb_event(place: *mut UlbEvent) -> c_int {
    guard(|| {
        let event = callbacks::ulb_event().ok_or_else(|| {
            Failure::new(Code::Invalid, "there is no event of a source with a queue on this thread now")
        })?;
        if place.is_null() {
            return Err(Failure::null("the place for the event"));
        }
        // SAFETY: this function's contract.
        unsafe { place.write(event) };
        Ok(())
    })
}

fn take_indices(receiver: &Receiver, takes: bool) -> Result<(), Failure> {
    let id: ReceiverId = receiver.plain()?;
    let done = receiver.engine().queuing(|queues, _| queues.take_indices(id, takes))?;
    let why = "the receiver takes no part in queuing (umq_queue_participation, hot failover, wildcard)";
    if done { Ok(()) } else { Err(Failure::new(Code::Invalid, why)) }
}

/// See the header.
///
/// # Safety
/// The receiver is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_rcv_umq_index_start_assignment(receiver: *mut Receiver) -> c_int {
    // SAFETY: this function's contract.
    guard(|| take_indices(unsafe { borrowed(receiver, "the receiver") }?, true))
}

/// See the header.
///
/// # Safety
/// The receiver is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_rcv_umq_index_stop_assignment(receiver: *mut Receiver) -> c_int {
    // SAFETY: this function's contract.
    guard(|| take_indices(unsafe { borrowed(receiver, "the receiver") }?, false))
}
