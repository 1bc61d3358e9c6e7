//! Publishers.

use crate::arguments::{borrowed, hand_out, list, take_back, text};
use crate::error::{Code, Failure, guard};
use client::publication::PublicationConfig;
use client_io::{PublishError, Publisher};
use rwf::Primitive;
use rwf::msg::Domain;
use std::ffi::{c_char, c_double, c_int};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

/// A publisher behind a handle.
pub struct QwPublisher(Publisher);

/// `qw_value_t`.
#[repr(C)]
pub struct QwValue {
    name: *const c_char,
    kind: i32,
    reserved: i32,
    integer: i64,
    number: c_double,
    text: *const c_char,
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        let code = if matches!(error, PublishError::Write(_)) { Code::Field } else { Code::Ended };
        Self::new(code, error.to_string())
    }
}

/// See the header.
///
/// # Safety
/// Texts end with a NUL, and a pointer can be written to `publisher`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_listen(
    service: *const c_char,
    address: *const c_char,
    publisher: *mut *mut QwPublisher,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (service, address) = unsafe { (text(service, "service")?, text(address, "address")?) };
        let made = Publisher::listen(PublicationConfig::new(service), resolved(address)?)?;
        // SAFETY: likewise.
        unsafe { hand_out(publisher, QwPublisher(made)) }?;
        Ok(0)
    })
}

fn resolved(address: &str) -> Result<SocketAddr, Failure> {
    let found = address.to_socket_addrs()?.next();
    found.ok_or_else(|| Failure::new(Code::Invalid, format!("{address}: no address has this name")))
}

/// See the header.
///
/// # Safety
/// Texts end with a NUL, and a pointer can be written to `publisher`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_listen_encrypted(
    service: *const c_char,
    address: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
    publisher: *mut *mut QwPublisher,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let [service, address, certificate, key] = unsafe {
            [text(service, "service")?, text(address, "address")?, text(certificate, "certificate")?, text(key, "key")?]
        };
        let (config, at) = (PublicationConfig::new(service), resolved(address)?);
        let made = Publisher::listen_encrypted(config, at, Path::new(certificate), Path::new(key))?;
        // SAFETY: likewise.
        unsafe { hand_out(publisher, QwPublisher(made)) }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// Texts end with a NUL, and a pointer can be written to `publisher`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_dial(
    service: *const c_char,
    servers: *const c_char,
    user: *const c_char,
    publisher: *mut *mut QwPublisher,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (service, servers, user) =
            unsafe { (text(service, "service")?, text(servers, "servers")?, text(user, "user")?) };
        let made = Publisher::dial(PublicationConfig::new(service), servers, user)?;
        // SAFETY: likewise.
        unsafe { hand_out(publisher, QwPublisher(made)) }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_port(publisher: *const QwPublisher) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let address = unsafe { borrowed(publisher, "publisher") }?.0.address();
        Ok(address.map_or(0, |address| c_int::from(address.port())))
    })
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open; `values` has `count` whole values with texts that end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publish(
    publisher: *mut QwPublisher,
    item: *const c_char,
    values: *const QwValue,
    count: usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (publisher, item) = unsafe { (&borrowed(publisher.cast_const(), "publisher")?.0, text(item, "item")?) };
        // SAFETY: likewise.
        let values = unsafe { list(values, count, "values") }?;
        let mut fields = Vec::with_capacity(count);
        for value in values {
            // SAFETY: likewise.
            let name = unsafe { text(value.name, "the name of a value") }?;
            let primitive = match value.kind {
                0 => Primitive::Blank,
                1 => Primitive::Int(value.integer),
                2 => Primitive::Double(value.number),
                // SAFETY: likewise.
                3 => Primitive::Utf8(unsafe { text(value.text, name) }?.as_bytes()),
                other => return Err(Failure::new(Code::Invalid, format!("{name}: {other} is no type of a value"))),
            };
            fields.push((name, primitive));
        }
        publisher.publish(item, &fields)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open; texts end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publish_end(publisher: *mut QwPublisher, item: *const c_char, why: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (publisher, item) = unsafe { (&borrowed(publisher.cast_const(), "publisher")?.0, text(item, "item")?) };
        // SAFETY: likewise.
        publisher.end(Domain::MARKET_PRICE, item, unsafe { text(why, "text") }?)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_flush(publisher: *mut QwPublisher) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        unsafe { borrowed(publisher.cast_const(), "publisher") }?.0.flush();
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `publisher` is null or one that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_close(publisher: *mut QwPublisher) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        drop(unsafe { take_back(publisher, "publisher") }?);
        Ok(0)
    })
}
