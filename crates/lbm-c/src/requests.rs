//! Requests and responses.

use std::ffi::{c_int, c_void};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use lbm_io::{Request, RequestId};

use crate::arguments::{borrowed, bytes, hand_out, take_back};
use crate::callbacks::{Callback, ReplyTo, RequestProc};
use crate::context::ContextHandle;
use crate::engine::Engine;
use crate::error::{Failure, guard};
use crate::sources::{self, Source};

/// `qw_lbm_request_t`: a request that takes responses.
pub struct PendingRequest {
    engine: Arc<Engine>,
    id: RequestId,
}

/// See the header.
///
/// # Safety
/// Place and source are null or valid; the message has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_send_request(
    place: *mut *mut PendingRequest,
    source: *mut Source,
    message: *const c_void,
    length: usize,
    proc: Option<RequestProc>,
    clientd: *mut c_void,
    flags: c_int,
    timeout_ms: u32,
) -> c_int {
    guard(|| {
        if place.is_null() {
            return Err(Failure::null("the place for the request"));
        }
        let proc = proc.ok_or_else(|| Failure::null("the callback"))?;
        // SAFETY: this function's contract.
        let (handle, payload) = unsafe { (borrowed(source, "the source")?, bytes(message, length)?) };
        let flags = sources::flags(flags)?;
        let patience = Duration::from_millis(timeout_ms.into());
        let (engine, own) = (&handle.engine, handle.plain()?);
        engine.sending(|sources| {
            let id = sources.request(own, payload, flags, patience)?;
            // Before the lock is given back: the response may be on its way.
            // SAFETY: this function's contract.
            let request = unsafe { hand_out(place, PendingRequest { engine: Arc::clone(engine), id }) }?;
            engine.set_request(id, Some(Callback { proc, clientd, handle: request }));
            Ok(())
        })
    })
}

/// See the header.
///
/// # Safety
/// The request is null, or was sent and not deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_request_delete(request: *mut PendingRequest) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let handle = unsafe { borrowed(request, "the request") }?;
        handle.engine.sending(|sources| {
            sources.close_request(handle.id);
            handle.engine.set_request(handle.id, None);
            Ok(())
        })?;
        // SAFETY: this function's contract.
        unsafe { take_back(request, "the request") }.map(drop)
    })
}

/// See the header.
///
/// # Safety
/// Context and address are null or valid; the message has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_send_response(
    context: *mut ContextHandle,
    reply_to: *const ReplyTo,
    message: *const c_void,
    length: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, to, payload) = unsafe {
            (
                borrowed(context, "the context")?,
                borrowed(reply_to, "the address of the reply")?,
                bytes(message, length)?,
            )
        };
        if to.port == 0 {
            return Err(Failure::new(
                crate::error::Code::Invalid,
                "the message was no request: it has no address for replies",
            ));
        }
        let request = Request { from: SocketAddrV4::new(Ipv4Addr::from(to.address), to.port), number: to.number };
        handle.engine.sending(|sources| sources.respond(&request, payload).map_err(Failure::from))
    })
}
