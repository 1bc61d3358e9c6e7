//! Pointers that C hands in, checked as far as pointers can be.

use std::ffi::{CStr, c_char, c_void};

use crate::error::{Code, Failure};

/// A thing behind a pointer.
///
/// # Safety
/// `pointer` is null, or points to a `T` that is valid and not written for `'a`.
pub(crate) unsafe fn borrowed<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: by the caller's contract it is null or valid.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// A thing behind a pointer, to be changed.
///
/// # Safety
/// `pointer` is null, or points to a `T` that is valid and used by nobody else for `'a`.
pub(crate) unsafe fn borrowed_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: by the caller's contract it is null or valid and ours alone.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(what))
}

/// A text.
///
/// # Safety
/// `pointer` is null, or points to bytes that end with a NUL and are valid and not written for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: it is not null, and by the caller's contract it ends with a NUL.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    bytes.to_str().map_err(|_| Failure::new(Code::Invalid, format!("{what} is not UTF-8")))
}

/// Bytes of a message. No bytes may be null.
///
/// # Safety
/// `pointer` is null, or `length` bytes from it on are valid and not written for `'a`.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::null("the message"));
    }
    if isize::try_from(length).is_err() {
        return Err(Failure::new(Code::Invalid, "the message's length is no length"));
    }
    // SAFETY: not null, of a length that a slice can have, and valid by the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) })
}

/// Gives a thing to C.
///
/// # Safety
/// `place` is null, or a pointer can be written there.
pub(crate) unsafe fn hand_out<T>(place: *mut *mut T, thing: T) -> Result<*mut T, Failure> {
    if place.is_null() {
        return Err(Failure::null("the place for the result"));
    }
    let pointer = Box::into_raw(Box::new(thing));
    // SAFETY: it is not null, and writable by the caller's contract.
    unsafe { place.write(pointer) };
    Ok(pointer)
}

/// Takes back what [`hand_out`] gave.
///
/// # Safety
/// `pointer` is null, or came from [`hand_out`] for a `T` and was not taken back yet.
pub(crate) unsafe fn take_back<T>(pointer: *mut T, what: &str) -> Result<Box<T>, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: by the caller's contract it came from `Box::into_raw`, once.
    Ok(unsafe { Box::from_raw(pointer) })
}
