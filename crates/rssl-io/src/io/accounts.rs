//! Accounts of the sessions of a thread, settled when something is queued or kept: what waits for them, and what they have not finished.

use net::tcp::{Close, ConnId};
use rssl::ws::JsonPacker;

use super::RsslIo;
use crate::account::{Bounds, Overdrawn, Pool};
use crate::handler::Handler;
use crate::reason::EndReason;

/// The pools of a thread, and who is to be looked at.
pub(super) struct Accounts {
    /// Of strangers, and of answers that are not taken.
    pub(super) shared: Pool,
    /// By listener: of those who have logged in.
    pub(super) ports: Vec<Pool>,
    /// Sessions that seem to be overdrawn by what their owner has queued: looked at in the next turn, when it can be asked whether it knows
    /// them by then.
    overdrawn: Vec<ConnId>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { shared: Pool::shared(), ports: Vec::new(), overdrawn: Vec::new() }
    }
}

impl RsslIo {
    /// Bytes that may wait for a connection that was dialled, once its server is known ([`Handler::is_known`]); nothing bounds them otherwise. For
    /// those that come in it is [`Listener::bounds`](crate::Listener::bounds).
    pub fn bound(&mut self, conn: ConnId, bytes: usize) {
        if let Some(session) = self.session(conn) {
            session.account.bound(bytes);
        }
    }

    /// Writes JSON messages that answer what a peer has said by itself, a ping or what cannot be read, and were made without the owner's
    /// doing; otherwise as [`RsslIo::queue_json`]. Little of it may wait ([`ANSWERS_MAX`](crate::account::ANSWERS_MAX)).
    pub fn answer_json(&mut self, now: u64, conn: ConnId, write: impl FnOnce(&mut JsonPacker<'_>)) -> Option<usize> {
        let before = self.backlog(conn);
        let waiting = self.queue_json(now, conn, write)?;
        self.session(conn)?.account.answer(waiting.saturating_sub(before), before);
        Some(waiting)
    }

    /// Says that so many bytes of what is about to be queued for a connection answer what its peer has said, as often as it likes, and count as
    /// such ([`ANSWERS_MAX`](crate::account::ANSWERS_MAX)) until they are taken.
    pub fn count_answers(&mut self, conn: ConnId, bytes: usize) {
        let before = self.backlog(conn);
        if let Some(session) = self.session(conn) {
            session.account.answer(bytes, before);
        }
    }

    /// Ends a connection whose owner has made more answers for it in one turn than may wait.
    pub fn end_overdrawn(&mut self, conn: ConnId, waiting: usize) {
        self.end(conn, EndReason::Overdrawn(Overdrawn::Answers { waiting }), Close::Reset);
    }

    /// The owner has queued something, so much waits: the account is settled if that is not little. What is too much is acted on in the
    /// next turn.
    #[inline]
    pub(super) fn count(&mut self, conn: ConnId, waiting: Option<usize>) -> Option<usize> {
        if let Some(waiting) = waiting
            && !self.session(conn)?.account.is_quiet(waiting)
            && self.settle(conn).is_err()
            && self.accounts.overdrawn.last() != Some(&conn)
        {
            self.accounts.overdrawn.push(conn);
        }
        waiting
    }

    /// Settles the account of a session.
    #[cold]
    pub(super) fn settle(&mut self, conn: ConnId) -> Result<usize, Overdrawn> {
        let Self { sessions, tcp, accounts, .. } = self;
        let session = sessions.get_mut(conn.slot()).and_then(Option::as_mut);
        let Some(session) = session.filter(|session| session.id == conn && session.why.is_none()) else { return Ok(0) };
        let waiting = session.pending.len() + tcp.queued(conn);
        let unfinished = if session.account.is_known { 0 } else { session.unfinished_bytes() };
        let port = session.listener.and_then(|listener| accounts.ports.get_mut(listener.index()));
        session.account.settle((waiting, unfinished), &mut accounts.shared, port).map(|()| waiting)
    }

    /// A connection was read from, and `answers` of this side are on their way to it: settles its account, and tells the owner of what waits
    /// since it was not taken.
    pub(super) fn settle_read(&mut self, now: u64, conn: ConnId, answers: usize, handler: &mut impl Handler) {
        let queued = self.tcp.queued(conn);
        let Some(session) = self.session(conn) else { return };
        if !session.account.is_known {
            session.account.is_known = session.established && handler.is_known(conn);
        } else if queued == 0 || answers == 0 {
            return;
        }
        session.account.answer(answers, queued - answers);
        match self.settle(conn) {
            Err(why) => self.end(conn, EndReason::Overdrawn(why), Close::Reset),
            Ok(waiting) if answers > 0 && queued > 0 => handler.waits(now, conn, waiting),
            Ok(_) => {}
        }
    }

    /// Ends those whose accounts are overdrawn, now that their owner can be asked whether it knows them.
    pub(super) fn end_those_overdrawn(&mut self, handler: &mut impl Handler) {
        for conn in std::mem::take(&mut self.accounts.overdrawn) {
            let Some(session) = self.session(conn) else { continue };
            session.account.is_known |= session.established && handler.is_known(conn);
            if let Err(why) = self.settle(conn) {
                self.end(conn, EndReason::Overdrawn(why), Close::Reset);
            }
        }
    }

    /// The socket of a connection has taken everything.
    pub(super) fn settle_drained(&mut self, conn: ConnId) {
        // Bytes composed since wait still; an account overdrawn by them is found when they are sent.
        let _ = self.settle(conn);
    }

    /// Bytes that a port bears of those who have logged in.
    pub(super) fn open_account(&mut self, bounds: Bounds) {
        self.accounts.ports.push(Pool::of_port(bounds));
    }
}
