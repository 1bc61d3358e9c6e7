//! The fence of a Source Distributor: a provider and a consumer of their own, and what goes between them.

use net::tcp::ConnId;
use rwf::msg::{Domain, GenericMsg, Msg, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::directory::{self, Action, Info, Part, Service, ServiceState};
use rwf::rdm::login;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Qos, State};
use tools::consumer::{Consumer, Identity, Received};

/// The service of the fence of a Source Distributor, by its number from 0.
pub(super) fn service_of(distributor: usize) -> String {
    format!("~FENCE{}", distributor + 1)
}

const ITEM: &[u8] = b"FENCE";
const FIRST_ID: u16 = 9_990;
/// Stream of the item at its consumer.
const STREAM: i32 = 5;

/// Where the fence is.
pub(super) struct Fence {
    number: usize,
    consumer: Consumer,
    /// The consumer has asked for the item, which is recovered without it from then on.
    asked: bool,
    /// The provider's connection, and the stream of the item there.
    watched: Option<(ConnId, i32)>,
    /// The last number that came down to the consumer, and up to the provider. The first is that of the image.
    pub(super) down: Option<u32>,
    pub(super) up: u32,
}

pub(super) fn bytes(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buffer = [0; 2_048];
    let mut writer = Writer::new(&mut buffer);
    encode(&mut writer).expect("room");
    writer.written().to_vec()
}

impl Fence {
    /// The fence of a Source Distributor, by its number from 0.
    pub(super) fn new(number: usize) -> Self {
        let (user, service) = (format!("fence{number}"), service_of(number));
        let identity = Identity { user, application: "fence".into(), service };
        Self { number, consumer: Consumer::new(identity), asked: false, watched: None, down: None, up: 0 }
    }

    /// Its Source Distributor has ended.
    pub(super) fn lost(&mut self) {
        (self.watched, self.down) = (None, None);
    }

    /// The consumer's connection is there.
    pub(super) fn begin(&mut self, now: u64, replies: &mut Vec<Vec<u8>>) {
        self.consumer.begin(now, &mut |msg| replies.push(msg.to_vec()));
    }

    /// A message for the consumer.
    pub(super) fn at_consumer(&mut self, now: u64, msg: &[u8], replies: &mut Vec<Vec<u8>>) {
        match self.consumer.receive(now, msg, &mut |msg| replies.push(msg.to_vec())) {
            Received::ServiceUp(id) if !self.asked => {
                self.asked = true;
                let key = MsgKey { service_id: Some(id), name: Some(ITEM), ..MsgKey::EMPTY };
                let flags = RequestFlags::STREAMING;
                let request = RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, STREAM) };
                replies.push(bytes(|w| request.encode(w)));
            }
            Received::Item => {
                let number = match Msg::decode(msg).expect("a message") {
                    Msg::Refresh(refresh) => number(refresh.body),
                    Msg::Update(update) => number(update.body),
                    _ => None,
                };
                self.down = number.or(self.down);
            }
            _ => {}
        }
    }

    /// A message for the provider.
    pub(super) fn at_provider(&mut self, conn: ConnId, msg: &[u8], replies: &mut Vec<Vec<u8>>) {
        match Msg::decode(msg).expect("a message") {
            Msg::Request(request) if request.domain == Domain::LOGIN => {
                let request = login::Request::decode(&request).expect("a login");
                let answer = login::Refresh::accept(&request, login::Features::default(), "");
                replies.push(bytes(|w| answer.encode(w)));
            }
            Msg::Request(request) if request.domain == Domain::SOURCE => {
                let answer =
                    directory::Refresh::answer(&directory::Request::decode(&request), vec![service(self.number)]);
                replies.push(bytes(|w| answer.encode(w)));
            }
            Msg::Request(request) if request.domain == Domain::MARKET_PRICE => {
                self.watched = Some((conn, request.stream_id));
                let mut flags = RefreshFlags::SOLICITED;
                flags.set(RefreshFlags::REFRESH_COMPLETE, true);
                flags.set(RefreshFlags::CLEAR_CACHE, true);
                let image = RefreshMsg {
                    flags,
                    state: State::OPEN_OK,
                    container: DataType::OPAQUE,
                    body: &0_u32.to_be_bytes(),
                    ..RefreshMsg::new(Domain::MARKET_PRICE, request.stream_id)
                };
                replies.push(bytes(|w| image.encode(w)));
            }
            Msg::Generic(generic) if generic.domain == Domain::MARKET_PRICE => {
                self.up = number(generic.body).unwrap_or(self.up);
            }
            _ => {}
        }
    }

    /// Messages of the provider to the consumer, with their connection.
    pub(super) fn downward(&self, number: u32) -> Option<(ConnId, Vec<u8>)> {
        let (conn, stream) = self.watched?;
        let body = number.to_be_bytes();
        let update =
            UpdateMsg { container: DataType::OPAQUE, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, stream) };
        Some((conn, bytes(|w| update.encode(w))))
    }

    /// Messages that the consumer sends back.
    pub(super) fn upward(number: u32) -> Vec<u8> {
        let body = number.to_be_bytes();
        let generic =
            GenericMsg { container: DataType::OPAQUE, body: &body, ..GenericMsg::new(Domain::MARKET_PRICE, STREAM) };
        bytes(|w| generic.encode(w))
    }
}

fn number(body: &[u8]) -> Option<u32> {
    body.try_into().ok().map(u32::from_be_bytes)
}

fn service(number: usize) -> Service {
    let mut service = Service::new(FIRST_ID + number as u16, Action::Add);
    service.info = Some(Part::Set(Info {
        name: service_of(number),
        capabilities: vec![Domain::MARKET_PRICE],
        qos: vec![Qos::REALTIME_TICK],
        ..Info::default()
    }));
    service.state = Some(Part::Set(ServiceState { up: true, accepting_requests: Some(true), status: None }));
    service
}
