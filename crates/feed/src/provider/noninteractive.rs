//! A non-interactive provider: it connects to a Source Distributor, logs in, and publishes without being asked.

use super::session::malformed;
use super::{Items, Open, Prank, Provider, SessionId};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, StatusMsg};
use rwf::rdm::{directory, login};
use rwf::wire::Writer;
use rwf::{EncodeError, Qos, State, StreamState};

/// Stream of the login.
const LOGIN: i32 = 1;
/// Stream of the directory, which nobody asked for.
const DIRECTORY: i32 = 0;

/// One connection that publishes the same items as long as it lasts.
#[derive(Debug)]
pub struct NonInteractive {
    id: SessionId,
    user: String,
    names: Vec<String>,
    published: Vec<(super::ItemId, i32)>,
    up: bool,
    buffer: Vec<u8>,
    payload: Vec<u8>,
}

/// What a message meant.
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

impl NonInteractive {
    /// A connection that will publish `names`.
    pub fn new(id: SessionId, user: &str, names: Vec<String>) -> Self {
        Self {
            id,
            user: user.to_owned(),
            names,
            published: Vec::new(),
            up: false,
            buffer: vec![0; 64 * 1024],
            payload: Vec::with_capacity(4 * 1024),
        }
    }

    /// The first message.
    pub fn begin(&mut self, reply: &mut dyn FnMut(&[u8])) {
        let request = login::Request {
            stream_id: LOGIN,
            name: self.user.clone(),
            attributes: login::Attributes {
                application_id: Some("256".to_owned()),
                application_name: Some("sink-driven-src".to_owned()),
                position: Some("127.0.0.1/net".to_owned()),
                ..login::Attributes::default()
            },
            role: Some(login::ROLE_PROVIDER),
            ..login::Request::default()
        };
        self.send(reply, |w| request.encode(w));
    }

    /// Takes a message of the Source Distributor.
    pub fn message(
        &mut self,
        provider: &Provider,
        items: &mut dyn Items,
        msg: &[u8],
        reply: &mut dyn FnMut(&[u8]),
    ) -> Answer {
        if rwf::peek::stream_id(msg) != Some(LOGIN) {
            return Answer::Nothing;
        }
        let state = match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => Some(refresh.state),
            Ok(Msg::Status(status)) => status.state,
            _ => None,
        };
        match state {
            Some(state) if state.stream != StreamState::OPEN => Answer::Refused(state.to_string()),
            Some(_) if !self.up && rwf::peek::class(msg) == Some(rwf::msg::MsgClass::REFRESH) => {
                self.up = true;
                self.publish(provider, items, reply)
            }
            _ => Answer::Nothing,
        }
    }

    /// The service, then every item's image.
    fn publish(&mut self, provider: &Provider, items: &mut dyn Items, reply: &mut dyn FnMut(&[u8])) -> Answer {
        let refresh = directory::Refresh {
            stream_id: DIRECTORY,
            solicited: false,
            complete: true,
            clear_cache: true,
            sequence: None,
            state: State::OPEN_OK.into(),
            service_id: None,
            filter: Some(directory::filter::ALL),
            services: vec![provider.service()],
        };
        self.send(reply, |w| refresh.encode(w));
        let domain = Domain::MARKET_PRICE;
        let names = std::mem::take(&mut self.names);
        let mut refused = 0;
        for (name, stream_id) in names.iter().zip((i32::MIN..=-1).rev()) {
            let open = Open { session: self.id, stream_id, domain, name, streaming: true };
            let Ok(item) = items.open(open) else {
                refused += 1;
                continue;
            };
            self.published.push((item, stream_id));
            self.publish_image(provider, items, (item, stream_id), name, reply);
        }
        let count = self.published.len();
        self.names = names;
        Answer::Published { count, refused }
    }

    fn publish_image(
        &mut self,
        provider: &Provider,
        items: &mut dyn Items,
        (item, stream_id): (super::ItemId, i32),
        name: &str,
        reply: &mut dyn FnMut(&[u8]),
    ) {
        let domain = Domain::MARKET_PRICE;
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let image = items.image(item, domain, 0, &mut payload);
        let key = MsgKey { name_type: Some(1), ..MsgKey::item(provider.config.service_id, name.as_bytes()) };
        let refresh = RefreshMsg {
            container: image.container,
            flags: RefreshFlags::REFRESH_COMPLETE.with(RefreshFlags::CLEAR_CACHE),
            seq_num: image.sequence,
            state: State::OPEN_OK,
            qos: Some(Qos::REALTIME_TICK),
            key: Some(key),
            body: &payload,
            ..RefreshMsg::new(domain, stream_id)
        };
        self.send(reply, |w| refresh.encode(w));
        self.payload = payload;
    }

    /// Tells that the service went up or down.
    pub fn service_changed(&mut self, provider: &Provider, reply: &mut dyn FnMut(&[u8])) {
        if !self.up {
            return;
        }
        let update = provider.state_update(DIRECTORY);
        self.send(reply, |w| update.encode(w));
    }

    /// Plays a prank on the published items, or on those of one name; says on how many.
    pub fn prank(
        &mut self,
        provider: &Provider,
        items: &mut dyn Items,
        name: Option<&str>,
        prank: Prank<'_>,
        reply: &mut dyn FnMut(&[u8]),
    ) -> usize {
        let mut published = self.published.clone();
        if name.is_some() {
            published.retain(|(item, _)| items.name(*item).as_deref() == name);
        }
        for &(item, stream_id) in &published {
            match prank {
                Prank::State(state) => {
                    let domain = Domain::MARKET_PRICE;
                    let status = StatusMsg { state: Some(state), ..StatusMsg::new(domain, stream_id) };
                    self.send(reply, |w| status.encode(w));
                    if state.stream != StreamState::OPEN {
                        items.close(item, self.id, stream_id);
                        self.published.retain(|(_, id)| *id != stream_id);
                    }
                }
                Prank::Image => {
                    let name = items.name(item).unwrap_or_default();
                    self.publish_image(provider, items, (item, stream_id), &name, reply);
                }
                Prank::Malformed => {
                    let update = malformed(Domain::MARKET_PRICE, stream_id);
                    self.send(reply, |w| update.encode(w));
                }
            }
        }
        published.len()
    }

    /// The connection is gone.
    pub fn ended(&mut self, items: &mut dyn Items) {
        for (item, stream_id) in self.published.drain(..) {
            items.close(item, self.id, stream_id);
        }
        self.up = false;
    }

    fn send(&mut self, reply: &mut dyn FnMut(&[u8]), encode: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) {
        let mut w = Writer::new(&mut self.buffer);
        if encode(&mut w).is_ok() {
            reply(w.written());
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
    use rwf::{DataState, StateCode};
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
        let mut nip = NonInteractive::new(SessionId(0), "nip", names);
        let mut sent = Vec::new();
        nip.begin(&mut |m| sent.push(m.to_vec()));
        let Ok(Msg::Request(request)) = Msg::decode(&sent[0]) else { panic!("no request") };
        let login = login::Request::decode(&request).unwrap();
        assert!(login.is_provider() && login.name == "nip");

        let accepted = login::Refresh::accept(&login, login::Features::default(), "");
        let accepted = encoded(|w| accepted.encode(w));
        sent.clear();
        let answer = nip.message(&provider, &mut market, &accepted, &mut |m| sent.push(m.to_vec()));
        assert_eq!(answer, Answer::Published { count: 2, refused: 1 });
        let Ok(Msg::Refresh(shown)) = Msg::decode(&sent[0]) else { panic!("no directory") };
        assert_eq!(directory::Refresh::decode(&shown).unwrap().services[0].name(), Some("DIRECT_FEED"));
        let streams: Vec<i32> = sent.iter().map(|m| rwf::peek::stream_id(m).unwrap()).collect();
        assert_eq!(streams, [0, -1, -3]);
        let Ok(Msg::Refresh(image)) = Msg::decode(&sent[2]) else { panic!("no image") };
        assert!(!image.flags.contains(RefreshFlags::SOLICITED) && image.key.unwrap().name == Some(b"TRI.N"));

        let again = nip.message(&provider, &mut market, &accepted, &mut |_| panic!("published twice"));
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
        let mut nip = NonInteractive::new(SessionId(0), "nip", vec!["IBM.N".to_owned()]);
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, "no");
        let refusal = encoded(|w| StatusMsg { state: Some(state), ..StatusMsg::new(Domain::LOGIN, LOGIN) }.encode(w));
        let answer = nip.message(&provider, &mut market, &refusal, &mut |_| panic!("something was published"));
        assert!(matches!(answer, Answer::Refused(text) if text.contains("no")));
    }
}
