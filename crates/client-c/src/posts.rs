//! Messages of programs that watch: posts with their answers, and generic messages.

use crate::arguments::{borrowed, list, text, write, write_text};
use crate::error::{Code, Failure, guard};
use crate::session::{QwSession, bounded, time};
use crate::subscription::QwSubscription;
use crate::values::{QwValue, field_list};
use client::{Event, PostError};
use client_io::{Notice, PostFailure};
use rwf::DataType;
use rwf::msg::{Domain, GenericFlags, GenericMsg, NakCode, PostMsg};
use std::ffi::{c_char, c_double, c_int};
use std::time::Instant;

impl From<PostFailure> for Failure {
    fn from(failure: PostFailure) -> Self {
        let code = match failure {
            PostFailure::Post(PostError::NotOpen | PostError::TooManyWait) => Code::NotOpen,
            PostFailure::Ended(_) => Code::Ended,
            _ => Code::Invalid,
        };
        Self::new(code, failure.to_string())
    }
}

const fn fields_of(body: &[u8]) -> PostMsg<'_> {
    PostMsg { container: DataType::FIELD_LIST, body, ..PostMsg::new(Domain::MARKET_PRICE, 0) }
}

/// Tells the number of a post whose answer is wanted.
///
/// # Safety
/// `post_id` is null or can be written.
unsafe fn tell(post_id: *mut u32, id: u32) {
    if !post_id.is_null() {
        // SAFETY: not null, and writable by this function's contract.
        unsafe { post_id.write(id) };
    }
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open; `values` has `count` whole values; `post_id` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_post(
    subscription: *const QwSubscription,
    item: u32,
    values: *const QwValue,
    count: usize,
    post_id: *mut u32,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let subscription = unsafe { borrowed(subscription, "subscription") }?;
        // SAFETY: likewise.
        let body = unsafe { field_list(subscription.dictionary(), values, count) }?;
        let (items, item) = (subscription.items()?, subscription.place(item)?);
        let id = items.post(item, &fields_of(&body), !post_id.is_null())?;
        // SAFETY: likewise.
        unsafe { tell(post_id, id) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `session` is null or open; texts end with a NUL; `values` has `count` whole values; `post_id` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_post_off_stream(
    session: *const QwSession,
    service: *const c_char,
    item: *const c_char,
    values: *const QwValue,
    count: usize,
    post_id: *mut u32,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let session = &unsafe { borrowed(session, "session") }?.0;
        // SAFETY: likewise.
        let (service, item) = unsafe { (text(service, "service")?, text(item, "item")?) };
        let no_dictionary = || Failure::new(Code::Connect, "the dictionary has not come");
        let dictionary = session.status().dictionary.ok_or_else(no_dictionary)?;
        // SAFETY: likewise.
        let body = unsafe { field_list(&dictionary, values, count) }?;
        let id = session.post_off_stream((service, item), &fields_of(&body), !post_id.is_null())?;
        // SAFETY: likewise.
        unsafe { tell(post_id, id) };
        Ok(0)
    })
}

/// `qw_answer_t`.
#[repr(C)]
pub struct QwAnswer {
    post_id: u32,
    kind: i32,
    nak_code: i32,
    reserved: i32,
}

/// `QW_TAKEN`, `QW_REFUSED` and `QW_UNANSWERED`.
const TAKEN: i32 = 1;
const REFUSED: i32 = 2;
const UNANSWERED: i32 = 3;

fn answer_of(notice: Notice) -> Option<(QwAnswer, String)> {
    let answer = |post_id, kind, nak: Option<NakCode>| {
        let nak_code = nak.map_or(0, |nak| i32::from(nak.0));
        QwAnswer { post_id, kind, nak_code, reserved: 0 }
    };
    match notice {
        Notice::Client(Event::PostAnswered { id, nak, text, .. }) => {
            Some((answer(id, if nak.is_some() { REFUSED } else { TAKEN }, nak), text))
        }
        Notice::Client(Event::PostUnanswered { id, .. }) => {
            let text = "no answer has come in time, or before the connection was lost".to_owned();
            Some((answer(id, UNANSWERED, None), text))
        }
        // The status of a session is asked for by functions of its own.
        _ => None,
    }
}

/// See the header.
///
/// # Safety
/// `session` is null or open, and asked for answers by this thread alone; `answer` is null or can be written; `text` is null or `size` bytes from it on
/// can be written; `length` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_next_answer(
    session: *const QwSession,
    timeout_s: c_double,
    answer: *mut QwAnswer,
    text: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let session = &unsafe { borrowed(session, "session") }?.0;
        let until = Instant::now() + bounded(time(timeout_s)?);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(notice) = session.next_notice(left) else {
                let over = session.status().is_over;
                return over
                    .map_or(Ok(0), |why| Err(Failure::new(Code::Ended, format!("the session has ended: {why}"))));
            };
            let Some((given, why)) = answer_of(notice) else { continue };
            // SAFETY: by this function's contract.
            unsafe { write_text(&why, text, size, length) }?;
            // SAFETY: likewise.
            unsafe { write(answer, given, "answer") }?;
            return Ok(1);
        }
    })
}

/// The type of data that C names by its number.
pub(crate) fn container(number: u8) -> Result<DataType, Failure> {
    // Types below are those of single values.
    if number < DataType::NO_DATA.0 {
        return Err(Failure::new(
            Code::Invalid,
            format!("container: {number} is none of QW_NO_DATA, QW_FIELD_LIST, ..."),
        ));
    }
    Ok(DataType(number))
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open; `bytes` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_send_generic(
    subscription: *const QwSubscription,
    item: u32,
    container_type: u8,
    bytes: *const u8,
    length: usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (subscription, body) = unsafe { (borrowed(subscription, "subscription")?, list(bytes, length, "bytes")?) };
        let (flags, container) = (GenericFlags::MESSAGE_COMPLETE, container(container_type)?);
        let generic = GenericMsg { flags, container, body, ..GenericMsg::new(Domain::MARKET_PRICE, 0) };
        Ok(c_int::from(subscription.items()?.send_generic(subscription.place(item)?, &generic)?))
    })
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open, and used by this thread alone; the others are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_message_body(
    subscription: *const QwSubscription,
    container_type: *mut u8,
    bytes: *mut *const u8,
    length: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let subscription = unsafe { borrowed(subscription, "subscription") }?;
        let none = || Failure::new(Code::Invalid, "no message was taken: call qw_next first");
        let message = subscription.current().ok_or_else(none)?;
        let body = rwf::peek::body(message.msg).unwrap_or_default();
        let container = rwf::peek::container(message.msg).unwrap_or(DataType::NO_DATA);
        // SAFETY: likewise.
        unsafe {
            write(container_type, container.0, "container")?;
            write(bytes, body.as_ptr(), "bytes")?;
            write(length, body.len(), "length")?;
        }
        Ok(c_int::from(container != DataType::NO_DATA))
    })
}
