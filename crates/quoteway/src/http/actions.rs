//! What operators do. Each action is a line of the log with who did it, to what, and why.

use std::future::{Ready, ready};
use std::sync::atomic::Ordering;

use hub::distributor::SessionId;
use hub::p2ps::ClientId;

use super::api::{Answer, Api, Asked, Done, Fault};

/// Writes the audit's line, and the answer.
fn done(asked: &Asked, what: String) -> Result<Answer, Fault> {
    tracing::info!("audit: {}: {what}", asked.caller);
    Answer::of(&Done { done: what })
}

fn why(asked: &Asked) -> Result<String, Fault> {
    let why = asked.text("why").ok_or_else(|| Fault::new(400, "say why: {\"why\": \"...\"}"))?;
    if why.len() > 200 || why.contains(char::is_control) {
        return Err(Fault::new(400, "why is one line of at most 200 bytes"));
    }
    Ok(why.to_owned())
}

pub(super) async fn disconnect(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let ((thread, number), why) = (asked.id()?, why(asked)?);
    let reason = why.clone();
    let closed = api.threads.ask(thread, move |t| {
        let consumers = t.consumers.as_mut()?;
        let address = consumers.connections().find(|c| c.id.0 == number)?.address.to_owned();
        consumers.p2ps.close_by_operator(ClientId(number), &reason);
        // What was closed is done with the flush of a turn.
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

pub(super) async fn drain(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let why = why(asked)?;
    let close = match asked.text("clients") {
        None => false,
        Some("close") => true,
        Some(_) => return Err(Fault::new(400, "clients is \"close\", or nothing")),
    };
    let reason = why.clone();
    let answers = api.threads.ask_all(move |t| {
        let Some(consumers) = t.consumers.as_mut() else { return 0 };
        consumers.drain(Some(&reason));
        if !close {
            return 0;
        }
        let ids: Vec<ClientId> = consumers.connections().map(|connection| connection.id).collect();
        for id in &ids {
            consumers.p2ps.close_by_operator(*id, &reason);
        }
        consumers.flush(t.now, &[], t.io);
        ids.len()
    });
    let closed = answers.await.into_iter().sum::<Result<usize, _>>()?;
    api.draining.store(true, Ordering::Relaxed);
    done(asked, format!("no new clients are taken, {closed} are closed: {why}"))
}

pub(super) async fn undrain(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let why = why(asked)?;
    for answer in api.threads.ask_all(|t| t.consumers.iter_mut().for_each(|consumers| consumers.drain(None))).await {
        answer?;
    }
    api.draining.store(false, Ordering::Relaxed);
    done(asked, format!("new clients are taken again: {why}"))
}

pub(super) fn log_level(_: &Api, asked: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(set_log_level(asked))
}

fn set_log_level(asked: &Asked) -> Result<Answer, Fault> {
    let level = asked.text("level").ok_or_else(|| Fault::new(400, "say which: {\"level\": \"debug\"}"))?;
    crate::log::set_level(level).map_err(|why| Fault::new(400, why))?;
    done(asked, format!("the log has level {level} now"))
}
