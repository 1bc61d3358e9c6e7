//! A non-interactive provider: it connects to a Source Distributor, logs in, and publishes without being asked.

use super::session::malformed;
use super::{ItemId, Items, Open, Prank, Provider, SessionId};
use omm::publisher::{Event, Publisher, PublisherConfig, StreamId};
use omm::{ConnectionList, Server};
use rwf::msg::{Domain, MsgClass, RefreshFlags, RefreshMsg};
use rwf::rdm::login;
use rwf::{Qos, State, StreamState};
use std::collections::HashMap;
use std::sync::Arc;

/// An item to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Id of its service.
    pub service: u16,
    /// Domain of the item.
    pub domain: Domain,
    /// Name of the item.
    pub name: String,
}

/// How long a login may go unanswered, nanoseconds; whoever has the connection ends it when it is silent.
const LOGIN_TIMEOUT: u64 = u64::MAX;

/// One connection that publishes the same items as long as it lasts. Login and directory are `omm`'s.
#[derive(Debug)]
pub struct NonInteractive {
    id: SessionId,
    role: Publisher,
    offered: Vec<Offered>,
    published: Vec<Published>,
    /// Their places, by what the items know of the streams.
    places: HashMap<i32, usize>,
    payload: Vec<u8>,
    lock: Arc<[u8]>,
}

/// An item that is published.
#[derive(Debug, Clone, Copy)]
struct Published {
    item: ItemId,
    stream: StreamId,
    domain: Domain,
}

/// The meaning of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing for the owner.
    Nothing,
    /// Everything was published.
    Published {
        /// Items.
        count: usize,
        /// Names that the source does not have.
        refused: usize,
    },
    /// The login was refused or ended.
    Refused(String),
}

/// Takes what is to be sent.
type Reply<'r> = &'r mut dyn FnMut(&[u8]);

impl NonInteractive {
    /// A connection that will publish these items of the provider's services. From now on it is told of each change of the service
    /// ([`NonInteractive::service_changed`]).
    pub fn new(id: SessionId, user: &str, offered: Vec<Offered>, provider: &Provider) -> Self {
        let login = login::Request {
            name: user.to_owned(),
            attributes: login::Attributes {
                application_id: Some("256".to_owned()),
                application_name: Some(user.to_owned()),
                position: Some("127.0.0.1/net".to_owned()),
                ..login::Attributes::default()
            },
            ..login::Request::default()
        };
        let role = Publisher::new(PublisherConfig {
            // Where that is, the owner of the connection knows.
            connections: ConnectionList::new(vec![Server::new("", 0)]),
            login,
            services: std::iter::once(provider.service()).chain(provider.also()).collect(),
            login_timeout_ns: LOGIN_TIMEOUT,
        });
        Self {
            id,
            role,
            offered,
            published: Vec::new(),
            places: HashMap::new(),
            payload: Vec::with_capacity(4 * 1024),
            lock: Arc::clone(&provider.config.lock),
        }
    }

    /// The connection is there: gives the first message.
    pub fn begin(&mut self, now: u64, reply: Reply<'_>) {
        let server = self.role.poll_connect(now);
        debug_assert!(server.is_some(), "a connection that has begun already");
        self.role.handle_connected(now);
        self.send(reply);
    }

    /// Takes a message of the Source Distributor.
    pub fn message(&mut self, now: u64, items: &mut dyn Items, msg: &[u8], reply: Reply<'_>) -> Answer {
        // Posts of consumers are not taken.
        let _ = self.role.handle_message(now, msg);
        if rwf::peek::class(msg) == Some(MsgClass::CLOSE)
            && let Some(of) = rwf::peek::stream_id(msg).and_then(|stream| self.places.get(&stream))
        {
            let of = self.published[*of];
            items.close(of.item, self.id, of.stream.get());
            self.remove(of.stream.get());
        }
        let mut answer = Answer::Nothing;
        while let Some(event) = self.role.poll_event() {
            match event {
                Event::Ready(_) => answer = self.publish(items),
                Event::LoginRefused(state) => {
                    // A closed login takes its items with it: nothing more is published for them.
                    self.ended(items);
                    answer = Answer::Refused(state.as_state().to_string());
                }
                _ => {}
            }
        }
        self.send(reply);
        answer
    }

    /// Every item's image, behind the services.
    fn publish(&mut self, items: &mut dyn Items) -> Answer {
        let offered = std::mem::take(&mut self.offered);
        let mut refused = 0;
        for Offered { service, domain, name } in &offered {
            let (service, domain) = (*service, *domain);
            let Some(stream) = self.role.open(domain, service, name.as_str()) else { break };
            let (session, stream_id) = (self.id, stream.get());
            let open = Open { session, stream_id, service, domain, name, streaming: true };
            if let Ok(item) = items.open(open) {
                let published = Published { item, stream, domain };
                self.places.insert(stream_id, self.published.len());
                self.published.push(published);
                self.publish_image(items, published);
            } else {
                self.role.close(stream);
                refused += 1;
            }
        }
        let count = self.published.len();
        self.offered = offered;
        Answer::Published { count, refused }
    }

    /// An item without an image is published with its first one.
    fn publish_image(&mut self, items: &mut dyn Items, Published { item, stream, domain }: Published) {
        if items.without_image(item).is_some() {
            return;
        }
        let mut part = 0;
        loop {
            self.payload.clear();
            let image = items.image(item, domain, part, &mut self.payload);
            let mut flags = RefreshFlags::NONE;
            flags.set(RefreshFlags::CLEAR_CACHE, part == 0);
            flags.set(RefreshFlags::REFRESH_COMPLETE, !image.more);
            let refresh = RefreshMsg {
                container: image.container,
                flags,
                seq_num: image.sequence,
                state: State { data: image.data, ..State::OPEN_OK },
                qos: Some(Qos::REALTIME_TICK),
                part_num: (domain != Domain::MARKET_PRICE).then_some(part as u16),
                perm_data: Some(&self.lock),
                body: &self.payload,
                ..RefreshMsg::new(domain, stream.get())
            };
            self.role.refresh(stream, &items.dress(item, refresh));
            part += 1;
            if !image.more {
                return;
            }
        }
    }

    /// Publishes a part of the image of an item, by its stream.
    pub fn refresh(&mut self, refresh: &RefreshMsg<'_>, reply: Reply<'_>) {
        if let Some(published) = self.places.get(&refresh.stream_id).and_then(|place| self.published.get(*place)) {
            self.role.refresh(published.stream, refresh);
        }
        self.send(reply);
    }

    /// Publishes the state of an item, by its stream; a final one ends it, of which the items are not told.
    pub fn status(&mut self, stream_id: i32, state: State<'_>, reply: Reply<'_>) {
        if let Some(published) = self.places.get(&stream_id).and_then(|place| self.published.get(*place)) {
            self.role.status(published.stream, state);
            if state.stream.is_final() {
                self.remove(stream_id);
            }
        }
        self.send(reply);
    }

    fn remove(&mut self, stream_id: i32) {
        self.published.retain(|published| published.stream.get() != stream_id);
        self.places = self.published.iter().enumerate().map(|(place, of)| (of.stream.get(), place)).collect();
    }

    /// Tells that a service went up or down.
    pub fn service_changed(&mut self, provider: &Provider, service_id: u16, reply: Reply<'_>) {
        self.role.change_service(&provider.state_change(service_id));
        self.send(reply);
    }

    /// Plays a prank on the published items, or on those of one name; says on how many.
    pub fn prank(&mut self, items: &mut dyn Items, name: Option<&str>, prank: Prank<'_>, reply: Reply<'_>) -> usize {
        let mut published = self.published.clone();
        if name.is_some() {
            published.retain(|of| items.name(of.item).as_deref() == name);
        }
        for &of in &published {
            let (stream, stream_id) = (of.stream, of.stream.get());
            match prank {
                Prank::State(state) => {
                    self.role.status(stream, state);
                    if state.stream != StreamState::OPEN {
                        items.close(of.item, self.id, stream_id);
                        self.remove(stream_id);
                    }
                }
                Prank::Image => self.publish_image(items, of),
                Prank::Malformed => drop(self.role.update(stream, &malformed(of.domain, stream_id))),
            }
        }
        self.send(reply);
        published.len()
    }

    /// The connection is gone.
    pub fn ended(&mut self, items: &mut dyn Items) {
        self.places.clear();
        for of in self.published.drain(..) {
            items.close(of.item, self.id, of.stream.get());
        }
    }

    fn send(&mut self, reply: Reply<'_>) {
        while let Some(msg) = self.role.poll_transmit() {
            reply(msg);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::market::Market;
    use super::super::{Provider, ProviderConfig};
    use super::*;
    use crate::generator::{Generator, GeneratorConfig};
    use crate::session::{Calendar, SECOND};
    use rwf::dictionary::Dictionary;
    use rwf::msg::{Msg, StatusMsg};
    use rwf::rdm::directory;
    use rwf::wire::Writer;
    use rwf::{DataState, EncodeError, StateCode};
    use std::sync::Arc;

    fn encoded(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
        let mut buffer = vec![0; 4_096];
        let mut w = Writer::new(&mut buffer);
        encode(&mut w).unwrap();
        w.written().to_vec()
    }

    fn offered(name: &str) -> Offered {
        Offered { service: 1, domain: Domain::MARKET_PRICE, name: name.to_owned() }
    }

    #[test]
    fn it_logs_in_as_a_provider_and_publishes_service_images_and_updates() {
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        let generator = Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(0) });
        let mut market = Market::new(generator, 1);
        let names = ["IBM.N", "!bad", "TRI.N"].map(offered).to_vec();
        let mut nip = NonInteractive::new(SessionId(0), "nip", names, &provider);
        let mut sent = Vec::new();
        nip.begin(0, &mut |m| sent.push(m.to_vec()));
        let Ok(Msg::Request(request)) = Msg::decode(&sent[0]) else { panic!("no request") };
        let login = login::Request::decode(&request).unwrap();
        assert!(login.is_provider() && login.name == "nip");

        let accepted = login::Refresh::accept(&login, login::Features::default(), "");
        let accepted = encoded(|w| accepted.encode(w));
        sent.clear();
        let answer = nip.message(0, &mut market, &accepted, &mut |m| sent.push(m.to_vec()));
        assert_eq!(answer, Answer::Published { count: 2, refused: 1 });
        let Ok(Msg::Refresh(shown)) = Msg::decode(&sent[0]) else { panic!("no directory") };
        assert_eq!(directory::Refresh::decode(&shown).unwrap().services[0].name(), Some("DIRECT_FEED"));
        let streams: Vec<i32> = sent.iter().map(|m| rwf::peek::stream_id(m).unwrap()).collect();
        assert_eq!(streams, [0, -1, -3]);
        let Ok(Msg::Refresh(image)) = Msg::decode(&sent[2]) else { panic!("no image") };
        assert!(!image.flags.contains(RefreshFlags::SOLICITED) && image.key.unwrap().name == Some(b"TRI.N"));

        let again = nip.message(0, &mut market, &accepted, &mut |_| panic!("published twice"));
        assert_eq!(again, Answer::Nothing);
        let mut updated = std::collections::BTreeSet::new();
        market.advance(30 * SECOND, 1_000, None, &mut |_, m| {
            updated.insert(rwf::peek::stream_id(m).unwrap());
        });
        assert_eq!(updated.into_iter().collect::<Vec<_>>(), [-3, -1]);
        nip.ended(&mut market);
        market.advance(60 * SECOND, 1_000, None, &mut |_, _| panic!("nobody is connected"));
    }

    #[test]
    fn what_the_server_closes_is_not_published_any_more() {
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        let generator = Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(0) });
        let mut market = Market::new(generator, 1);
        let mut nip = NonInteractive::new(SessionId(0), "nip", ["IBM.N", "TRI.N"].map(offered).to_vec(), &provider);
        nip.begin(0, &mut |_| {});
        let accepted = login::Refresh::accept(&login::Request::default(), login::Features::default(), "");
        nip.message(0, &mut market, &encoded(|w| accepted.encode(w)), &mut |_| {});
        let close = encoded(|w| rwf::msg::CloseMsg::new(Domain::MARKET_PRICE, -1).encode(w));
        nip.message(0, &mut market, &close, &mut |_| {});
        let mut updated = std::collections::BTreeSet::new();
        market.advance(30 * SECOND, 1_000, None, &mut |_, m| {
            updated.insert(rwf::peek::stream_id(m).unwrap());
        });
        assert_eq!(updated.into_iter().collect::<Vec<_>>(), [-2]);
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, "out");
        let ended = encoded(|w| StatusMsg { state: Some(state), ..StatusMsg::new(Domain::LOGIN, 1) }.encode(w));
        nip.message(0, &mut market, &ended, &mut |_| {});
        market.advance(60 * SECOND, 1_000, None, &mut |_, _| panic!("the login is closed"));
    }

    #[test]
    fn a_refused_login_is_told() {
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        let generator = Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(0) });
        let mut market = Market::new(generator, 1);
        let mut nip = NonInteractive::new(SessionId(0), "nip", vec![offered("IBM.N")], &provider);
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, "no");
        let refusal = encoded(|w| StatusMsg { state: Some(state), ..StatusMsg::new(Domain::LOGIN, 1) }.encode(w));
        let answer = nip.message(0, &mut market, &refusal, &mut |_| panic!("something was published"));
        assert!(matches!(answer, Answer::Refused(text) if text.contains("no")));
    }
}
