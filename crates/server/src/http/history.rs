//! History for the page before it goes on live: the prices of an item since somebody looked at it first.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::api::{Answer, Api, Asked, Fault};
use crate::agents::history::HistoryHandle;
use crate::agents::monitor::PATIENCE;

/// The agent that remembers, once it was asked for something.
pub(super) struct Histories {
    /// Where it consumes; `None` in a process that serves no consumers.
    address: Option<SocketAddr>,
    agent: Mutex<Option<HistoryHandle>>,
}

impl Histories {
    /// Of a process that consumers reach at this address.
    pub(super) fn new(rssl: Option<SocketAddr>) -> Self {
        // A server that listens on all addresses is connected to by the loopback's.
        let address = rssl.map(|at| crate::roles::process::show(at).parse().unwrap_or(at));
        Self { address, agent: Mutex::default() }
    }

    fn agent(&self) -> Result<HistoryHandle, Fault> {
        let address = self.address.ok_or_else(|| Fault::new(409, "this process serves no consumers"))?;
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = &*agent {
            return Ok(agent.clone());
        }
        let started = HistoryHandle::start(address);
        let started = started.map_err(|e| Fault::new(503, format!("no history of prices can be kept: {e}")))?;
        Ok(agent.insert(started).clone())
    }

    /// Remembers items from now on, before anybody looks.
    pub(super) fn remember(&self, service: &str, names: &[String]) {
        let all = self
            .agent()
            .map_err(|fault| fault.why)
            .and_then(|agent| names.iter().try_for_each(|name| agent.remember(service, name)).map_err(str::to_owned));
        if let Err(why) = all {
            tracing::warn!("items are not remembered from the start on: {why}");
        }
    }
}

pub(super) async fn history(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let [service, name] = &asked.places[..] else { return Err(Fault::new(404, "the path is history/SERVICE/NAME")) };
    let (answer, answered) = oneshot::channel();
    // A caller that has given up does not get the answer.
    let answer = Box::new(move |told| drop(answer.send(told)));
    api.histories.agent()?.ask(service, name, answer).map_err(|why| Fault::new(503, why))?;
    let told = timeout(PATIENCE, answered).await.ok().and_then(Result::ok);
    let told = told.ok_or_else(|| Fault::new(503, "the history of prices does not answer"))?;
    let told = told.map_err(|refused| Fault::new(if refused.is_denied { 403 } else { 404 }, refused.why))?;
    Answer::of(&told)
}
