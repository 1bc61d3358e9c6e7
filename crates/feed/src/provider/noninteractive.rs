//! A non-interactive provider: it connects to a Source Distributor, logs in, and publishes without being asked.

use super::session::malformed;
use super::{ItemId, Items, Open, Prank, Provider, SessionId};
use omm::publisher::{Event, Publisher, PublisherConfig, StreamId};
use omm::{ConnectionList, Server};
use rwf::msg::{Domain, RefreshFlags, RefreshMsg};
use rwf::rdm::login;
use rwf::{Qos, State, StreamState};
use std::sync::Arc;

/// Of all that is published.
const DOMAIN: Domain = Domain::MARKET_PRICE;
/// How long a login may go unanswered, nanoseconds; whoever has the connection ends it when it is silent.
const LOGIN_TIMEOUT: u64 = u64::MAX;

/// One connection that publishes the same items as long as it lasts. Login and directory are `omm`'s.
#[derive(Debug)]
pub struct NonInteractive {
    id: SessionId,
    service: u16,
    role: Publisher,
    names: Vec<String>,
    published: Vec<(ItemId, StreamId)>,
    payload: Vec<u8>,
    lock: Arc<[u8]>,
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
    /// A connection that will publish `names` of the provider's service. From now on it is told of each change of the service
    /// ([`NonInteractive::service_changed`]).
    pub fn new(id: SessionId, user: &str, names: Vec<String>, provider: &Provider) -> Self {
        let login = login::Request {
            name: user.to_owned(),
            attributes: login::Attributes {
                application_id: Some("256".to_owned()),
                application_name: Some("sink-driven-src".to_owned()),
                position: Some("127.0.0.1/net".to_owned()),
                ..login::Attributes::default()
            },
            ..login::Request::default()
        };
        let role = Publisher::new(PublisherConfig {
            // Where that is, the owner of the connection knows.
            connections: ConnectionList::new(vec![Server::new("", 0)]),
            login,
            services: vec![provider.service()],
            login_timeout_ns: LOGIN_TIMEOUT,
        });
        Self {
            id,
            service: provider.config.service_id,
            role,
            names,
            published: Vec::new(),
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
        let mut answer = Answer::Nothing;
        while let Some(event) = self.role.poll_event() {
            match event {
                Event::Ready(_) => answer = self.publish(items),
                Event::LoginRefused(state) => answer = Answer::Refused(state.as_state().to_string()),
                _ => {}
            }
        }
        self.send(reply);
        answer
    }

    /// Every item's image, behind the service.
    fn publish(&mut self, items: &mut dyn Items) -> Answer {
        let names = std::mem::take(&mut self.names);
        let mut refused = 0;
        for name in &names {
            let Some(stream) = self.role.open(DOMAIN, self.service, name.as_str()) else { break };
            let (session, stream_id) = (self.id, stream.get());
            let service = self.service;
            let open = Open { session, stream_id, service, domain: DOMAIN, name, streaming: true };
            if let Ok(item) = items.open(open) {
                self.published.push((item, stream));
                self.publish_image(items, (item, stream));
            } else {
                self.role.close(stream);
                refused += 1;
            }
        }
        let count = self.published.len();
        self.names = names;
        Answer::Published { count, refused }
    }

    fn publish_image(&mut self, items: &mut dyn Items, (item, stream): (ItemId, StreamId)) {
        self.payload.clear();
        let image = items.image(item, DOMAIN, 0, &mut self.payload);
        let refresh = RefreshMsg {
            container: image.container,
            flags: RefreshFlags::REFRESH_COMPLETE.with(RefreshFlags::CLEAR_CACHE),
            seq_num: image.sequence,
            state: State { data: image.data, ..State::OPEN_OK },
            qos: Some(Qos::REALTIME_TICK),
            perm_data: Some(&self.lock),
            body: &self.payload,
            ..RefreshMsg::new(DOMAIN, stream.get())
        };
        self.role.refresh(stream, &refresh);
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
            published.retain(|(item, _)| items.name(*item).as_deref() == name);
        }
        for &(item, stream) in &published {
            match prank {
                Prank::State(state) => {
                    self.role.status(stream, state);
                    if state.stream != StreamState::OPEN {
                        items.close(item, self.id, stream.get());
                        self.published.retain(|(_, other)| *other != stream);
                    }
                }
                Prank::Image => self.publish_image(items, (item, stream)),
                Prank::Malformed => drop(self.role.update(stream, &malformed(DOMAIN, stream.get()))),
            }
        }
        self.send(reply);
        published.len()
    }

    /// The connection is gone.
    pub fn ended(&mut self, items: &mut dyn Items) {
        for (item, stream) in self.published.drain(..) {
            items.close(item, self.id, stream.get());
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

    #[test]
    fn it_logs_in_as_a_provider_and_publishes_service_images_and_updates() {
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        let generator = Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(0) });
        let mut market = Market::new(generator, 1);
        let names = ["IBM.N", "!bad", "TRI.N"].map(str::to_owned).to_vec();
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
    fn a_refused_login_is_told() {
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        let generator = Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(0) });
        let mut market = Market::new(generator, 1);
        let mut nip = NonInteractive::new(SessionId(0), "nip", vec!["IBM.N".to_owned()], &provider);
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, "no");
        let refusal = encoded(|w| StatusMsg { state: Some(state), ..StatusMsg::new(Domain::LOGIN, 1) }.encode(w));
        let answer = nip.message(0, &mut market, &refusal, &mut |_| panic!("something was published"));
        assert!(matches!(answer, Answer::Refused(text) if text.contains("no")));
    }
}
