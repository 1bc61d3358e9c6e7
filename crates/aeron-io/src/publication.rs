//! The sending end.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rusteron_client::{
    Aeron, AeronAsyncAddExclusivePublication, AeronAsyncDestination, AeronExclusivePublication, AeronOfferError,
};

use crate::client::{self, ASK_AGAIN, LOOK_AGAIN, Report, c_path, c_string};
use crate::driver::Driver;
use crate::{AeronError, Counters, Offer, Settings};

/// Between two turns, nanoseconds: while the driver is to answer, while flow control holds a message back, and otherwise.
const ASKING: u64 = 1_000_000;
const HELD: u64 = 50_000;
const QUIET: u64 = 100_000_000;
/// Times that a message is offered again at once when the term buffer is being changed.
const ROTATIONS: u32 = 16;

/// A publication, and the client that it belongs to. See the crate's description.
pub struct Publication {
    settings: Settings,
    dir: CString,
    channel: CString,
    destinations: Vec<CString>,
    report: Arc<Report>,
    state: State,
    /// When [`Publication::turn`] is to be called.
    turn_at: u64,
    /// When it was called last.
    turned_at: u64,
    counted_at: u64,
    /// Held by the process as long as it is used: after the client.
    driver: Option<Arc<Driver>>,
}

enum State {
    /// No driver, or it has refused.
    Down,
    Adding {
        aeron: Aeron,
        adding: AeronAsyncAddExclusivePublication,
    },
    Open(Open),
}

struct Open {
    aeron: Aeron,
    publication: AeronExclusivePublication,
    session: i32,
    longest: usize,
    /// Subscribers that the driver has yet to take note of.
    adding: Vec<AeronAsyncDestination>,
}

impl Publication {
    /// Publishes once there is a media driver.
    ///
    /// # Errors
    /// See [`AeronError`].
    pub fn new(settings: Settings) -> Result<Self, AeronError> {
        let report = Arc::new(Report::default());
        let (dir, driver) = Driver::of(&settings, &report)?;
        Ok(Self {
            dir: c_path(&dir)?,
            channel: c_string(&settings.publication())?,
            destinations: settings.destinations().iter().map(|to| c_string(to)).collect::<Result<_, _>>()?,
            settings,
            report,
            state: State::Down,
            turn_at: 0,
            turned_at: 0,
            counted_at: 0,
            driver,
        })
    }

    /// Does what is due. To be called when [`Publication::timeout`] is over, or before. `now`: nanoseconds of any clock.
    pub fn turn(&mut self, now: u64) {
        self.turned_at = now;
        let next = match std::mem::replace(&mut self.state, State::Down) {
            State::Down => self.connect(),
            State::Adding { aeron, adding } => self.added(aeron, adding),
            State::Open(open) => self.keep(open, now),
        };
        match next {
            Ok(state) => {
                let pause = match &state {
                    State::Down => LOOK_AGAIN.as_nanos() as u64,
                    State::Adding { .. } => ASKING,
                    State::Open(open) if !open.adding.is_empty() => ASKING,
                    State::Open(_) => QUIET,
                };
                (self.state, self.turn_at) = (state, now + pause);
            }
            Err(why) => {
                self.report.warn(format!("the publication on {}: {why}", self.channel.to_string_lossy()));
                self.turn_at = now + ASK_AGAIN.as_nanos() as u64;
            }
        }
    }

    /// When [`Publication::turn`] is to be called.
    pub fn timeout(&self) -> u64 {
        self.turn_at
    }

    fn connect(&self) -> Result<State, String> {
        let aeron = client::connect(&self.dir, self.settings.silence, &self.report).map_err(|e| client::reason(&e))?;
        let Some(aeron) = aeron else { return Ok(State::Down) };
        let adding = aeron.async_add_exclusive_publication(&self.channel, self.settings.stream);
        let adding = adding.map_err(|e| client::reason(&e))?;
        Ok(State::Adding { aeron, adding })
    }

    fn added(&self, aeron: Aeron, adding: AeronAsyncAddExclusivePublication) -> Result<State, String> {
        aeron.main_do_work().map_err(|e| client::reason(&e))?;
        let Some(publication) = adding.poll().map_err(|e| client::reason(&e))? else {
            return Ok(State::Adding { aeron, adding });
        };
        let constants = publication.get_constants().map_err(|e| client::reason(&e))?;
        let tell = |to: &CString| publication.async_add_destination(&aeron, to).map_err(|e| client::reason(&e));
        let adding = self.destinations.iter().map(tell).collect::<Result<_, _>>()?;
        let (session, longest) = (constants.session_id(), constants.max_message_length());
        Ok(State::Open(Open { aeron, publication, session, longest, adding }))
    }

    fn keep(&mut self, mut open: Open, now: u64) -> Result<State, String> {
        let worked = open.aeron.main_do_work();
        if open.aeron.is_closed() || open.publication.is_closed() || worked.is_err() {
            self.report.drivers_lost.fetch_add(1, Relaxed);
            return Err("the media driver is gone".to_owned());
        }
        let (report, channel) = (&self.report, &self.channel);
        open.adding.retain(|adding| match adding.aeron_exclusive_publication_async_destination_poll() {
            Ok(done) => done == 0,
            Err(e) => {
                report.warn(format!("a destination of {}: {}", channel.to_string_lossy(), client::reason(&e)));
                false
            }
        });
        if now >= self.counted_at {
            self.counted_at = now + ASK_AGAIN.as_nanos() as u64;
            self.report.take_counters(&open.aeron);
        }
        Ok(State::Open(open))
    }

    /// Offers a message to all that subscribe.
    #[inline]
    pub fn offer(&mut self, message: &[u8]) -> Offer {
        let State::Open(open) = &self.state else { return self.unheard() };
        if message.len() > open.longest {
            return Offer::TooLong;
        }
        for _ in 0..ROTATIONS {
            match open.publication.offer(message) {
                Ok(_) => {
                    self.wake();
                    return Offer::Taken;
                }
                Err(AeronOfferError::AdminAction) => {}
                Err(AeronOfferError::BackPressured) => break,
                Err(AeronOfferError::NotConnected) => return self.unheard(),
                Err(_) => return self.broken(),
            }
        }
        // Room for it may have come while the driver slept.
        self.wake();
        self.turn_at = self.turned_at + HELD;
        Offer::Full
    }

    #[inline]
    fn wake(&self) {
        if let Some(driver) = &self.driver {
            driver.wake();
        }
    }

    fn unheard(&self) -> Offer {
        self.report.unheard.fetch_add(1, Relaxed);
        Offer::Unheard
    }

    /// The publication takes nothing any more: closed, or at the end of its positions. It is made anew in the next turn.
    #[cold]
    fn broken(&mut self) -> Offer {
        (self.state, self.turn_at) = (State::Down, 0);
        self.report
            .warn(format!("the publication on {} takes no more: it is made anew", self.channel.to_string_lossy()));
        self.unheard()
    }

    /// Aeron's number of the session, while there is one.
    pub fn session(&self) -> Option<i32> {
        match &self.state {
            State::Open(open) => Some(open.session),
            State::Down | State::Adding { .. } => None,
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.report.counters()
    }

    /// What the operator should know, each once.
    pub fn warnings(&mut self) -> Vec<String> {
        self.report.warnings()
    }
}

impl std::fmt::Debug for Publication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publication")
            .field("channel", &self.channel)
            .field("session", &self.session())
            .finish_non_exhaustive()
    }
}
