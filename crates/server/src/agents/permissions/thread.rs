//! Rights and audit between the state machine of one P2PS and the rest of the process.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use hub::p2ps::P2ps;
use permissions::{AuditEvent, EventKind, Verdict};

use super::audit::Line;
use super::{Command, CommandQueue, On, SharedRights};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// How often lines are offered again that found no room on their way to the audit's thread, nanoseconds.
const RETRY: u64 = 10_000_000;
/// How long the end of a process waits for the audit to take the last lines.
const PATIENCE: u64 = 2 * SECOND;

/// The permissions of one P2PS thread: commands to its P2PS, audit lines from it. Asked in each turn of the thread.
pub struct ThreadPermissions {
    shard: u16,
    queue: Arc<CommandQueue>,
    shared: Arc<SharedRights>,
    /// Where audit lines go; `None` where no audit is written.
    lines: Option<SyncSender<Line>>,
    /// Lines that found no room there.
    waiting: VecDeque<Line>,
    /// Positions of the users that are on, by connection, as the other P2PSs of the process are told.
    on: HashMap<u64, (Arc<str>, Arc<str>)>,
    /// When the next day begins, by the monotonic clock.
    midnight: u64,
    retry_at: Option<u64>,
    /// When refused logins are told together.
    sum_up_at: Option<u64>,
}

/// Days since 1970-01-01, and when the next one begins by the monotonic clock.
fn day(now: u64) -> (u32, u64) {
    let wall = net::clock::wall();
    ((wall / DAY) as u32, now + (DAY - wall % DAY))
}

impl ThreadPermissions {
    pub(super) fn new(
        shard: u16,
        queue: Arc<CommandQueue>,
        shared: Arc<SharedRights>,
        lines: Option<SyncSender<Line>>,
    ) -> Self {
        let midnight = day(net::clock::now()).1;
        Self {
            shard,
            queue,
            shared,
            lines,
            waiting: VecDeque::new(),
            on: HashMap::new(),
            midnight,
            retry_at: None,
            sum_up_at: None,
        }
    }

    /// When [`ThreadPermissions::work`] is to be called at the latest.
    pub fn timeout(&self) -> Option<u64> {
        [self.retry_at, self.sum_up_at].into_iter().flatten().chain([self.midnight]).min()
    }

    /// Hands the P2PS its commands, and takes its audit lines.
    pub fn work(&mut self, now: u64, p2ps: &mut P2ps) {
        for command in self.queue.take() {
            Self::deliver(now, command, p2ps, self.shard);
        }
        if now >= self.midnight {
            let (today, midnight) = day(now);
            self.midnight = midnight;
            for usage in p2ps.new_day(now, today) {
                self.waiting.push_back(Line::Usage { shard: self.shard, usage: Box::new(usage) });
            }
        }
        self.sum_up_at = p2ps.sum_up_refusals(now);
        self.take_lines(now, p2ps);
    }

    fn deliver(now: u64, command: Command, p2ps: &mut P2ps, shard: u16) {
        match command {
            Command::Rights(rights) => p2ps.set_rights(now, rights),
            Command::Lost => p2ps.rights_lost(now),
            Command::Back => p2ps.rights_back(),
            Command::Elsewhere { user, position, is_on } => p2ps.on_elsewhere(&user, &position, is_on),
            // The caller may have stopped waiting: then the answer goes nowhere.
            Command::ForceLogout(user, answer) => _ = answer.send(p2ps.force_logout(now, &user)),
            Command::Repermission(user) => p2ps.repermission(now, user.as_deref()),
            Command::WhoIsOn(answer) => {
                let all = p2ps.permissions().into_iter().flat_map(permissions::Permissions::on_line);
                let on = all.map(|on| On {
                    shard,
                    connection: on.actor.connection,
                    user: on.actor.user.to_string(),
                    position: on.actor.position.to_string(),
                    application: on.actor.application,
                    seconds: now.saturating_sub(on.since) / SECOND,
                    items: on.opens,
                });
                let _ = answer.send(on.collect());
            }
            Command::Explain((user, position, application), service, item, answer) => {
                let _ = answer.send(p2ps.explain((&user, &position, application), &service, &item));
            }
            Command::Usage(answer) => {
                let usage = p2ps.permissions().map(|permissions| permissions.usage().clone()).unwrap_or_default();
                let _ = answer.send(usage);
            }
        }
    }

    /// Sends the audit's lines on, as many as there is room for.
    fn take_lines(&mut self, now: u64, p2ps: &mut P2ps) {
        self.retry_at = None;
        loop {
            let line = match self.waiting.pop_front() {
                Some(line) => line,
                None => match p2ps.next_audit() {
                    Some(event) => self.line(event),
                    None => return,
                },
            };
            let Some(lines) = &self.lines else { continue };
            match lines.try_send(line) {
                Ok(()) => {}
                Err(TrySendError::Full(line)) => {
                    self.waiting.push_front(line);
                    self.retry_at = Some(now + RETRY);
                    return;
                }
                Err(TrySendError::Disconnected(_)) => {
                    tracing::error!("the audit's thread has ended: a line is lost");
                    self.lines = None;
                }
            }
        }
    }

    /// The line of an event; logins are told to the other P2PSs of the process.
    fn line(&mut self, event: AuditEvent) -> Line {
        let connection = event.actor.connection;
        match (event.kind, &event.verdict) {
            (EventKind::Login, _) => {
                let who = (event.actor.user.clone(), event.actor.position.clone());
                self.tell_others(&who, true);
                self.on.insert(connection, who);
            }
            (EventKind::Logout, _) | (EventKind::LoginDenied, Verdict::Denied(_)) if event.count == 1 => {
                if let Some(who) = self.on.remove(&connection) {
                    self.tell_others(&who, false);
                }
            }
            _ => {}
        }
        let at = net::clock::wall().saturating_sub(net::clock::now().saturating_sub(event.at));
        Line::Event { shard: self.shard, at, event: Box::new(event) }
    }

    fn tell_others(&self, (user, position): &(Arc<str>, Arc<str>), is_on: bool) {
        for queue in self.shared.queues() {
            if !Arc::ptr_eq(&queue, &self.queue) {
                queue.push(Command::Elsewhere { user: user.clone(), position: position.clone(), is_on });
            }
        }
    }

    /// The P2PS has ended: its last lines go to the audit.
    pub fn finish(&mut self, p2ps: &mut P2ps) {
        let until = net::clock::now() + PATIENCE;
        p2ps.sum_up_refusals(u64::MAX);
        self.take_lines(net::clock::now(), p2ps);
        while self.retry_at.is_some() && net::clock::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            self.take_lines(net::clock::now(), p2ps);
        }
        if self.retry_at.is_some() {
            tracing::error!("the audit file takes nothing: its last lines are lost with this process");
        }
    }
}
