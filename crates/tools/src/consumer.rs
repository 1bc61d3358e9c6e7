//! A consumer of one service that holds its items itself, as a tool that measures does: login, directory and what they mean are
//! `omm`'s, and the owner's are the streams from [`FIRST_STREAM`] on.

use omm::consumer::{ConsumerConfig, Event};
use omm::{ConnectionList, Server};
use rwf::msg::{MsgClass, RefreshFlags};
use rwf::rdm::directory::Service;

/// The first stream that may be an item's; what is below belongs to login, directory and dictionaries.
pub const FIRST_STREAM: i32 = 5;

/// The user who logs in, and the service that is wanted.
#[derive(Clone, Debug)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// `ApplicationName`.
    pub application: String,
    /// Name of the service.
    pub service: String,
}

impl Identity {
    /// A consumer that logs in as this, without a dictionary. Where it connects, the owner of its connection knows.
    pub fn config(&self, connections: ConnectionList) -> ConsumerConfig {
        let mut config = ConsumerConfig::new(connections, self.user.clone());
        config.login.attributes.application_name = Some(self.application.clone());
        config.dictionary = false;
        config
    }
}

/// Login and directory of one session after the other.
#[derive(Debug)]
pub struct Consumer {
    role: omm::consumer::Consumer,
    service: String,
    usable: Option<u16>,
}

/// The meaning of a message of login or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
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
        let config = identity.config(ConnectionList::new(vec![Server::new("", 0)]));
        Self { role: omm::consumer::Consumer::new(config), service: identity.service, usable: None }
    }

    /// There is a connection, the first or another one: gives the first message to send.
    pub fn begin(&mut self, now: u64, reply: &mut dyn FnMut(&[u8])) {
        self.usable = None;
        self.role.handle_disconnected(now);
        self.role.restart(now);
        // When to connect is the owner's decision, and was taken.
        let dialled = self.role.poll_connect(u64::MAX).is_some();
        debug_assert!(dialled, "there is one server, which is not connected");
        self.role.handle_connected(now);
        while self.role.poll_event().is_some() {}
        self.send(reply);
    }

    /// The service's id while it can be used.
    pub fn service_id(&self) -> Option<u16> {
        self.usable
    }

    /// Takes a message; what is for items is only recognised.
    pub fn receive(&mut self, now: u64, msg: &[u8], reply: &mut dyn FnMut(&[u8])) -> Received {
        if rwf::peek::stream_id(msg).is_none_or(|id| id >= FIRST_STREAM) {
            return Received::Item;
        }
        let given = self.role.handle_message(now, msg);
        debug_assert!(given.is_none(), "a message for an item that was not opened here");
        let mut heard = Received::Nothing;
        while let Some(event) = self.role.poll_event() {
            heard = match event {
                Event::LoggedIn(_) => Received::LoggedIn,
                Event::LoginRefused(state) => Received::LoginClosed(state.as_state().to_string()),
                Event::ServiceUp { id, name } if name == self.service => {
                    self.usable = Some(id);
                    Received::ServiceUp(id)
                }
                Event::ServiceDown { id, .. } if self.usable == Some(id) => {
                    self.usable = None;
                    Received::ServiceDown
                }
                _ => continue,
            };
        }
        self.send(reply);
        if heard == Received::Nothing && is_whole_refresh(msg) { self.missing() } else { heard }
    }

    /// The services that there are instead, if the directory has come without the wanted one.
    fn missing(&self) -> Received {
        let names = || self.role.services().filter_map(Service::name);
        if !self.role.has_directory() || names().any(|name| name == self.service) {
            return Received::Nothing;
        }
        Received::ServiceUnknown(names().map(str::to_owned).collect())
    }

    /// The messages that end the session in order.
    pub fn end(&mut self, reply: &mut dyn FnMut(&[u8])) {
        self.role.shut_down();
        self.usable = None;
        self.send(reply);
    }

    fn send(&mut self, reply: &mut dyn FnMut(&[u8])) {
        while let Some(msg) = self.role.poll_transmit() {
            reply(msg);
        }
    }
}

fn is_whole_refresh(msg: &[u8]) -> bool {
    let complete = rwf::peek::flags(msg).is_some_and(|flags| flags & RefreshFlags::REFRESH_COMPLETE.0 != 0);
    rwf::peek::class(msg) == Some(MsgClass::REFRESH) && complete
}

#[cfg(test)]
mod tests {
    use super::*;
    use feed::generator::{Generator, GeneratorConfig};
    use feed::provider::{Provider, ProviderConfig, Session, SessionId, market::Market};
    use feed::session::Calendar;
    use rwf::dictionary::Dictionary;
    use rwf::rdm::directory::Action;
    use rwf::rdm::directory::{Part, ServiceState, Update};
    use rwf::wire::Writer;
    use std::sync::Arc;

    fn consumer(service: &str) -> Consumer {
        Consumer::new(Identity { user: "u".to_owned(), application: "a".to_owned(), service: service.to_owned() })
    }

    /// Lets a consumer talk to the provider until both are silent.
    fn converse(consumer: &mut Consumer) -> Vec<Received> {
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        let generator = Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(0) });
        let mut market = Market::new(generator, 1);
        let mut session = Session::new(SessionId(0), &provider);
        let (mut to_provider, mut heard) = (Vec::new(), Vec::new());
        consumer.begin(0, &mut |m| to_provider.push(m.to_vec()));
        while let Some(message) = to_provider.pop() {
            let mut replies = Vec::new();
            session.message(&mut market, &message, &mut |m| replies.push(m.to_vec()));
            for reply in replies {
                heard.push(consumer.receive(0, &reply, &mut |m| to_provider.push(m.to_vec())));
            }
        }
        heard
    }

    #[test]
    fn it_finds_its_service() {
        let mut consumer = consumer("DIRECT_FEED");
        assert_eq!(converse(&mut consumer), [Received::LoggedIn, Received::ServiceUp(1)]);
        assert_eq!(consumer.service_id(), Some(1));
    }

    #[test]
    fn it_says_which_services_there_are_when_its_own_is_not() {
        let heard = converse(&mut consumer("OTHER"));
        assert_eq!(heard[1], Received::ServiceUnknown(vec!["DIRECT_FEED".to_owned()]));
    }

    #[test]
    fn a_service_that_goes_down_and_comes_back_is_noticed() {
        let mut consumer = consumer("DIRECT_FEED");
        converse(&mut consumer);
        let mut change = |up| {
            let mut service = Service::new(1, Action::Update);
            service.state = Some(Part::Set(ServiceState::new(up)));
            let update =
                Update { stream_id: 2, sequence: None, service_id: None, filter: None, services: vec![service] };
            let mut buffer = [0; 512];
            let mut w = Writer::new(&mut buffer);
            update.encode(&mut w).unwrap();
            consumer.receive(0, w.written(), &mut |_| {})
        };
        assert_eq!(change(false), Received::ServiceDown);
        assert_eq!(change(true), Received::ServiceUp(1));
        assert_eq!(change(true), Received::Nothing);
    }
}
