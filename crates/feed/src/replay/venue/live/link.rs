//! The TCP connection of a feed: to a server of its session, or of snapshots. Who dials does what is asked; this is when, and what is said.

use venue::nasdaq::soup::{Login, Rejection, SoupClient, State};
use venue::sequence::Receiver;

const SECOND: u64 = 1_000_000_000;
/// A server that has not answered for so long is dialled again.
const ANSWER: u64 = 10 * SECOND;
/// Between two attempts at first, and at most.
const FIRST_RETRY: u64 = SECOND;
const LONGEST_RETRY: u64 = 30 * SECOND;

/// How the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// None is wanted.
    Idle,
    /// To be dialled then.
    Due(u64),
    /// Dialled; to be given up then.
    Dialled(u64),
    /// It stands.
    Up,
}

/// What the connection's owner is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Dial,
    HangUp,
}

/// A `SoupBinTCP` client with its connections, one after the other.
#[derive(Debug)]
pub(super) struct Link {
    pub client: SoupClient,
    login: Login,
    stage: Stage,
    retry: u64,
    pub dials: u64,
    /// Why the server refuses the login.
    pub rejection: Option<Rejection>,
}

impl Link {
    pub(super) fn new(login: Login) -> Self {
        let client = SoupClient::new(login.clone());
        Self { client, login, stage: Stage::Idle, retry: FIRST_RETRY, dials: 0, rejection: None }
    }

    /// Dials as soon as may be; a new client, if what was said before is of no use.
    pub(super) fn want(&mut self, now: u64, is_new: bool) {
        if is_new {
            self.client = SoupClient::new(self.login.clone());
        }
        if self.stage == Stage::Idle {
            self.stage = Stage::Due(now);
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    pub(super) fn timer(&self) -> Option<u64> {
        match self.stage {
            Stage::Idle => None,
            Stage::Due(at) | Stage::Dialled(at) => Some(at),
            Stage::Up => self.client.timer(),
        }
    }

    pub(super) fn on_timer(&mut self, now: u64, receiver: &mut impl Receiver) -> Option<Wanted> {
        match self.stage {
            Stage::Due(at) if at <= now => {
                self.stage = Stage::Dialled(now + ANSWER);
                self.dials += 1;
                Some(Wanted::Dial)
            }
            Stage::Dialled(at) if at <= now => {
                self.again(now);
                Some(Wanted::HangUp)
            }
            Stage::Up => {
                self.client.on_timer(now, receiver);
                self.settle(now)
            }
            _ => None,
        }
    }

    pub(super) fn connected(&mut self, now: u64) {
        self.stage = Stage::Up;
        self.client.connected(now);
    }

    pub(super) fn receive(&mut self, bytes: &[u8], now: u64, receiver: &mut impl Receiver) -> Option<Wanted> {
        if self.stage != Stage::Up {
            return None;
        }
        self.client.receive(bytes, now, receiver);
        self.settle(now)
    }

    pub(super) fn disconnected(&mut self, now: u64, receiver: &mut impl Receiver) {
        if matches!(self.stage, Stage::Up | Stage::Dialled(_)) {
            self.client.disconnected(receiver);
            self.again(now);
        }
    }

    /// Nothing more is wanted.
    pub(super) fn rest(&mut self) -> Option<Wanted> {
        let was = std::mem::replace(&mut self.stage, Stage::Idle);
        self.retry = FIRST_RETRY;
        if was == Stage::Up {
            self.client.log_out();
        }
        matches!(was, Stage::Up | Stage::Dialled(_)).then_some(Wanted::HangUp)
    }

    /// What was gained is of no use: hangs up, and dials later.
    pub(super) fn give_up(&mut self, now: u64) -> Wanted {
        self.again(now);
        Wanted::HangUp
    }

    fn settle(&mut self, now: u64) -> Option<Wanted> {
        match self.client.state() {
            State::LoggingIn => return None,
            State::Open => {
                (self.retry, self.rejection) = (FIRST_RETRY, None);
                return None;
            }
            State::Rejected(why) => {
                self.rejection = Some(why);
                // The session is over, and another one runs, which is the one that blanks ask for.
                if why == Rejection::NoSession && self.client.next() != self.login.sequence {
                    self.client = SoupClient::new(self.login.clone());
                } else {
                    self.retry = LONGEST_RETRY;
                }
            }
            State::Ended => self.retry = LONGEST_RETRY,
            State::Silent | State::Broken => {}
        }
        self.again(now);
        Some(Wanted::HangUp)
    }

    fn again(&mut self, now: u64) {
        self.stage = Stage::Due(now + self.retry);
        self.retry = (self.retry * 2).min(LONGEST_RETRY);
    }
}
