//! History for the page before it goes on live: the prices of an item since somebody looked at it first.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use super::answer::Fault;
use crate::agents::history::HistoryHandle;

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
        let address = rssl.map(|at| crate::addresses::show(at).parse().unwrap_or(at));
        Self { address, agent: Mutex::default() }
    }

    /// The agent, started by the first question.
    ///
    /// # Errors
    /// This process serves no consumers, or the agent does not start.
    pub(super) fn agent(&self) -> Result<HistoryHandle, Fault> {
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
