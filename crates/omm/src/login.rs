//! The stream of a login as its two ends see it, without I/O, servers to choose from, or time.
//!
//! [`LoginStream`] is the end that logs in: a consumer or publisher, and a Source Distributor at an interactive provider.
//!
//! | phase | left by |
//! |---|---|
//! | out: nothing was sent on this connection | [`LoginStream::begin`]: asked |
//! | asked: the answer is awaited | an answer that accepts, by the rule ([`Acceptance`]): up; a final state: over |
//! | up | a final state, or the owner gives up: over |
//! | over | [`LoginStream::reset`]: out |
//!
//! [`LoginPort`] is the end that is logged in at: an interactive provider, and a Source Distributor for publishers.

use rwf::msg::{Msg, MsgClass, RequestMsg};
use rwf::rdm::login::{self, ConnectionConfig, Features, Refresh, Request, RoundTrip, Status};
use rwf::rdm::state::StateBuf;
use rwf::{DataState, DecodeError, StateCode, StreamState};

/// Which answer accepts a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// A refresh that leaves the stream open. A consumer goes on while the server's data is suspect: each item has a state of its own.
    OpenStream,
    /// A refresh or status that is Open/Ok. A Source Distributor takes nothing from a provider that is not ready.
    OpenAndOk,
}

/// What a message on the stream meant to the end that logs in.
#[derive(Debug, Clone, PartialEq)]
pub enum LoginEvent {
    /// Nothing has changed.
    Nothing,
    /// The login is accepted, for the first time on this connection; the refresh, unless a status has said so.
    Accepted(Option<Box<Refresh>>),
    /// The state of the login, which stays open: also the answer to a reissue.
    State(StateBuf),
    /// The login was refused, or has ended.
    Over(StateBuf),
    /// The other end measures the round trip and wants [`RoundTrip::answer`].
    RoundTrip(RoundTrip),
    /// An acknowledgement of a post on this stream.
    Ack,
    /// A class of message that only the end that logs in may send.
    WrongDirection(MsgClass),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Out,
    Asked,
    Up,
    Over,
}

/// The end that logs in. See the [module](self) for its phases.
#[derive(Debug)]
pub struct LoginStream {
    request: Request,
    acceptance: Acceptance,
    phase: Phase,
    features: Features,
    /// What an accepted login was told of other servers since, until that is taken.
    told: Option<ConnectionConfig>,
}

impl LoginStream {
    /// A login that was not sent yet.
    pub fn new(request: Request, acceptance: Acceptance) -> Self {
        Self { request, acceptance, phase: Phase::Out, features: Features::default(), told: None }
    }

    /// What the login says.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Id of the stream.
    pub const fn stream_id(&self) -> i32 {
        self.request.stream_id
    }

    /// Whether the request asks which servers there are (`DownloadConnectionConfig`).
    pub(crate) fn asks_for_servers(&self) -> bool {
        self.request.download_connection_config == Some(true)
    }

    /// What the other end has said that it can do; nothing before it has accepted.
    pub const fn features(&self) -> &Features {
        &self.features
    }

    /// Whether the login is accepted and has not ended.
    pub const fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    /// There is a connection: gives the request, which is to be sent.
    pub fn begin(&mut self) -> &Request {
        debug_assert_ne!(self.phase, Phase::Up, "a connection has one login");
        self.phase = Phase::Asked;
        &self.request
    }

    /// The owner has given the login up, or has closed it: nothing that comes accepts it any more.
    pub fn give_up(&mut self) {
        self.phase = Phase::Over;
    }

    /// The connection is gone.
    pub fn reset(&mut self) {
        self.phase = Phase::Out;
        self.features = Features::default();
        self.told = None;
    }

    /// Servers that an accepted login was told of since, once.
    pub(crate) fn take_told(&mut self) -> Option<ConnectionConfig> {
        self.told.take().filter(|_| self.asks_for_servers())
    }

    /// Changes what the login says, such as its token; the stream stays. Gives the request, which is to be sent if the login is up.
    pub fn reissue(&mut self, change: impl FnOnce(&mut Request)) -> &Request {
        let stream_id = self.request.stream_id;
        change(&mut self.request);
        self.request.stream_id = stream_id;
        &self.request
    }

    /// Takes a message of the stream.
    ///
    /// # Errors
    /// The message cannot be read.
    pub fn message(&mut self, msg: &[u8]) -> Result<LoginEvent, DecodeError> {
        Ok(match Msg::decode(msg)? {
            Msg::Refresh(refresh) => {
                let mut refresh = Refresh::decode(&refresh)?;
                if !refresh.state.stream.is_final() {
                    self.features = refresh.features;
                }
                if self.phase == Phase::Up {
                    self.told = refresh.connection_config.take();
                }
                self.state(refresh.state.clone(), Some(refresh))
            }
            Msg::Status(status) => match status.state {
                Some(state) => self.state(state.into(), None),
                None => LoginEvent::Nothing,
            },
            Msg::Generic(generic) => match RoundTrip::decode(&generic) {
                Ok(Some(round_trip)) => LoginEvent::RoundTrip(round_trip),
                Ok(None) | Err(_) => LoginEvent::Nothing,
            },
            Msg::Update(_) => LoginEvent::Nothing,
            Msg::Ack(_) => LoginEvent::Ack,
            other @ (Msg::Request(_) | Msg::Close(_) | Msg::Post(_)) => LoginEvent::WrongDirection(other.class()),
        })
    }

    fn state(&mut self, state: StateBuf, refresh: Option<Refresh>) -> LoginEvent {
        if state.stream.is_final() {
            self.phase = Phase::Over;
            return LoginEvent::Over(state);
        }
        if self.phase != Phase::Asked {
            return LoginEvent::State(state);
        }
        match self.acceptance {
            Acceptance::OpenStream if refresh.is_none() => return LoginEvent::State(state),
            Acceptance::OpenStream if state.stream != StreamState::OPEN && state.data == DataState::SUSPECT => {
                self.phase = Phase::Over;
                return LoginEvent::Over(state);
            }
            Acceptance::OpenAndOk if state.stream != StreamState::OPEN || state.data != DataState::OK => {
                return LoginEvent::State(state);
            }
            Acceptance::OpenStream | Acceptance::OpenAndOk => {}
        }
        self.phase = Phase::Up;
        LoginEvent::Accepted(refresh.map(Box::new))
    }
}

/// What a request on the login domain is to the end that is logged in at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A login: there is none on this connection.
    Login,
    /// The login again, with something changed.
    Reissue,
    /// A login on another stream than that of the one there is.
    SecondLogin {
        /// The stream of the one there is.
        stream_id: i32,
    },
}

/// The end that is logged in at, for one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoginPort {
    /// Nobody is logged in.
    #[default]
    Out,
    /// A login is accepted.
    Up {
        /// The login's stream.
        stream_id: i32,
    },
}

impl LoginPort {
    /// What a request on the login domain is. It is to be answered by [`LoginPort::accept`] or [`LoginPort::refuse`].
    pub fn wanted(self, request: &RequestMsg<'_>) -> Wanted {
        match self {
            Self::Out => Wanted::Login,
            Self::Up { stream_id } if stream_id == request.stream_id => Wanted::Reissue,
            Self::Up { stream_id } => Wanted::SecondLogin { stream_id },
        }
    }

    /// Accepts a login, or confirms a reissue. Gives the refresh to send (the request is echoed), unless none is wanted.
    pub fn accept(&mut self, request: &Request, features: Features, text: &str) -> Option<Refresh> {
        *self = Self::Up { stream_id: request.stream_id };
        (!request.no_refresh).then(|| Refresh::accept(request, features, text))
    }

    /// Refuses a login, or ends it. Gives the status to send; the owner closes the connection behind it.
    pub fn refuse(&mut self, request: &Request, code: StateCode, text: &str) -> Status {
        *self = Self::Out;
        login::Status::refuse(request.stream_id, code, text)
    }

    /// Whether a login is accepted.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up { .. })
    }

    /// Whether this is the stream of the login that is accepted.
    pub const fn is_on(self, stream_id: i32) -> bool {
        matches!(self, Self::Up { stream_id: own } if own == stream_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::State;
    use rwf::msg::StatusMsg;
    use rwf::wire::Writer;

    fn encoded(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
        let mut buffer = vec![0; 4_096];
        let mut w = Writer::new(&mut buffer);
        encode(&mut w).expect("it fits");
        w.written().to_vec()
    }

    fn refresh(state: State<'_>) -> Vec<u8> {
        let request = Request { name: "ann".into(), ..Request::default() };
        let refresh = Refresh { state: state.into(), ..Refresh::accept(&request, Features::default(), "") };
        encoded(|w| refresh.encode(w))
    }

    fn status(state: State<'_>) -> Vec<u8> {
        encoded(|w| StatusMsg { state: Some(state), ..StatusMsg::new(rwf::msg::Domain::LOGIN, 1) }.encode(w))
    }

    fn asked(acceptance: Acceptance) -> LoginStream {
        let mut login = LoginStream::new(Request { name: "ann".into(), ..Request::default() }, acceptance);
        login.begin();
        login
    }

    const SUSPECT: State<'_> = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "not ready");

    #[test]
    fn a_consumer_goes_on_with_suspect_data_and_a_distributor_waits() {
        let mut consumer = asked(Acceptance::OpenStream);
        assert!(matches!(consumer.message(&status(State::OPEN_OK)), Ok(LoginEvent::State(_))), "no status accepts");
        assert!(matches!(consumer.message(&refresh(SUSPECT)), Ok(LoginEvent::Accepted(Some(_)))));
        assert!(consumer.is_up());

        let mut distributor = asked(Acceptance::OpenAndOk);
        assert!(matches!(distributor.message(&refresh(SUSPECT)), Ok(LoginEvent::State(_))));
        assert!(!distributor.is_up());
        assert_eq!(distributor.message(&status(State::OPEN_OK)), Ok(LoginEvent::Accepted(None)));
        assert!(distributor.is_up());
        assert!(matches!(distributor.message(&refresh(State::OPEN_OK)), Ok(LoginEvent::State(_))), "accepted once");
    }

    #[test]
    fn what_is_over_is_not_accepted_before_another_connection() {
        let closed = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, "no");
        for message in [refresh(closed), status(closed)] {
            let mut login = asked(Acceptance::OpenStream);
            assert!(matches!(login.message(&message), Ok(LoginEvent::Over(_))));
            assert!(matches!(login.message(&refresh(State::OPEN_OK)), Ok(LoginEvent::State(_))) && !login.is_up());
            login.reset();
            login.begin();
            assert!(matches!(login.message(&refresh(State::OPEN_OK)), Ok(LoginEvent::Accepted(_))) && login.is_up());
        }
    }

    #[test]
    fn requests_of_the_other_end_are_told_from_answers() {
        let mut login = asked(Acceptance::OpenStream);
        let request = encoded(|w| Request { name: "bob".into(), ..Request::default() }.encode(w));
        assert_eq!(login.message(&request), Ok(LoginEvent::WrongDirection(MsgClass::REQUEST)));
        assert!(login.message(&request[..5]).is_err());
        let text = encoded(|w| login::encode_close(1, w));
        assert_eq!(login.message(&text), Ok(LoginEvent::WrongDirection(MsgClass::CLOSE)));
    }

    #[test]
    fn a_port_knows_its_login() {
        let mut port = LoginPort::default();
        let on = |stream_id| RequestMsg::new(rwf::msg::Domain::LOGIN, stream_id);
        let request = Request { stream_id: 3, name: "ann".into(), ..Request::default() };
        assert_eq!(port.wanted(&on(3)), Wanted::Login);
        assert!(port.accept(&request, Features::default(), "welcome").is_some() && port.is_up() && port.is_on(3));
        assert_eq!(port.wanted(&on(3)), Wanted::Reissue);
        assert_eq!(port.wanted(&on(4)), Wanted::SecondLogin { stream_id: 3 });
        let silent = Request { no_refresh: true, ..request.clone() };
        assert!(port.accept(&silent, Features::default(), "").is_none());
        let status = port.refuse(&request, StateCode::NOT_ENTITLED, "no more");
        assert!(!port.is_up() && status.stream_id == 3);
    }
}
