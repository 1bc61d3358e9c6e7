//! Errors as codes with text, one for each thread; and the guard that no panic passes.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use lbm_io::{ContextError, SendError};
use lbm_store::source::NotAdmitted;
use lbm_store_io::{AddError, SendRefused};

/// What `QW_LBM_E...` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// An argument is null, not UTF-8, or has a value that is not allowed.
    Invalid = 1,
    /// Not now.
    WouldBlock = 2,
    /// No such option, or not a value of it.
    Option = 3,
    /// The operating system refuses.
    System = 4,
    /// A message is too long.
    TooLong = 5,
    /// What the call is about is not there any more.
    Gone = 6,
    /// Not from inside a callback.
    InCallback = 7,
    /// Not in this operational mode.
    Mode = 8,
    /// A fault of this library.
    Internal = 9,
    /// A callback of the other context waits for this one.
    Deadlock = 10,
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn null(what: &str) -> Self {
        Self::new(Code::Invalid, format!("{what} is null"))
    }
}

impl From<ContextError> for Failure {
    fn from(error: ContextError) -> Self {
        let code = match error {
            ContextError::Io { .. } | ContextError::Ports { .. } => Code::System,
            ContextError::Interface { .. } => Code::Option,
            _ => Code::Invalid,
        };
        Self::new(code, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let code = match error {
            SendError::WouldBlock => Code::WouldBlock,
            SendError::TooLong => Code::TooLong,
            SendError::NoRequestPort => Code::System,
            SendError::NoSource | SendError::NoRequester => Code::Gone,
            _ => Code::Invalid,
        };
        Self::new(code, error.to_string())
    }
}

impl From<SendRefused> for Failure {
    fn from(refused: SendRefused) -> Self {
        match refused {
            SendRefused::Transport(error) => error.into(),
            SendRefused::NotAdmitted(NotAdmitted::Superseded) => Self::new(Code::Gone, refused.to_string()),
            SendRefused::NotAdmitted(_) => Self::new(Code::WouldBlock, refused.to_string()),
        }
    }
}

impl From<lbm_queue_io::SendRefused> for Failure {
    fn from(refused: lbm_queue_io::SendRefused) -> Self {
        match refused {
            lbm_queue_io::SendRefused::Transport(error) => error.into(),
            lbm_queue_io::SendRefused::NotAdmitted(_) => Self::new(Code::WouldBlock, refused.to_string()),
        }
    }
}

impl From<lbm_queue_io::AddError> for Failure {
    fn from(error: lbm_queue_io::AddError) -> Self {
        match error {
            lbm_queue_io::AddError::Context(error) => error.into(),
            error => Self::new(Code::Option, error.to_string()),
        }
    }
}

impl From<AddError> for Failure {
    fn from(error: AddError) -> Self {
        match error {
            AddError::Stores(error) => Self::new(Code::Option, error.to_string()),
            AddError::Context(error) => error.into(),
        }
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

/// Runs what a function does. Its failure, or a panic, becomes the thread's last error.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Code::Internal, format!("a fault of this library: {}", text_of(&*panic))),
    };
    let text = CString::new(failure.text.replace('\0', "?")).unwrap_or_default();
    // A thread that is ending has no last error any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (failure.code as c_int, text));
    -1
}

/// What a panic says.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?")
}

/// Code of the last failure on this thread, 0 before there was one.
#[unsafe(no_mangle)]
pub extern "C" fn qw_lbm_errnum() -> c_int {
    LAST.try_with(|last| last.borrow().0).unwrap_or(Code::Internal as c_int)
}

/// Text of the last failure on this thread: valid until the next failure on it.
#[unsafe(no_mangle)]
pub extern "C" fn qw_lbm_errmsg() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"no error text: the thread is ending".as_ptr())
}

/// Name and version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn qw_lbm_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!("quoteway-lbm ", env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"quoteway-lbm",
        };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guard(|| panic!("on purpose")), -1);
        assert_eq!(qw_lbm_errnum(), Code::Internal as c_int);
        // SAFETY: the text is valid until the next failure on this thread.
        let text = unsafe { CStr::from_ptr(qw_lbm_errmsg()) };
        assert_eq!(text.to_bytes(), b"a fault of this library: on purpose");
        assert_eq!(guard(|| Ok(())), 0);
        assert_eq!(qw_lbm_errnum(), Code::Internal as c_int, "a success leaves the last error");
    }
}
