//! Attributes: sets of options by name, one kind for contexts, sources, receivers and wildcard receivers each.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lbm_io::options::{Options, Scope};

use crate::arguments::{borrowed, borrowed_mut, hand_out, take_back, text};
use crate::error::{Code, Failure, guard};

/// Options of one scope, over the process's defaults.
#[derive(Clone, Debug)]
pub struct Attributes {
    scope: Scope,
    options: Options,
}

/// What `qw_lbm_config` has read.
static DEFAULTS: Mutex<Option<Options>> = Mutex::new(None);

fn defaults() -> MutexGuard<'static, Option<Options>> {
    // Options are never left half set.
    DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The options of attributes, or the defaults without any.
///
/// # Safety
/// `attributes` is null or valid.
pub(crate) unsafe fn options(attributes: *const Attributes, scope: Scope) -> Result<Options, Failure> {
    if attributes.is_null() {
        return Ok(defaults().clone().unwrap_or_default());
    }
    // SAFETY: not null, and valid by the caller's contract.
    let attributes = unsafe { borrowed(attributes, "the attributes") }?;
    if attributes.scope != scope {
        let text = format!("{} attributes where {scope} attributes belong", attributes.scope);
        return Err(Failure::new(Code::Invalid, text));
    }
    Ok(attributes.options.clone())
}

/// Reads a file of options as the defaults of everything that is created from now on.
///
/// # Safety
/// `file` is null, or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_lbm_config(file: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the function's contract.
        let file = unsafe { text(file, "the file's name") }?;
        let content = std::fs::read_to_string(file).map_err(|e| Failure::new(Code::System, format!("{file}: {e}")))?;
        let mut defaults = defaults();
        let mut options = defaults.clone().unwrap_or_default();
        let warnings = options.load(file, &content).map_err(|errors| {
            let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Failure::new(Code::Option, all.join("; "))
        })?;
        // As the product's library does where no function for its log is given.
        for warning in warnings {
            eprintln!("quoteway-lbm: {warning}");
        }
        *defaults = Some(options);
        Ok(())
    })
}

unsafe fn create(place: *mut *mut Attributes, scope: Scope) -> c_int {
    guard(|| {
        let options = defaults().clone().unwrap_or_default();
        // SAFETY: the contract of the functions below.
        unsafe { hand_out(place, Attributes { scope, options }) }.map(|_| ())
    })
}

unsafe fn delete(attributes: *mut Attributes) -> c_int {
    guard(|| {
        // SAFETY: the contract of the functions below.
        unsafe { take_back(attributes, "the attributes") }.map(drop)
    })
}

unsafe fn set(attributes: *mut Attributes, scope: Scope, name: *const c_char, value: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the contract of the functions below.
        let (attributes, name, value) = unsafe {
            (borrowed_mut(attributes, "the attributes")?, text(name, "the option's name")?, text(value, "the value")?)
        };
        let failed = |e: lbm_io::options::OptionError| Failure::new(Code::Option, e.to_string());
        attributes.options.set(scope, name, value).map_err(failed)
    })
}

unsafe fn get(
    attributes: *const Attributes,
    scope: Scope,
    name: *const c_char,
    value: *mut c_char,
    size: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: the contract of the functions below.
        let (attributes, name, size) = unsafe {
            (borrowed(attributes, "the attributes")?, text(name, "the option's name")?, borrowed_mut(size, "the size")?)
        };
        let Some(found) = attributes.options.text(scope, name) else {
            // Setting an option that there is not says which one may have been meant.
            let fault = Options::new().set(scope, name, "").err();
            return Err(Failure::new(Code::Option, fault.map_or_else(String::new, |fault| fault.to_string())));
        };
        // SAFETY: `value` has `size` bytes by the functions' contract.
        unsafe { write_text(found, value, size) }
    })
}

/// Writes a text and its NUL; `size` says how much room there is and is told how much was needed.
///
/// # Safety
/// `place` is null, or `size` bytes can be written there.
pub(crate) unsafe fn write_text(found: &str, place: *mut c_char, size: &mut usize) -> Result<(), Failure> {
    let (room, needed) = (*size, found.len() + 1);
    *size = needed;
    if place.is_null() {
        return Err(Failure::null("the place for the text"));
    }
    if room < needed {
        return Err(Failure::new(Code::Invalid, format!("the text needs {needed} bytes, there are {room}")));
    }
    // SAFETY: the caller's contract gives `room` bytes, of which this writes `needed`; the texts do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(found.as_ptr(), place.cast::<u8>(), found.len());
        place.add(found.len()).write(0);
    }
    Ok(())
}

macro_rules! attributes {
    ($scope:expr, $create:ident, $delete:ident, $set:ident, $get:ident) => {
        /// See the header.
        ///
        /// # Safety
        /// The place is null, or a pointer can be written there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(place: *mut *mut Attributes) -> c_int {
            // SAFETY: this function's contract.
            unsafe { create(place, $scope) }
        }

        /// See the header.
        ///
        /// # Safety
        /// The attributes are null, or were created and not deleted.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $delete(attributes: *mut Attributes) -> c_int {
            // SAFETY: this function's contract.
            unsafe { delete(attributes) }
        }

        /// See the header.
        ///
        /// # Safety
        /// The attributes are null or valid; name and value are null or end with a NUL.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(attributes: *mut Attributes, name: *const c_char, value: *const c_char) -> c_int {
            // SAFETY: this function's contract.
            unsafe { set(attributes, $scope, name, value) }
        }

        /// See the header.
        ///
        /// # Safety
        /// As above; the size is null or valid, and the value has so many bytes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            attributes: *const Attributes,
            name: *const c_char,
            value: *mut c_char,
            size: *mut usize,
        ) -> c_int {
            // SAFETY: this function's contract.
            unsafe { get(attributes, $scope, name, value, size) }
        }
    };
}

attributes!(
    Scope::Context,
    qw_lbm_context_attr_create,
    qw_lbm_context_attr_delete,
    qw_lbm_context_attr_str_setopt,
    qw_lbm_context_attr_str_getopt
);
attributes!(
    Scope::Source,
    qw_lbm_src_attr_create,
    qw_lbm_src_attr_delete,
    qw_lbm_src_attr_str_setopt,
    qw_lbm_src_attr_str_getopt
);
attributes!(
    Scope::Receiver,
    qw_lbm_rcv_attr_create,
    qw_lbm_rcv_attr_delete,
    qw_lbm_rcv_attr_str_setopt,
    qw_lbm_rcv_attr_str_getopt
);
attributes!(
    Scope::Wildcard,
    qw_lbm_wildcard_rcv_attr_create,
    qw_lbm_wildcard_rcv_attr_delete,
    qw_lbm_wildcard_rcv_attr_str_setopt,
    qw_lbm_wildcard_rcv_attr_str_getopt
);
