//! Pointers that C hands in, checked as far as pointers can be.

use std::ffi::{CStr, c_char};

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

/// A list of `count` things.
///
/// # Safety
/// `pointer` is null, or `count` things from it on are valid and not written for `'a`.
pub(crate) unsafe fn list<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::null(what));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::new(Code::Invalid, format!("{what}: {count} is no count")));
    }
    // SAFETY: not null, of a length that a slice can have, and valid by the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// A list of texts.
///
/// # Safety
/// As for [`list`] and, of each, [`text`].
pub(crate) unsafe fn texts(pointer: *const *const c_char, count: usize, what: &str) -> Result<Vec<String>, Failure> {
    // SAFETY: by the caller's contract.
    let all = unsafe { list(pointer, count, what) }?;
    // SAFETY: likewise.
    all.iter().map(|one| unsafe { text(*one, what) }.map(str::to_owned)).collect()
}

/// Writes a result.
///
/// # Safety
/// `place` is null, or a `T` can be written there.
pub(crate) unsafe fn write<T>(place: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: it is not null, and writable by the caller's contract.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes a text, cut off and ended by a NUL, and its whole length if that is asked for.
///
/// # Safety
/// `to` is null or `size` bytes from it on can be written; `length` is null or can be written.
pub(crate) unsafe fn write_text(text: &str, to: *mut c_char, size: usize, length: *mut usize) -> Result<(), Failure> {
    if let Some(room) = size.checked_sub(1) {
        if to.is_null() {
            return Err(Failure::null("the place for the text"));
        }
        let count = text.floor_char_boundary(room);
        // SAFETY: count and the NUL are within size bytes, which can be written by the caller's contract; a text of ours does not overlap them.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), count);
            to.add(count).write(0);
        }
    }
    if !length.is_null() {
        // SAFETY: it is not null, and writable by the caller's contract.
        unsafe { length.write(text.len()) };
    }
    Ok(())
}

/// Gives a thing to C.
///
/// # Safety
/// `place` is null, or a pointer can be written there.
pub(crate) unsafe fn hand_out<T>(place: *mut *mut T, thing: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null("the place for the result"));
    }
    // SAFETY: it is not null, and writable by the caller's contract.
    unsafe { place.write(Box::into_raw(Box::new(thing))) };
    Ok(())
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
