//! Errors as codes with text, one for each thread; and the guard that no panic passes.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The codes `QW_E...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// An argument is null, not UTF-8, or has a value that is not allowed.
    Invalid = 1,
    /// The operating system refuses.
    System = 2,
    /// Nobody has answered in time, or the login is refused.
    Connect = 3,
    /// The session, subscription or publisher has ended.
    Ended = 4,
    /// No such field, or a value of another type.
    Field = 5,
    /// A fault of this library.
    Internal = 6,
    /// An item is not open, or too many posts wait.
    NotOpen = 7,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn null(what: &str) -> Self {
        Self::new(Code::Invalid, format!("{what} is null"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Code::System, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<(c_int, CString)> = RefCell::new((0, CString::default()));
}

/// Runs what a function does. Its failure, or a panic, becomes the thread's last error, and -1.
pub(crate) fn guard(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => return result,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Code::Internal, format!("a fault of this library: {}", text_of(&*panic))),
    };
    let text = CString::new(failure.text.replace('\0', "?")).unwrap_or_default();
    // A thread that is ending has no last error any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (failure.code as c_int, text));
    -1
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?")
}

/// Code of the last failure on this thread, 0 before there was one.
#[unsafe(no_mangle)]
pub extern "C" fn qw_errnum() -> c_int {
    LAST.try_with(|last| last.borrow().0).unwrap_or(Code::Internal as c_int)
}

/// Text of the last failure on this thread: valid until the next failure on it.
#[unsafe(no_mangle)]
pub extern "C" fn qw_errmsg() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"no error text: the thread is ending".as_ptr())
}

/// Name and version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn qw_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!("quoteway ", env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"quoteway",
        };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guard(|| panic!("on purpose")), -1);
        assert_eq!(qw_errnum(), Code::Internal as c_int);
        // SAFETY: the text is valid until the next failure on this thread.
        let text = unsafe { CStr::from_ptr(qw_errmsg()) };
        assert_eq!(text.to_bytes(), b"a fault of this library: on purpose");
        assert_eq!((guard(|| Ok(1)), qw_errnum()), (1, Code::Internal as c_int), "a success leaves the last error");
    }
}
