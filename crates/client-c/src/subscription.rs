//! Subscriptions.

use crate::arguments::{borrowed, borrowed_mut, hand_out, take_back, text, texts, write, write_text};
use crate::error::{Code, Failure, guard};
use crate::session::{QwSession, time};
use client::Interest;
use client::fields::{FromValue as _, fields};
use client::members::Kind;
use client::queue::{Message, Overflow, QueueConfig};
use client_io::{FollowError, Followed, Session, Step, Subscription};
use omm::consumer::ItemRequest;
use rwf::Primitive;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, MsgClass, Priority};
use rwf::rdm::request::View;
use std::ffi::{CString, c_char, c_double, c_int};
use std::sync::Arc;
use std::time::Duration;

/// A subscription behind a handle.
pub struct QwSubscription {
    source: Source,
    /// Names of the items, by place: those that C was told of.
    names: Vec<CString>,
    dictionary: Arc<Dictionary>,
}

/// The items that are watched.
enum Source {
    Items(Subscription),
    /// The members of a chain or symbol list; whether the last thing that happened was a message.
    Members(Box<Followed>, bool),
}

/// Classes of what happens to the members of a chain or list: `QW_JOINED`, `QW_LEFT`, `QW_BROKEN`. No message of RWF has them.
const JOINED: i32 = 101;
const LEFT: i32 = 102;
const BROKEN: i32 = 103;

/// `qw_message_t`.
#[repr(C)]
pub struct QwMessage {
    name: *const c_char,
    item: u32,
    message_class: i32,
    is_final: i32,
    received_ns: i64,
    bytes: *const u8,
    length: usize,
}

/// `qw_options_t`.
#[repr(C)]
pub struct QwOptions {
    fields: *const *const c_char,
    field_count: usize,
    domain: u8,
    is_snapshot: u8,
    overflow: u8,
    reserved: [u8; 5],
    limit_bytes: usize,
}

/// `qw_counts_t`.
#[repr(C)]
pub struct QwCounts {
    queued: u64,
    merged: u64,
    dropped: u64,
    full: u64,
    cut: u64,
}

impl QwOptions {
    /// # Safety
    /// The names of fields are as the header says.
    unsafe fn apply(&self, dictionary: &Dictionary, request: &mut ItemRequest) -> Result<QueueConfig, Failure> {
        if self.reserved != [0; 5] {
            return Err(Failure::new(
                Code::Invalid,
                "options.reserved is not zero: set the whole of options to zero first",
            ));
        }
        // SAFETY: by this function's contract.
        let names = unsafe { texts(self.fields, self.field_count, "options.fields") }?;
        if !names.is_empty() {
            let fid = |name: &String| {
                let unknown = || Failure::new(Code::Field, client::fields::UnknownField(name.clone()).to_string());
                dictionary.field_named(name).map(rwf::dictionary::FieldDef::fid).ok_or_else(unknown)
            };
            request.view = Some(View::Fields(names.iter().map(fid).collect::<Result<_, _>>()?));
        }
        if self.domain != 0 {
            request.domain = Domain(self.domain);
        }
        request.streaming = self.is_snapshot == 0;
        let overflow = match self.overflow {
            0 => Overflow::Wait,
            1 => Overflow::Latest,
            2 => Overflow::Cut,
            other => {
                return Err(Failure::new(
                    Code::Invalid,
                    format!("options.overflow: {other} is none of QW_WAIT, QW_LATEST, QW_CUT"),
                ));
            }
        };
        let limit_bytes = if self.limit_bytes == 0 { QueueConfig::default().limit_bytes } else { self.limit_bytes };
        Ok(QueueConfig { limit_bytes, overflow })
    }
}

/// See the header.
///
/// # Safety
/// As the header says: `session` is open, `items` has `count` texts, `options` is null or whole, and a pointer can be written to `subscription`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_subscribe(
    session: *mut QwSession,
    service: *const c_char,
    items: *const *const c_char,
    count: usize,
    options: *const QwOptions,
    subscription: *mut *mut QwSubscription,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (session, service) = unsafe { (&borrowed(session.cast_const(), "session")?.0, text(service, "service")?) };
        // SAFETY: likewise.
        let names = unsafe { texts(items, count, "items") }?;
        // SAFETY: likewise.
        let (dictionary, request, queue) = unsafe { asked(session, service, options.as_ref()) }?;
        let of_c = |name: &String| CString::new(name.as_str()).unwrap_or_default();
        let of_items = names.iter().map(of_c).collect();
        let made = session.subscribe_to(Interest { request, names }, queue);
        let made = made.map_err(|e| Failure::new(Code::Ended, e.to_string()))?;
        // SAFETY: likewise.
        unsafe { hand_out(subscription, QwSubscription { source: Source::Items(made), names: of_items, dictionary }) }?;
        Ok(0)
    })
}

/// The dictionary, the request and the queue of what is to be watched.
///
/// # Safety
/// The options are as the header says.
unsafe fn asked(
    session: &Session,
    service: &str,
    options: Option<&QwOptions>,
) -> Result<(Arc<Dictionary>, ItemRequest, QueueConfig), Failure> {
    let no_dictionary = || Failure::new(Code::Connect, "the dictionary has not come");
    let dictionary = session.status().dictionary.ok_or_else(no_dictionary)?;
    let mut request = ItemRequest::new(service, "");
    // SAFETY: by this function's contract.
    let queue = options.map(|options| unsafe { options.apply(&dictionary, &mut request) }).transpose()?;
    Ok((dictionary, request, queue.unwrap_or_default()))
}

/// See the header.
///
/// # Safety
/// As the header says: `session` is open, `options` is null or whole, and a pointer can be written to `subscription`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_follow(
    session: *mut QwSession,
    service: *const c_char,
    name: *const c_char,
    is_list: c_int,
    options: *const QwOptions,
    subscription: *mut *mut QwSubscription,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let session = &unsafe { borrowed(session.cast_const(), "session") }?.0;
        // SAFETY: likewise.
        let (service, name) = unsafe { (text(service, "service")?, text(name, "name")?) };
        // SAFETY: likewise.
        let (dictionary, request, queue) = unsafe { asked(session, service, options.as_ref()) }?;
        if !request.streaming {
            let why = "options.is_snapshot: members of a chain or list are followed; subscribe to it for a snapshot";
            return Err(Failure::new(Code::Invalid, why));
        }
        let kind = if is_list == 0 { Kind::Chain } else { Kind::SymbolList };
        let made = session.follow(kind, name, request, queue);
        let made = made.map_err(|e| Failure::new(Code::Ended, e.to_string()))?;
        let source = Source::Members(Box::new(made), false);
        // SAFETY: likewise.
        unsafe { hand_out(subscription, QwSubscription { source, names: Vec::new(), dictionary }) }?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `subscription` is null or one that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_subscription_close(subscription: *mut QwSubscription) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        drop(unsafe { take_back(subscription, "subscription") }?);
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open, and used by this thread alone; `message` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_next(
    subscription: *mut QwSubscription,
    timeout_s: c_double,
    message: *mut QwMessage,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let subscription = unsafe { borrowed_mut(subscription, "subscription") }?;
        let Some(given) = subscription.next(time(timeout_s)?)? else { return Ok(0) };
        // SAFETY: by this function's contract.
        unsafe { write(message, given, "message") }?;
        Ok(1)
    })
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open; `counts` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_subscription_counts(subscription: *const QwSubscription, counts: *mut QwCounts) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let now = match &unsafe { borrowed(subscription, "subscription") }?.source {
            Source::Items(items) => items.counts(),
            Source::Members(members, _) => members.counts(),
        };
        let client::queue::Counts { queued, merged, dropped, full, cut } = now;
        // SAFETY: likewise.
        unsafe { write(counts, QwCounts { queued, merged, dropped, full, cut }, "counts") }?;
        Ok(0)
    })
}

fn given(name: &CString, next: &Message<'_>) -> QwMessage {
    QwMessage {
        name: name.as_ptr(),
        item: next.item,
        message_class: i32::from(next.class.0),
        is_final: i32::from(next.is_final),
        received_ns: next.received_ns as i64,
        bytes: next.msg.as_ptr(),
        length: next.msg.len(),
    }
}

impl QwSubscription {
    /// Waits for the next thing that happens. `None`: the time is over.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<QwMessage>, Failure> {
        let Self { source, names, .. } = self;
        match source {
            Source::Items(items) => {
                let next = items.next(timeout).map_err(|e| Failure::new(Code::Ended, e.to_string()))?;
                Ok(next.map(|next| given(&names[next.item as usize], &next)))
            }
            Source::Members(members, has_message) => {
                *has_message = false;
                let step = members.next(timeout).map_err(|e: FollowError| Failure::new(Code::Ended, e.to_string()))?;
                let (item, class) = match step {
                    None => return Ok(None),
                    Some(Step::Joined { item }) => (item, JOINED),
                    Some(Step::Left { item }) => (item, LEFT),
                    Some(Step::Broken { record }) => (record, BROKEN),
                    Some(Step::Message(message)) => {
                        *has_message = true;
                        return Ok(Some(given(&names[message.item as usize], &message)));
                    }
                };
                // Members have joined before anything else is told of them. Places before are those of records.
                while names.len() <= item as usize {
                    names.push(CString::new(members.name(names.len() as u32)).unwrap_or_default());
                }
                let name = names[item as usize].as_ptr();
                let (is_final, received_ns, bytes, length) = (0, 0, std::ptr::null(), 0);
                Ok(Some(QwMessage { name, item, message_class: class, is_final, received_ns, bytes, length }))
            }
        }
    }

    /// The message that was given last.
    pub(crate) fn current(&self) -> Option<Message<'_>> {
        match &self.source {
            Source::Items(items) => items.current(),
            Source::Members(members, has_message) => members.current().filter(|_| *has_message),
        }
    }

    pub(crate) const fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Its items, for what is done to one of them.
    pub(crate) fn items(&self) -> Result<&Subscription, Failure> {
        let why =
            "members of a chain or list cannot be paused, posted to or asked for otherwise; subscribe to the item";
        match &self.source {
            Source::Items(items) => Ok(items),
            Source::Members(..) => Err(Failure::new(Code::Invalid, why)),
        }
    }

    /// The place of an item that there is.
    pub(crate) fn place(&self, item: u32) -> Result<u32, Failure> {
        let count = self.names.len();
        let unknown =
            || format!("item {item} is none of the subscription, which has {count}: give its place, from 0 on");
        if (item as usize) < count { Ok(item) } else { Err(Failure::new(Code::Invalid, unknown())) }
    }

    /// Gives the value of a field of the last message to `take`, with its id; `None` if it is not there or blank.
    fn field<T>(
        &self,
        name: &str,
        take: impl FnOnce(i16, &Primitive<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let wanted = self.dictionary.field_named(name);
        let unknown = || Failure::new(Code::Field, client::fields::UnknownField(name.to_owned()).to_string());
        let fid = wanted.ok_or_else(unknown)?.fid();
        let Some(message) = self.current() else { return Ok(None) };
        if !matches!(message.class, MsgClass::REFRESH | MsgClass::UPDATE) {
            return Ok(None);
        }
        let malformed =
            |e: rwf::DecodeError| Failure::new(Code::Field, format!("{name}: the message is malformed: {e}"));
        for field in fields(rwf::peek::body(message.msg).unwrap_or_default(), &self.dictionary) {
            let field = field.map_err(malformed)?;
            if field.fid() == fid {
                let value = field.value().map_err(malformed)?;
                return if value.is_blank() { Ok(None) } else { take(fid, &value).map(Some) };
            }
        }
        Ok(None)
    }
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_pause(subscription: *const QwSubscription, item: u32, is_paused: c_int) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let subscription = unsafe { borrowed(subscription, "subscription") }?;
        let paused = subscription.items()?.pause(vec![subscription.place(item)?], is_paused != 0);
        paused.map_err(|e| Failure::new(Code::Ended, e.to_string()))?;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_set_priority(
    subscription: *const QwSubscription,
    item: u32,
    priority_class: u8,
    count: u16,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let subscription = unsafe { borrowed(subscription, "subscription") }?;
        let priority = Priority { class: priority_class, count };
        let (items, item) = (subscription.items()?, subscription.place(item)?);
        let changed = items.reissue(item, move |request| request.priority = Some(priority));
        Ok(c_int::from(changed.map_err(|e| Failure::new(Code::Ended, e.to_string()))?))
    })
}

fn wrong(name: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Field, format!("{name}: {error}"))
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open; `name` is null or a text; `value` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_field_double(
    subscription: *const QwSubscription,
    name: *const c_char,
    value: *mut c_double,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (subscription, name) = unsafe { (borrowed(subscription, "subscription")?, text(name, "name")?) };
        let found = subscription.field(name, |_, found| f64::from_value(found).map_err(|e| wrong(name, e)))?;
        let Some(found) = found else { return Ok(0) };
        // SAFETY: likewise.
        unsafe { write(value, found, "value") }?;
        Ok(1)
    })
}

/// See the header.
///
/// # Safety
/// As for `qw_field_double`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_field_integer(
    subscription: *const QwSubscription,
    name: *const c_char,
    value: *mut i64,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (subscription, name) = unsafe { (borrowed(subscription, "subscription")?, text(name, "name")?) };
        let found = subscription.field(name, |_, found| match *found {
            Primitive::Int(v) => Ok(v),
            Primitive::Enum(v) => Ok(i64::from(v)),
            Primitive::UInt(v) => {
                i64::try_from(v).map_err(|_| wrong(name, format!("{v} does not fit into 64 bits with a sign")))
            }
            ref other => Err(wrong(name, format!("{other} is no integer"))),
        })?;
        let Some(found) = found else { return Ok(0) };
        // SAFETY: likewise.
        unsafe { write(value, found, "value") }?;
        Ok(1)
    })
}

/// See the header.
///
/// # Safety
/// As for `qw_field_double`; `size` bytes can be written to `to`, and `length` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_field_text(
    subscription: *const QwSubscription,
    name: *const c_char,
    to: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let (subscription, name) = unsafe { (borrowed(subscription, "subscription")?, text(name, "name")?) };
        let dictionary = &subscription.dictionary;
        let found = subscription.field(name, |fid, found| {
            let display = match *found {
                Primitive::Enum(number) => dictionary.enum_display(fid, number).map(Primitive::Rmtes),
                _ => None,
            };
            let found = display.as_ref().unwrap_or(found);
            Ok(found.as_text().map_or_else(|| found.to_string(), std::borrow::Cow::into_owned))
        })?;
        // SAFETY: likewise.
        unsafe { write_text(found.as_deref().unwrap_or_default(), to, size, length) }?;
        Ok(c_int::from(found.is_some()))
    })
}

/// See the header.
///
/// # Safety
/// `subscription` is null or open; `size` bytes can be written to `to`, and `length` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qw_message_text(
    subscription: *const QwSubscription,
    to: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: by this function's contract.
        let subscription = unsafe { borrowed(subscription, "subscription") }?;
        let none = || Failure::new(Code::Invalid, "no message was taken: call qw_next first");
        let message = subscription.current().ok_or_else(none)?;
        let all = rwf_text::message(message.msg, Some(&subscription.dictionary)).to_string();
        // SAFETY: likewise.
        unsafe { write_text(&all, to, size, length) }?;
        Ok(1)
    })
}
