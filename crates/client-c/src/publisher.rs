//! Publishers.

use crate::arguments::{borrowed, borrowed_mut, hand_out, list, take_back, text, write};
use crate::error::{Code, Failure, guard};
use crate::posts::container;
use crate::session::{bounded, invalid, optional, time};
use crate::values::{QwValue, named};
use client::publication::{Event, ItemName, PublicationConfig, Unpublished, Watcher};
use client_io::{Dial, Encryption, PublishError, Publisher, Transport};
use rwf::DataType;
use rwf::msg::Domain;
use std::ffi::{CString, c_char, c_double, c_int};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

/// A publisher behind a handle.
pub struct QwPublisher {
    publisher: Publisher,
    /// The event that was given last: C looks at it where it lies.
    last: Option<Given>,
}

struct Given {
    item: CString,
    bytes: Vec<u8>,
    /// The peer whose generic message it is.
    by: Option<Watcher>,
}

impl QwPublisher {
    const fn new(publisher: Publisher) -> Self {
        Self { publisher, last: None }
    }
}

/// `qw_publisher_options_t`.
#[repr(C)]
pub struct QwPublisherOptions {
    certificate: *const c_char,
    key: *const c_char,
    roots: *const c_char,
    domains: *const u8,
    domain_count: usize,
    is_encrypted: u8,
    is_websocket: u8,
    takes_posts: u8,
    waits: u8,
    reserved: [u8; 4],
}

/// Ways of a publisher, beside what it publishes.
#[derive(Default)]
struct Ways<'a> {
    /// Files of a certificate and its key.
    listens_with: Option<(&'a Path, &'a Path)>,
    dial: Dial,
}

impl QwPublisherOptions {
    /// # Safety
    /// The texts and the list are as the header says, for `'a`.
    unsafe fn apply<'a>(&self, config: &mut PublicationConfig) -> Result<Ways<'a>, Failure> {
        if self.reserved != [0; 4] {
            let text = "options.reserved is not zero: set the whole of options to zero first";
            return Err(Failure::new(Code::Invalid, text));
        }
        // SAFETY: by this function's contract.
        let [certificate, key, roots] = unsafe {
            [
                optional(self.certificate, "options.certificate")?,
                optional(self.key, "options.key")?,
                optional(self.roots, "options.roots")?,
            ]
        };
        // SAFETY: likewise.
        let domains = unsafe { list(self.domains, self.domain_count, "options.domains") }?;
        if !domains.is_empty() {
            config.domains = domains.iter().copied().map(Domain).collect();
        }
        config.takes_posts = self.takes_posts != 0;
        if self.waits != 0 {
            config.unpublished = Unpublished::Wait;
        }
        let listens_with = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((Path::new(certificate), Path::new(key))),
            (None, None) => None,
            _ => return Err(invalid(&"options.certificate and options.key belong together: name both files")),
        };
        let mut dial = Dial::default();
        if self.is_encrypted != 0 || roots.is_some() {
            dial.encryption = Encryption::with_roots(roots.map(Path::new)).map_err(|e| invalid(&e))?;
        }
        if self.is_websocket != 0 {
            dial.transport = Transport::WebSocket;
        }
        Ok(Ways { listens_with, dial })
    }
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
        unsafe { listen(service, address, None, publisher) }
    })
}

/// See the header.
///
/// # Safety
/// Texts end with a NUL, `options` is null or whole, and a pointer can be written to `publisher`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_listen_with(
    service: *const c_char,
    address: *const c_char,
    options: *const QwPublisherOptions,
    publisher: *mut *mut QwPublisher,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        unsafe { listen(service, address, options.as_ref(), publisher) }
    })
}

/// # Safety
/// As for `qw_publisher_listen_with`.
unsafe fn listen(
    service: *const c_char,
    address: *const c_char,
    options: Option<&QwPublisherOptions>,
    publisher: *mut *mut QwPublisher,
) -> Result<c_int, Failure> {
    // SAFETY: by this function's contract.
    let (service, address) = unsafe { (text(service, "service")?, text(address, "address")?) };
    let mut config = PublicationConfig::new(service);
    // SAFETY: likewise.
    let ways = options.map(|options| unsafe { options.apply(&mut config) }).transpose()?.unwrap_or_default();
    let at = resolved(address)?;
    let made = match ways.listens_with {
        Some((certificate, key)) => Publisher::listen_encrypted(config, at, certificate, key)?,
        None => Publisher::listen(config, at)?,
    };
    // SAFETY: likewise.
    unsafe { hand_out(publisher, QwPublisher::new(made)) }?;
    Ok(0)
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
        unsafe { hand_out(publisher, QwPublisher::new(made)) }?;
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
        unsafe { dial(service, servers, user, None, publisher) }
    })
}

/// See the header.
///
/// # Safety
/// Texts end with a NUL, `options` is null or whole, and a pointer can be written to `publisher`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_dial_with(
    service: *const c_char,
    servers: *const c_char,
    user: *const c_char,
    options: *const QwPublisherOptions,
    publisher: *mut *mut QwPublisher,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        unsafe { dial(service, servers, user, options.as_ref(), publisher) }
    })
}

/// # Safety
/// As for `qw_publisher_dial_with`.
unsafe fn dial(
    service: *const c_char,
    servers: *const c_char,
    user: *const c_char,
    options: Option<&QwPublisherOptions>,
    publisher: *mut *mut QwPublisher,
) -> Result<c_int, Failure> {
    // SAFETY: by this function's contract.
    let (service, servers, user) =
        unsafe { (text(service, "service")?, text(servers, "servers")?, text(user, "user")?) };
    let mut config = PublicationConfig::new(service);
    // SAFETY: likewise.
    let ways = options.map(|options| unsafe { options.apply(&mut config) }).transpose()?.unwrap_or_default();
    let made = Publisher::dial_as(config, servers, user, ways.dial)?;
    // SAFETY: likewise.
    unsafe { hand_out(publisher, QwPublisher::new(made)) }?;
    Ok(0)
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_port(publisher: *const QwPublisher) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let address = unsafe { borrowed(publisher, "publisher") }?.publisher.address();
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
        let (publisher, item) =
            unsafe { (&borrowed(publisher.cast_const(), "publisher")?.publisher, text(item, "item")?) };
        // SAFETY: likewise.
        publisher.publish(item, &unsafe { named(values, count) }?)?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open; `item` is null or a text; `bytes` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publish_data(
    publisher: *mut QwPublisher,
    domain: u8,
    item: *const c_char,
    container_type: u8,
    bytes: *const u8,
    length: usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (publisher, item) =
            unsafe { (&borrowed(publisher.cast_const(), "publisher")?.publisher, text(item, "item")?) };
        // SAFETY: likewise.
        let body = unsafe { list(bytes, length, "bytes") }?;
        publisher.publish_body(Domain(domain), item, container(container_type)?, body)?;
        Ok(0)
    })
}

/// `qw_event_t`.
#[repr(C)]
pub struct QwEvent {
    kind: i32,
    domain: u8,
    container: u8,
    reserved: u16,
    item: *const c_char,
    bytes: *const u8,
    length: usize,
}

/// An event as C is told it: its kind, `QW_WANTED` and so on, domain and type of data, and what lies behind the pointers.
fn told(event: Event) -> ((i32, u8, u8), Given) {
    let of = |kind: i32, item: &ItemName, container: DataType, bytes, by| {
        // A name with a NUL in it has none in C.
        let text = CString::new(&*item.name).unwrap_or_default();
        ((kind, item.domain.0, container.0), Given { item: text, bytes, by })
    };
    let plain = |kind, text: String| ((kind, 0, 0), Given { item: CString::default(), bytes: text.into(), by: None });
    match event {
        Event::Wanted(item) => of(1, &item, DataType::UNKNOWN, Vec::new(), None),
        Event::Unwanted(item) => of(2, &item, DataType::UNKNOWN, Vec::new(), None),
        Event::Posted { item, container, body } => of(3, &item, container, body, None),
        Event::Generic { item, by, container, body } => of(4, &item, container, body, Some(by)),
        Event::Ready => plain(5, String::new()),
        Event::Refused(why) => plain(7, why),
        // The server is lost, or told that the session is over.
        _ => plain(6, String::new()),
    }
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open, and used by this thread alone; `event` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_next(
    publisher: *mut QwPublisher,
    timeout_s: c_double,
    event: *mut QwEvent,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let QwPublisher { publisher, last } = unsafe { borrowed_mut(publisher, "publisher") }?;
        *last = None;
        let Some(next) = publisher.next_event(bounded(time(timeout_s)?)) else {
            let over = publisher.status().is_over;
            return over.map_or(Ok(0), |why| Err(PublishError::Ended(why).into()));
        };
        let ((kind, domain, container), given) = told(next);
        let Given { item, bytes, .. } = last.insert(given);
        let (item, length, bytes) = (item.as_ptr(), bytes.len(), bytes.as_ptr());
        // SAFETY: likewise.
        unsafe { write(event, QwEvent { kind, domain, container, reserved: 0, item, bytes, length }, "event") }?;
        Ok(1)
    })
}

/// See the header.
///
/// # Safety
/// `publisher` is null or open, and used by this thread alone; `bytes` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_publisher_answer(
    publisher: *const QwPublisher,
    container_type: u8,
    bytes: *const u8,
    length: usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let QwPublisher { publisher, last } = unsafe { borrowed(publisher, "publisher") }?;
        // SAFETY: likewise.
        let body = unsafe { list(bytes, length, "bytes") }?;
        let by = last.as_ref().and_then(|given| given.by);
        let none = || invalid(&"nobody is to be answered: the last event of qw_publisher_next is none of QW_ASKED");
        publisher.send_generic(by.ok_or_else(none)?, container(container_type)?, body)?;
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
        let (publisher, item) =
            unsafe { (&borrowed(publisher.cast_const(), "publisher")?.publisher, text(item, "item")?) };
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
        unsafe { borrowed(publisher.cast_const(), "publisher") }?.publisher.flush();
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
