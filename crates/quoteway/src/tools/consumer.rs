//! A consumer's way to its items: login, directory, and then the service that it wants. Without I/O.

use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::{self, Action, Service};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{EncodeError, StreamState};
use std::collections::BTreeMap;

/// Stream of the login.
const LOGIN: i32 = 1;
/// Stream of the directory.
const DIRECTORY: i32 = 2;

/// Who logs in, and for which service.
#[derive(Clone, Debug)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// `ApplicationName`.
    pub application: String,
    /// Name of the service.
    pub service: String,
}

/// Login and directory of one session.
#[derive(Debug)]
pub struct Consumer {
    identity: Identity,
    services: BTreeMap<u16, Service>,
    usable: Option<u16>,
}

/// What a message of login or directory meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing for the owner.
    Nothing,
    /// The login was accepted.
    LoggedIn,
    /// The wanted service can be used, under this id.
    ServiceUp(u16),
    /// The wanted service cannot be used any more, or is gone.
    ServiceDown,
    /// The directory came, and the wanted service is not in it; these are.
    ServiceUnknown(Vec<String>),
    /// The login was refused or ended.
    LoginClosed(String),
    /// Not for login or directory: an item's message.
    Item,
}

impl Consumer {
    /// A session that has not begun.
    pub fn new(identity: Identity) -> Self {
        Self { identity, services: BTreeMap::new(), usable: None }
    }

    /// The first message to send.
    pub fn begin(&mut self, reply: &mut dyn FnMut(&[u8])) {
        self.services.clear();
        self.usable = None;
        let request = login::Request {
            stream_id: LOGIN,
            name: self.identity.user.clone(),
            attributes: login::Attributes {
                application_id: Some("256".to_owned()),
                application_name: Some(self.identity.application.clone()),
                position: Some("127.0.0.1/net".to_owned()),
                ..login::Attributes::default()
            },
            role: Some(login::ROLE_CONSUMER),
            ..login::Request::default()
        };
        send(reply, |w| request.encode(w));
    }

    /// The service's id while it can be used.
    pub fn service_id(&self) -> Option<u16> {
        self.usable
    }

    /// Takes a message; what is for items is only recognised.
    pub fn hear(&mut self, msg: &[u8], reply: &mut dyn FnMut(&[u8])) -> Heard {
        match rwf::peek::stream_id(msg) {
            Some(LOGIN) => Self::hear_login(msg, reply),
            Some(DIRECTORY) => self.hear_directory(msg),
            _ => Heard::Item,
        }
    }

    fn hear_login(msg: &[u8], reply: &mut dyn FnMut(&[u8])) -> Heard {
        let state = match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => refresh.state,
            Ok(Msg::Status(status)) => match status.state {
                Some(state) => state,
                None => return Heard::Nothing,
            },
            Ok(Msg::Generic(generic)) => {
                if let Ok(Some(round_trip)) = login::RoundTrip::decode(&generic) {
                    send(reply, |w| round_trip.answer().encode(w));
                }
                return Heard::Nothing;
            }
            _ => return Heard::Nothing,
        };
        if state.stream != StreamState::OPEN {
            return Heard::LoginClosed(state.to_string());
        }
        if rwf::peek::class(msg) != Some(rwf::msg::MsgClass::REFRESH) {
            return Heard::Nothing;
        }
        let request = directory::Request {
            stream_id: DIRECTORY,
            streaming: true,
            service_id: None,
            filter: directory::filter::INFO | directory::filter::STATE | directory::filter::GROUP,
        };
        send(reply, |w| request.encode(w));
        Heard::LoggedIn
    }

    fn hear_directory(&mut self, msg: &[u8]) -> Heard {
        let (entries, complete) = match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) => match directory::Refresh::decode(&refresh) {
                Ok(refresh) => {
                    if refresh.clear_cache {
                        self.services.clear();
                    }
                    (refresh.services, refresh.complete)
                }
                Err(_) => return Heard::Nothing,
            },
            Ok(Msg::Update(update)) => match directory::Update::decode(&update) {
                Ok(update) => (update.services, false),
                Err(_) => return Heard::Nothing,
            },
            _ => return Heard::Nothing,
        };
        for entry in &entries {
            if entry.action == Action::Delete {
                self.services.remove(&entry.id);
            } else {
                self.services.entry(entry.id).or_insert_with(|| Service::new(entry.id, Action::Add)).apply(entry);
            }
        }
        let wanted = self.services.values().find(|s| s.name() == Some(&self.identity.service));
        let usable = wanted.filter(|s| s.is_usable()).map(|s| s.id);
        let known = wanted.is_some();
        let before = std::mem::replace(&mut self.usable, usable);
        match (before, usable) {
            (before, Some(id)) if before != Some(id) => Heard::ServiceUp(id),
            (Some(_), None) => Heard::ServiceDown,
            (None, None) if complete && !known => {
                Heard::ServiceUnknown(self.services.values().filter_map(|s| s.name().map(str::to_owned)).collect())
            }
            _ => Heard::Nothing,
        }
    }

    /// The message that ends the session in order.
    pub fn end(reply: &mut dyn FnMut(&[u8])) {
        send(reply, |w| login::encode_close(LOGIN, w));
    }
}

/// Administrative messages are short.
fn send(reply: &mut dyn FnMut(&[u8]), encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) {
    let mut buffer = [0; 2_048];
    let mut w = Writer::new(&mut buffer);
    if encode(&mut w).is_ok() {
        reply(w.written());
    }
}

/// Whether a message is about a domain that consumers open items of.
pub fn is_item_domain(domain: Domain) -> bool {
    !matches!(domain, Domain::LOGIN | Domain::SOURCE | Domain::DICTIONARY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use feed::generator::{Generator, GeneratorConfig};
    use feed::provider::{Provider, ProviderConfig, Session, SessionId, market::Market};
    use feed::session::Calendar;
    use rwf::dictionary::Dictionary;
    use rwf::rdm::directory::{Part, ServiceState, Update};
    use std::sync::Arc;

    fn consumer(service: &str) -> Consumer {
        Consumer::new(Identity { user: "u".to_owned(), application: "a".to_owned(), service: service.to_owned() })
    }

    /// Lets a consumer talk to the provider until both are silent.
    fn converse(consumer: &mut Consumer) -> Vec<Heard> {
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        let generator = Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(0) });
        let mut market = Market::new(generator, 1);
        let mut session = Session::new(SessionId(0));
        let (mut to_provider, mut heard) = (Vec::new(), Vec::new());
        consumer.begin(&mut |m| to_provider.push(m.to_vec()));
        while let Some(message) = to_provider.pop() {
            let mut replies = Vec::new();
            session.message(&provider, &mut market, &message, &mut |m| replies.push(m.to_vec()));
            for reply in replies {
                heard.push(consumer.hear(&reply, &mut |m| to_provider.push(m.to_vec())));
            }
        }
        heard
    }

    #[test]
    fn it_finds_its_service() {
        let mut consumer = consumer("DIRECT_FEED");
        assert_eq!(converse(&mut consumer), [Heard::LoggedIn, Heard::ServiceUp(1)]);
        assert_eq!(consumer.service_id(), Some(1));
    }

    #[test]
    fn it_says_which_services_there_are_when_its_own_is_not() {
        let heard = converse(&mut consumer("OTHER"));
        assert_eq!(heard[1], Heard::ServiceUnknown(vec!["DIRECT_FEED".to_owned()]));
    }

    #[test]
    fn a_service_that_goes_down_and_comes_back_is_noticed() {
        let mut consumer = consumer("DIRECT_FEED");
        converse(&mut consumer);
        let mut change = |up| {
            let mut service = Service::new(1, Action::Update);
            service.state = Some(Part::Set(ServiceState::new(up)));
            let update = Update {
                stream_id: DIRECTORY,
                sequence: None,
                service_id: None,
                filter: None,
                services: vec![service],
            };
            let mut buffer = [0; 512];
            let mut w = Writer::new(&mut buffer);
            update.encode(&mut w).unwrap();
            consumer.hear(w.written(), &mut |_| {})
        };
        assert_eq!(change(false), Heard::ServiceDown);
        assert_eq!(change(true), Heard::ServiceUp(1));
        assert_eq!(change(true), Heard::Nothing);
    }
}
