//! A subscription to whatever a chain or a symbol list names.

use crate::session::Session;
use crate::subscription::{Ended, SubscribeError, Subscription};
use client::Interest;
use client::images::{Condition, Images};
use client::members::{Changes, Kind, Members};
use client::queue::{Counts, Message, QueueConfig};
use omm::ByStream;
use omm::consumer::{ItemRequest, OpenError};
use rwf::msg::Domain;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

/// Changes of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'b> {
    /// An item is a member from now on; its messages have this place.
    Joined {
        /// Its place.
        item: u32,
    },
    /// An item is a member no more, and is closed. Messages that were on their way are not given.
    Left {
        /// Its place.
        item: u32,
    },
    /// A message of a member.
    Message(Message<'b>),
    /// A record of the chain, or the list, is refused or has ended: its members leave, and those of the records behind it.
    Broken {
        /// The place of the record.
        record: u32,
    },
}

enum Membership {
    Joined(u32),
    Left(u32),
    Broken(u32),
}

/// A record or member.
struct Open {
    name: String,
    is_member: bool,
}

/// The members of a chain or symbol list. Dropped, all is closed.
pub struct Followed {
    subscription: Subscription,
    members: Members,
    /// Images of the records, by their order of opening; `at` has the places.
    images: Images,
    at: BTreeMap<u32, u32>,
    /// Places among the images whose records are closed.
    free: Vec<u32>,
    /// Places of the members.
    places: BTreeMap<String, u32>,
    /// Records and members that are open, by place: a chain that changes for ever has no end of names.
    open: ByStream<Open>,
    /// The member of which was told last that it has left: its name is known until the next step.
    leaving: Option<u32>,
    record_request: ItemRequest,
    request: ItemRequest,
    told: VecDeque<Membership>,
    malformed: u64,
}

impl Session {
    /// Follows a chain, or a symbol list: its members are opened as `request` says (its service is also that of the chain; its name is not looked at),
    /// and closed when they are members no more.
    ///
    /// # Errors
    /// Too many items, or the session is over.
    pub fn follow(
        &self,
        kind: Kind,
        name: &str,
        request: ItemRequest,
        queue: QueueConfig,
    ) -> Result<Followed, SubscribeError> {
        Followed::begin(self, kind, name, request, queue)
    }
}

impl Followed {
    fn begin(
        session: &Session,
        kind: Kind,
        name: &str,
        request: ItemRequest,
        queue: QueueConfig,
    ) -> Result<Self, SubscribeError> {
        let domain = match kind {
            Kind::Chain => Domain::MARKET_PRICE,
            Kind::SymbolList => Domain::SYMBOL_LIST,
        };
        // Streams that a server opens for a list are plain: with anything else in the request they would be opened for nobody.
        let is_plain = ItemRequest::new(request.service.clone(), request.name.clone()) == request;
        let data_streams = kind == Kind::SymbolList && is_plain;
        let record_request = ItemRequest { domain, data_streams, ..ItemRequest::new(request.service.clone(), "") };
        let interest = Interest { request: record_request.clone(), names: vec![name.to_owned()] };
        let mut open = ByStream::default();
        open.insert(0, Open { name: name.to_owned(), is_member: false });
        Ok(Self {
            subscription: session.subscribe_to(interest, queue)?,
            members: Members::new(kind, name, 0),
            images: Images::new(1, None),
            at: BTreeMap::from([(0, 0)]),
            free: Vec::new(),
            places: BTreeMap::new(),
            open,
            leaving: None,
            record_request,
            request,
            told: VecDeque::new(),
            malformed: 0,
        })
    }

    /// The name of an item or record, by place. Of a member that has left until the step behind [`Step::Left`] is taken; then it is empty.
    pub fn name(&self, item: u32) -> &str {
        self.open.get(item as i32).map_or("", |open| &open.name)
    }

    /// Names of the members now, in order of the records.
    pub fn members(&self) -> Vec<&str> {
        self.members.names()
    }

    /// Whether the whole chain or list is known, and its members told.
    pub fn is_complete(&self) -> bool {
        self.members.is_complete() && self.told.is_empty()
    }

    /// Images of records that could not be read; the members stayed what they were.
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Messages that were queued, merged, dropped.
    pub fn counts(&self) -> Counts {
        self.subscription.counts()
    }

    /// The message that [`Followed::next`] has given last, until the next call of it.
    pub fn current(&self) -> Option<Message<'_>> {
        self.subscription.current()
    }

    /// The next thing that happens. Waits for it: at most as long as `timeout` says, for ever without. `None`: the time is over.
    ///
    /// # Errors
    /// The session is over, the application was too slow for its queue, or there are more members than items may be open.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Step<'_>>, FollowError> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(left) = self.leaving.take() {
                self.open.remove(left as i32);
            }
            if let Some(told) = self.told.pop_front() {
                if let Membership::Left(item) = told {
                    self.leaving = Some(item);
                }
                return Ok(Some(match told {
                    Membership::Joined(item) => Step::Joined { item },
                    Membership::Left(item) => Step::Left { item },
                    Membership::Broken(record) => Step::Broken { record },
                }));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let Some(message) = self.subscription.next(left)? else { return Ok(None) };
            let item = message.item;
            if let Some(&record) = self.at.get(&item) {
                let message = Message { item: record, ..message };
                self.images.apply(&message);
                self.read(item, record)?;
            } else if self.open.get(item as i32).is_some_and(|open| open.is_member) {
                return Ok(self.subscription.current().map(Step::Message));
            }
        }
    }

    /// The image of a record has changed.
    fn read(&mut self, place: u32, record: u32) -> Result<(), FollowError> {
        let mut room = Vec::new();
        let changes = match self.images.condition(record) {
            Condition::Closed => {
                self.told.push_back(Membership::Broken(place));
                self.members.ended(place)
            }
            // An image that is Suspect says what it said.
            Condition::Waiting | Condition::Suspect => return Ok(()),
            Condition::Ok | Condition::Snapshot => {
                let body = self.images.payload(record, &mut room);
                let Some(Ok(changes)) = body.map(|body| self.members.image(place, body)) else {
                    self.malformed += 1;
                    return Ok(());
                };
                changes
            }
        };
        self.make(changes)
    }

    fn make(&mut self, changes: Changes) -> Result<(), FollowError> {
        for name in changes.left {
            let Some(place) = self.places.remove(&name) else {
                debug_assert!(false, "{name} has left and was never opened");
                continue;
            };
            if let Some(open) = self.open.get_mut(place as i32) {
                open.is_member = false;
            }
            self.subscription.close(place)?;
            self.told.push_back(Membership::Left(place));
        }
        for place in changes.close {
            self.free.extend(self.at.remove(&place));
            self.open.remove(place as i32);
            self.subscription.close(place)?;
        }
        if !changes.joined.is_empty() {
            let names = changes.joined;
            let interest = Interest { request: self.request.clone(), names: names.clone() };
            let first = self.subscription.extend_as(interest, self.record_request.data_streams)?;
            for (name, place) in names.into_iter().zip(first..) {
                self.open.insert(place as i32, Open { name: name.clone(), is_member: true });
                self.places.insert(name, place);
                self.told.push_back(Membership::Joined(place));
            }
        }
        if let Some(name) = changes.open {
            let interest = Interest { request: self.record_request.clone(), names: vec![name.clone()] };
            let place = self.subscription.extend_as(interest, false)?;
            self.open.insert(place as i32, Open { name, is_member: false });
            let at = self.free.pop().unwrap_or(self.images.len() as u32);
            if self.images.len() as u32 == at {
                self.images.grow(1);
            }
            self.images.begin_anew(at);
            self.at.insert(place, at);
            self.members.opened(place);
        }
        Ok(())
    }
}

/// Why members are followed no more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FollowError {
    /// The session is over, or the application was too slow.
    Ended(Ended),
    /// There are more members than items may be open.
    TooMany(OpenError),
}

impl From<Ended> for FollowError {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

impl From<SubscribeError> for FollowError {
    fn from(error: SubscribeError) -> Self {
        match error {
            SubscribeError::Open(error) => Self::TooMany(error),
            SubscribeError::Ended(ended) => Self::Ended(ended),
        }
    }
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(error) => error.fmt(f),
            Self::TooMany(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FollowError {}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("members", &self.places.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Publisher, SessionConfig};
    use client::publication::PublicationConfig;
    use rwf::Primitive;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn record(publisher: &Publisher, name: &str, member: &str, next: &str) {
        let fields = [("LINK_1", Primitive::Ascii(member.as_bytes())), ("NEXT_LR", Primitive::Ascii(next.as_bytes()))];
        publisher.publish(name, &fields).expect("fields");
    }

    #[test]
    fn a_chain_that_changes_for_ever_keeps_what_is_open() {
        let publisher = Publisher::listen(PublicationConfig::new("FEED"), ([127, 0, 0, 1], 0).into()).expect("a port");
        record(&publisher, "0#X", "M", "R0");
        let address = publisher.address().expect("an address").to_string();
        let session = Session::connect(SessionConfig::new(&address, "user").expect("a server")).expect("sockets");
        for round in 0..40 {
            publisher.publish(&format!("M{round}"), &[("BID", Primitive::Double(1.0))]).expect("a field");
            record(&publisher, &format!("R{round}"), &format!("M{round}"), "");
        }
        let request = ItemRequest::new("FEED", "");
        let mut followed = session.follow(Kind::Chain, "0#X", request, QueueConfig::default()).expect("room");
        let mut left = 0;
        for round in 0..40 {
            record(&publisher, "0#X", "M", &format!("R{round}"));
            let (member, end) = (format!("M{round}"), Instant::now() + PATIENCE);
            while !(followed.is_complete() && followed.members() == ["M", member.as_str()]) {
                assert!(Instant::now() < end, "{:?}", followed.members());
                if let Some(Step::Left { item }) = followed.next(Some(PATIENCE)).expect("it goes on") {
                    assert!(followed.name(item).starts_with('M'), "who has left has a name");
                    left += 1;
                }
            }
        }
        assert!(left >= 39 && followed.places.len() == 2, "{left} have left");
        // Two members, two records, and the one that has left last.
        assert!(followed.open.len() <= 5 && followed.images.len() <= 3, "{} are kept", followed.open.len());
        assert!(followed.subscription.names().len() <= 1);
    }
}
