//! An interactive provider: what answers a Source Distributor (or a consumer) that connects, without I/O.
//!
//! [`Provider`] is what all sessions share: the service and its dictionary. What a connection may ask for, and how login, directory
//! and dictionary are answered, is `omm`'s; [`Session`] gives the images of one connection's items, and takes its posts; where items
//! come from is behind [`Items`]. Updates go past the session: whoever has the items knows their streams.
//! [`market::Market`] puts a [`MarketSource`](super::MarketSource) there. Every answer goes through the `reply` argument,
//! a whole message at a time, in order.

pub mod market;
pub mod noninteractive;
mod post;
mod session;

pub use post::{Post, Posted};
pub use session::{Session, SessionId};

use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, RefreshMsg};
use rwf::rdm::{dictionary, directory, login};
use rwf::{DataState, DataType, Qos, State, StateCode, StreamState};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The offer of a provider.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Name of the service.
    pub service: String,
    /// Its id on every connection.
    pub service_id: u16,
    /// Further services, by id and name, that differ from it in nothing else but whether they are up.
    pub also: Vec<(u16, String)>,
    /// Domains of its items.
    pub domains: Vec<Domain>,
    /// `OpenWindow` of the directory; `None` says nothing.
    pub open_window: Option<u64>,
    /// Login refresh's text and the directory's vendor.
    pub vendor: String,
    /// Permission data of the images that sessions send (`RefreshMsg.permData`); empty for none.
    pub lock: Arc<[u8]>,
}

impl Default for ProviderConfig {
    /// `DIRECT_FEED` with id 1: market price and both order books.
    fn default() -> Self {
        Self {
            service: "DIRECT_FEED".to_owned(),
            service_id: 1,
            also: Vec::new(),
            domains: vec![Domain::MARKET_PRICE, Domain::MARKET_BY_ORDER, Domain::MARKET_BY_PRICE, Domain::SYMBOL_LIST],
            open_window: None,
            vendor: "Quoteway".to_owned(),
            lock: Arc::default(),
        }
    }
}

/// State that all sessions of a provider share.
#[derive(Clone, Debug)]
pub struct Provider {
    /// The services that it offers.
    pub config: ProviderConfig,
    /// Whether the service is up. One that is down takes no requests.
    pub is_up: bool,
    /// Ids of the further services that are down.
    pub also_down: BTreeSet<u16>,
    /// The dictionaries that it hands out as `RWFFld` and `RWFEnum`.
    pub dictionary: Arc<Dictionary>,
}

impl Provider {
    /// A provider that hands out `dictionary`.
    pub fn new(config: ProviderConfig, dictionary: Arc<Dictionary>) -> Self {
        Self { config, is_up: true, also_down: BTreeSet::new(), dictionary }
    }

    /// Takes one of its services up or down.
    pub fn set_up(&mut self, service_id: u16, is_up: bool) {
        if service_id == self.config.service_id {
            self.is_up = is_up;
        } else if is_up {
            self.also_down.remove(&service_id);
        } else {
            self.also_down.insert(service_id);
        }
    }

    fn is_service_up(&self, service_id: u16) -> bool {
        if service_id == self.config.service_id { self.is_up } else { !self.also_down.contains(&service_id) }
    }

    /// The messages that tell that a service is up or down now. The state alone touches no item: the transient status beside it does.
    pub fn state_change(&self, service_id: u16) -> directory::Service {
        let is_up = self.is_service_up(service_id);
        let mut state = directory::ServiceState::new(is_up);
        let (data, text) =
            if is_up { (DataState::OK, "Service is up") } else { (DataState::SUSPECT, "Service is down") };
        state.status = Some(State::new(StreamState::OPEN, data, StateCode::NONE, text).into());
        let mut service = directory::Service::new(service_id, directory::Action::Update);
        service.state = Some(directory::Part::Set(state));
        service
    }

    /// How a connection is to answer: one service, posts and batches taken, as many streams as are asked for.
    fn role(&self) -> Arc<omm::provider::ProviderConfig> {
        Arc::new(omm::provider::ProviderConfig {
            services: std::iter::once(self.service()).chain(self.also()).collect(),
            features: login::Features {
                post: Some(true),
                batch: Some(login::batch::REQUESTS),
                ..login::Features::default()
            },
            dictionary: Some(Arc::clone(&self.dictionary)),
            streams_max: usize::MAX,
            batch_max: usize::MAX,
        })
    }

    /// The further services.
    fn also(&self) -> impl Iterator<Item = directory::Service> {
        self.config.also.iter().map(|(id, name)| {
            let config = ProviderConfig { service: name.clone(), service_id: *id, ..self.config.clone() };
            let is_up = self.is_service_up(*id);
            let dictionary = Arc::clone(&self.dictionary);
            Self { config, is_up, also_down: BTreeSet::new(), dictionary }.service()
        })
    }

    /// The service as the directory shows it.
    pub fn service(&self) -> directory::Service {
        let names = || vec![dictionary::FIELDS.to_owned(), dictionary::ENUMS.to_owned()];
        let mut capabilities = vec![Domain::DICTIONARY];
        capabilities.extend(&self.config.domains);
        let mut service = directory::Service::new(self.config.service_id, directory::Action::Add);
        service.info = Some(directory::Part::Set(directory::Info {
            name: self.config.service.clone(),
            vendor: Some(self.config.vendor.clone()),
            is_source: Some(true),
            capabilities,
            dictionaries_provided: names(),
            dictionaries_used: names(),
            qos: vec![Qos::REALTIME_TICK],
            supports_qos_range: Some(false),
            item_list: None,
            supports_out_of_band_snapshots: Some(true),
            accepting_consumer_status: Some(false),
        }));
        service.state = Some(directory::Part::Set(directory::ServiceState::new(self.is_up)));
        if self.config.open_window.is_some() {
            let load = directory::Load { open_window: self.config.open_window, ..directory::Load::default() };
            service.load = Some(directory::Part::Set(load));
        }
        service
    }
}

/// An item request that passed the session's own checks.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// The asking session.
    pub session: SessionId,
    /// On which stream.
    pub stream_id: i32,
    /// Of which service, by its id.
    pub service: u16,
    /// Of which domain.
    pub domain: Domain,
    /// For which name.
    pub name: &'a str,
    /// Whether updates are wanted; otherwise the item must not be remembered.
    pub streaming: bool,
}

/// An item of an [`Items`]: whatever number it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemId(pub u32);

/// Why an item cannot be had: goes out as a closed status. With [`StateCode::NOT_OPEN`] whoever asks is to ask again (closed, recoverable).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Code of the state.
    pub code: StateCode,
    /// Text of the state.
    pub text: String,
}

/// A part of an item's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagePart {
    /// The type of the payload.
    pub container: DataType,
    /// Sequence number that the image belongs to.
    pub sequence: Option<u32>,
    /// Whether the data is good.
    pub data: DataState,
    /// Another part follows.
    pub more: bool,
}

/// Where the items of a provider come from.
pub trait Items {
    /// An item is asked for. A streaming one is updated from its image on.
    ///
    /// # Errors
    /// The item cannot be had.
    fn open(&mut self, open: Open<'_>) -> Result<ItemId, Refusal>;

    /// Appends part `part` of the image of an item to `out`.
    fn image(&mut self, item: ItemId, domain: Domain, part: usize, out: &mut Vec<u8>) -> ImagePart;

    /// What a refresh of an item says besides its payload, where that is the item's own: `refresh` is what it would say.
    fn dress<'m>(&'m self, _item: ItemId, refresh: RefreshMsg<'m>) -> RefreshMsg<'m> {
        refresh
    }

    /// The state of an item that was opened and has no image yet: it is told instead, and the image comes by [`Session::refresh`].
    fn without_image(&self, _item: ItemId) -> Option<State<'static>> {
        None
    }

    /// A stream ended.
    fn close(&mut self, item: ItemId, session: SessionId, stream_id: i32);

    /// The name of an item that was opened; without it nothing can be posted on the item's stream.
    fn name(&self, _item: ItemId) -> Option<String> {
        None
    }
}

/// Something that is done to items that are open, on purpose: what an application has to live with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prank<'a> {
    /// Their state changes. With a stream state other than open the streams are over.
    State(State<'a>),
    /// Images are sent again without having been asked for.
    Image,
    /// Items get an update whose payload cannot be decoded.
    Malformed,
}
