//! Actions of operators. Each is a line with who did it, to what, and why, which no level of the log holds back.

use std::future::{Ready, ready};

use base64ct::{Base64, Encoding as _};
use hub::distributor::{LockError, SessionId};
use hub::p2ps::{BlockError, ClientId};
use serde::Serialize;

use super::answer::{Answer, Done, Fault};
use super::asked::Asked;
use super::endpoint::Api;
use super::threads::Silent;
use crate::agents::consumers::Consumers;
use crate::agents::lifecycle::Reloaded;
use crate::log::operators;

/// Tells the operators' audit what was done.
pub(super) fn audit(asked: &Asked, what: &str) {
    operators::acted(&asked.caller, what);
}

/// Writes the audit's line, and the answer.
pub(super) fn done(asked: &Asked, what: String) -> Result<Answer, Fault> {
    audit(asked, &what);
    Answer::of(&Done { done: what })
}

pub(super) fn why(asked: &Asked) -> Result<String, Fault> {
    let why = asked.text("why").ok_or_else(|| Fault::new(400, "say why: {\"why\": \"...\"}"))?;
    if why.len() > 200 || why.contains(char::is_control) {
        return Err(Fault::new(400, "why is one line of at most 200 bytes"));
    }
    Ok(why.to_owned())
}

/// A reason, where one may be left out.
pub(super) fn optional_why(asked: &Asked) -> Result<Option<String>, Fault> {
    asked.text("why").map(|_| why(asked)).transpose()
}

pub(super) async fn disconnect(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((thread, number), why) = (asked.id()?, why(asked)?);
    let reason = why.clone();
    let closed = api.threads.ask(thread, move |t| {
        let consumers = t.consumers.as_mut()?;
        let address = consumers.connections().find(|c| c.id.0 == number)?.address.to_owned();
        consumers.p2ps.dismiss(t.now, ClientId(number), &reason);
        // Closed clients are done with at the flush of a turn.
        consumers.flush(t.now, &[], t.io);
        Some(address)
    });
    let address = closed.await?.ok_or_else(|| Fault::new(404, "there is no such client any more"))?;
    done(asked, format!("client {address} is disconnected: {why}"))
}

pub(super) async fn end_provider(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((thread, number), why) = (asked.id()?, why(asked)?);
    let reason = why.clone();
    let ended = api.threads.ask(thread, move |t| {
        let providers = t.providers.as_mut()?;
        let session = providers.distributor.session_overview().find(|session| session.id == SessionId(number))?;
        let address = session.address.to_owned();
        providers.end_by_operator(t.now, SessionId(number), &reason, t.io);
        Some(address)
    });
    let address = ended.await?.ok_or_else(|| Fault::new(404, "there is no such provider any more"))?;
    done(asked, format!("the session with provider {address} is ended: {why}"))
}

/// How many items a switch has go elsewhere, over all threads that have part in it; `None` if none has. A thread that cannot do it counts where no
/// other one can: the service may be another thread's.
fn items_switched(answers: Vec<Result<Option<Result<usize, String>>, Silent>>) -> Result<Option<usize>, Fault> {
    let (mut moved, mut refused) = (None, None);
    for answer in answers {
        match answer? {
            Some(Ok(items)) => moved = Some(moved.unwrap_or(0) + items),
            Some(Err(why)) => refused = refused.or(Some(why)),
            None => {}
        }
    }
    match (moved, refused) {
        (None, Some(why)) => Err(Fault::new(409, why)),
        (moved, _) => Ok(moved),
    }
}

pub(super) async fn switch(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let why = why(asked)?;
    let service = asked.text("service").ok_or_else(|| Fault::new(400, "say which: {\"service\": \"...\"}"))?.to_owned();
    let provider = asked.text("provider").map(str::to_owned);
    let (of, to) = (service.clone(), provider.clone());
    let providers_here = api.threads.ask_all(move |t| {
        let providers = t.providers.as_mut()?;
        Some(providers.switch_by_operator(t.now, &of, to.as_deref(), t.io).map_err(|e| e.to_string()))
    });
    if let Some(items) = items_switched(providers_here.await)? {
        let to = provider
            .map_or_else(|| "the first provider of its routes".to_owned(), |provider| format!("provider {provider}"));
        return done(asked, format!("service {service} is switched to {to}, {items} items go there: {why}"));
    }
    let (of, to) = (service.clone(), provider.clone());
    let distributors_there = api.threads.ask_all(move |t| {
        let p2ps = &mut t.consumers.as_mut()?.p2ps;
        Some(p2ps.switch_source(t.now, &of, to.as_deref()).map_err(|e| e.to_string()))
    });
    let Some(items) = items_switched(distributors_there.await)? else {
        return Err(Fault::new(409, "neither providers nor consumers connect to this process"));
    };
    let to = provider.map_or_else(
        || "the first source distributor of its order".to_owned(),
        |name| format!("Source Distributor {name}"),
    );
    done(asked, format!("service {service} is switched to {to}, {items} items go there: {why}"))
}

pub(super) async fn drain(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let why = why(asked)?;
    let close = match asked.text("clients") {
        None => false,
        Some("close") => true,
        Some(_) => return Err(Fault::new(400, "clients is \"close\", or nothing")),
    };
    let (life, reason) = (api.life.clone(), why.clone());
    let clients = blocking(move || life.drain(&reason, close)).await?.map_err(|silent| Fault::new(503, silent))?;
    let what = if close { "are sent elsewhere" } else { "are told and stay" };
    done(asked, format!("no new clients are taken, {clients} {what}: {why}"))
}

pub(super) async fn undrain(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let why = why(asked)?;
    let life = api.life.clone();
    blocking(move || life.undrain()).await?.map_err(|silent| Fault::new(503, silent))?;
    done(asked, format!("new clients are taken again: {why}"))
}

/// The result of a reload.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Reread {
    /// In words.
    done: String,
    /// The configuration in force.
    applied: Vec<String>,
    /// Parameters that will count when the process starts again.
    restart: Vec<String>,
    /// Changes that could not be made.
    faults: Vec<String>,
}

pub(super) async fn reload(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let (why, life) = (why(asked)?, api.life.clone());
    match blocking(move || life.reload()).await? {
        Ok(reloaded) => {
            let done = format!("the configuration is read again ({why}): {}", reloaded.summary());
            operators::acted(&asked.caller, &done);
            let Reloaded { applied, restart, faults } = reloaded;
            Answer::of(&Reread { done, applied, restart, faults })
        }
        Err(faults) => {
            operators::acted(&asked.caller, &format!("the configuration stays as it was: {faults}"));
            Err(Fault::new(422, faults))
        }
    }
}

/// A trace that is under way.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Tracing {
    /// In words.
    done: String,
    /// The trace's id: `/api/v1/traces/{id}/take` gives it.
    trace: String,
}

/// A trace that is over.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Traced {
    /// In words.
    done: String,
    /// Messages in it.
    messages: u64,
    /// Messages that found no room.
    lost: u64,
    /// Our port in it: `quoteway dump --port PORT FILE` shows it.
    port: u16,
    /// The file (pcap), in base 64.
    capture: String,
}

/// The longest trace, seconds.
const TRACE_MAX: u64 = 600;

fn seconds(asked: &Asked) -> Result<u64, Fault> {
    let seconds = asked.text("seconds").map_or(Ok(10), str::parse::<u64>).ok();
    let seconds = seconds.filter(|seconds| (1..=TRACE_MAX).contains(seconds));
    seconds.ok_or_else(|| Fault::new(400, format!("seconds is a text with a number from 1 to {TRACE_MAX}")))
}

pub(super) async fn trace_client(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((thread, number), why, seconds) = (asked.id()?, why(asked)?, seconds(asked)?);
    let started = api.threads.ask(thread, move |t| {
        let consumers = t.consumers.as_mut().ok_or("this thread has no clients")?;
        let whom = who_is(consumers, ClientId(number));
        Ok((consumers.start_trace(t.now, (ClientId(number), None), seconds)?, whom))
    });
    tracing_begun(asked, thread, started.await?, &format!("{seconds} s: {why}"))
}

/// The view that the first of an item's watchers has.
pub(super) async fn trace_item(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((thread, number), why, seconds) = (asked.id()?, why(asked)?, seconds(asked)?);
    let started = api.threads.ask(thread, move |t| {
        let consumers = t.consumers.as_mut().ok_or("this thread has no clients")?;
        let watcher = consumers.p2ps.item_watchers(number, 1).into_iter().next();
        let (client, stream) = watcher.ok_or("nobody watches it")?;
        let (found, _) = consumers.p2ps.item_overview(number, (1, 1), |_, _, _, _| true);
        let item = found.first().map_or("", |item| item.name.as_str());
        let whom = format!("item {item}, as {} gets it", who_is(consumers, client));
        Ok((consumers.start_trace(t.now, (client, Some(stream)), seconds)?, whom))
    });
    tracing_begun(asked, thread, started.await?, &format!("{seconds} s: {why}"))
}

/// A client by address and user: its number is another's tomorrow.
fn who_is(consumers: &Consumers, id: ClientId) -> String {
    let user = consumers.p2ps.mount(id).map_or_else(String::new, |mount| format!(" of user {}", mount.user));
    let address = consumers.connections().find(|c| c.id == id).map_or("", |c| c.address);
    format!("client {address}{user}")
}

fn tracing_begun(
    asked: &Asked,
    thread: usize,
    started: Result<(u32, String), &'static str>,
    what: &str,
) -> Result<Answer, Fault> {
    let (trace, whom) = started.map_err(|why| Fault::new(409, why))?;
    let done = format!("a trace is taken of {whom}, {what}");
    audit(asked, &done);
    Answer::of(&Tracing { done, trace: format!("{thread}.{trace}") })
}

pub(super) async fn take_trace(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let (thread, number) = asked.id()?;
    let taken = api.threads.ask(thread, move |t| {
        let consumers = t.consumers.as_mut()?;
        Some((consumers.take_trace(number)?, consumers.port()))
    });
    let (trace, port) = taken.await?.ok_or_else(|| Fault::new(404, "there is no such trace any more"))?;
    let done = format!("{} messages are traced, {} found no room", trace.messages, trace.lost);
    operators::acted(&asked.caller, &format!("trace {thread}.{number} is taken: {done}"));
    Answer::of(&Traced {
        done,
        messages: trace.messages,
        lost: trace.lost,
        port,
        capture: Base64::encode_string(&trace.capture),
    })
}

/// Does what waits for serving threads, or reads files, beside the requests of others.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|e| Fault::new(500, e.to_string()))
}

/// The item that an action is about.
fn item(asked: &Asked) -> Result<(String, String), Fault> {
    let said = |member: &str| asked.text(member).map(str::to_owned);
    let item = said("service").zip(said("name"));
    item.ok_or_else(|| Fault::new(400, "say which: {\"service\": \"...\", \"name\": \"...\"}"))
}

pub(super) async fn block(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((service, name), why) = (item(asked)?, why(asked)?);
    let (of, called, reason) = (service.clone(), name.clone(), why.clone());
    let answers = api.threads.ask_all(move |t| {
        let Some(consumers) = t.consumers.as_mut() else { return Ok(None) };
        let watchers = consumers.p2ps.block_item(t.now, &of, called.as_bytes(), &reason)?;
        consumers.flush(t.now, &[], t.io);
        Ok(Some(watchers))
    });
    let (mut watchers, mut sides) = (0, 0);
    for answer in answers.await {
        let told: Result<Option<usize>, BlockError> = answer?;
        let told = told.map_err(|e| Fault::new(409, e.to_string()))?;
        watchers += told.unwrap_or_default();
        sides += usize::from(told.is_some());
    }
    if sides == 0 {
        return Err(Fault::new(409, "no clients connect to this process: block the item at its P2PS"));
    }
    done(asked, format!("item {name} of service {service} is blocked, its {watchers} watchers are told: {why}"))
}

pub(super) async fn unblock(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((service, name), why) = (item(asked)?, why(asked)?);
    let (of, called) = (service.clone(), name.clone());
    let answers = api.threads.ask_all(move |t| {
        let Some(consumers) = t.consumers.as_mut() else { return (false, false) };
        let was = consumers.p2ps.unblock_item(&of, called.as_bytes());
        (was, consumers.p2ps.is_listed_as_blocked(&of, called.as_bytes()))
    });
    let (mut was, mut is_listed) = (false, false);
    for answer in answers.await {
        let answer: (bool, bool) = answer?;
        (was, is_listed) = (was | answer.0, is_listed | answer.1);
    }
    if is_listed {
        let way = "take it out of the file (blocked_items_file), and reload";
        return Err(Fault::new(
            409,
            format!("item {name} of service {service} is in the list of blocked items: {way}"),
        ));
    }
    if !was {
        return Err(Fault::new(404, format!("item {name} of service {service} is not blocked")));
    }
    done(asked, format!("item {name} of service {service} may be watched again: {why}"))
}

pub(super) async fn lock(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((service, name), why) = (item(asked)?, why(asked)?);
    let (of, called, reason) = (service.clone(), name.clone(), why.clone());
    let answers = api.threads.ask_all(move |t| {
        let distributor = &mut t.providers.as_mut()?.distributor;
        Some(distributor.lock_item(&of, called.as_bytes(), &reason))
    });
    let mut is_locked = false;
    for answer in answers.await {
        let locked: Option<Result<(), LockError>> = answer?;
        if let Some(locked) = locked {
            locked.map_err(|e| Fault::new(409, e.to_string()))?;
            is_locked = true;
        }
    }
    if !is_locked {
        return Err(Fault::new(409, "no providers connect to this process: lock the item at its Source Distributor"));
    }
    done(asked, format!("item {name} of service {service} is locked: {why}"))
}

pub(super) async fn unlock(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((service, name), why) = (item(asked)?, why(asked)?);
    let (of, called) = (service.clone(), name.clone());
    let answers = api.threads.ask_all(move |t| {
        t.providers.as_mut().is_some_and(|providers| providers.distributor.unlock_item(&of, called.as_bytes()))
    });
    let mut was = false;
    for answer in answers.await {
        was |= answer?;
    }
    if !was {
        return Err(Fault::new(404, format!("no operator has locked item {name} of service {service}")));
    }
    done(asked, format!("item {name} of service {service} is locked no more: {why}"))
}

pub(super) fn log_level(_: &Api, asked: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(set_log_level(asked))
}

fn set_log_level(asked: &Asked) -> Result<Answer, Fault> {
    let level = asked.text("level").ok_or_else(|| Fault::new(400, "say which: {\"level\": \"debug\"}"))?;
    crate::log::set_level(level).map_err(|why| Fault::new(400, why))?;
    done(asked, format!("the log has level {level} now"))
}
