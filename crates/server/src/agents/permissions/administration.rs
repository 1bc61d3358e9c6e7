//! Administration of permissions, from any thread of the process: each P2PS answers in one of its turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use permissions::Usage;
use permissions::rights::{Explanation, Rights};

use super::{Command, SharedRights};

/// How long an answer is waited for. A P2PS answers in its next turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// A user who is on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct On {
    /// Which P2PS of the process.
    pub shard: u16,
    /// The connection's number there.
    pub connection: u64,
    /// User name.
    pub user: String,
    /// Where the user sits.
    pub position: String,
    /// Application id.
    pub application: u32,
    /// Since so many seconds.
    pub seconds: u64,
    /// Open items.
    pub items: usize,
}

/// The questions and commands.
#[derive(Clone)]
pub struct Administration {
    shared: Arc<SharedRights>,
}

impl Administration {
    pub(super) fn new(shared: Arc<SharedRights>) -> Self {
        Self { shared }
    }

    /// Asks all P2PSs; those that do not answer in time are left out.
    fn ask<T>(&self, question: impl Fn(Sender<T>) -> Command) -> Vec<T> {
        let (sender, answers) = channel();
        let queues = self.shared.queues();
        for queue in &queues {
            queue.push(question(sender.clone()));
        }
        drop(sender);
        let until = Instant::now() + PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        let answer = |_| answers.recv_timeout(left()).ok();
        queues.iter().map_while(answer).collect()
    }

    /// The users who are on, by user and position.
    pub fn who_is_on(&self) -> Vec<On> {
        let mut on: Vec<On> = self.ask(Command::WhoIsOn).into_iter().flatten().collect();
        on.sort_by(|a, b| {
            (&a.user, &a.position, a.shard, a.connection).cmp(&(&b.user, &b.position, b.shard, b.connection))
        });
        on
    }

    /// Ends all logins of a user; gives how many there were.
    pub fn force_logout(&self, user: &str) -> usize {
        self.ask(|answer| Command::ForceLogout(user.to_owned(), answer)).into_iter().sum()
    }

    /// Has everything checked again that a user (`None`: everybody) has open.
    pub fn repermission(&self, user: Option<&str>) {
        self.shared.send_to_all(|| Command::Repermission(user.map(str::to_owned)));
    }

    /// Why a user at a position, with an application, may or may not see an item: by the lock that the item has at a P2PS where
    /// someone has it open, else without a lock.
    pub fn explain(
        &self,
        user: &str,
        position: &str,
        application: u32,
        service: &str,
        item: &str,
    ) -> Option<Explanation> {
        let who = (user.to_owned(), position.to_owned(), application);
        let answers = self.ask(|answer| Command::Explain(who.clone(), service.to_owned(), item.to_owned(), answer));
        // The one with most to say knows the lock.
        answers.into_iter().flatten().max_by_key(|explanation| explanation.findings.len())
    }

    /// The users who have a PE of a service; `None` while there are no rights.
    pub fn who_has_pe(&self, service: &str, pe: u32) -> Option<Vec<String>> {
        let rights = self.shared.rights()?;
        Some(rights.who_has_pe(service, pe).into_iter().map(str::to_owned).collect())
    }

    /// The users who have a subservice of a service; `None` where there is none of that name.
    pub fn who_has_subservice(&self, service: &str, subservice: &str) -> Option<Vec<String>> {
        let rights = self.shared.rights()?;
        Some(rights.who_has_subservice(service, subservice)?.into_iter().map(str::to_owned).collect())
    }

    /// The rights of now.
    pub fn rights(&self) -> Option<Arc<Rights>> {
        self.shared.rights()
    }

    /// Usage of today so far: how often items were opened, by user, service and subservice.
    pub fn usage(&self) -> BTreeMap<(String, String, String), u64> {
        let mut all = BTreeMap::new();
        for Usage { opens, .. } in self.ask(Command::Usage) {
            for (row, count) in opens {
                let key = (row.user.to_string(), row.service.to_string(), row.subservice.to_string());
                *all.entry(key).or_default() += count;
            }
        }
        all
    }
}
