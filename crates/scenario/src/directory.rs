//! The directory in scripts: the services of a provider, and what a consumer hears of services.

use crate::encoding::bytes_of;
use crate::numbers::{DIRECTORY_STREAM, ServiceIds};
use crate::words::{Words, camel, parse_qos, qos_word};
use rwf::msg::Domain;
use rwf::rdm::directory::{self, Action, Group, Info, Load, Part, Service, ServiceState, filter};
use rwf::rdm::state::StateBuf;
use rwf::{DataState, Qos, State, StateCode, StreamState};

/// The domains that a scripted provider has.
const DOMAINS: [Domain; 8] = [
    Domain::MARKET_PRICE,
    Domain::MARKET_BY_ORDER,
    Domain::MARKET_BY_PRICE,
    Domain::MARKET_MAKER,
    Domain::SYMBOL_LIST,
    Domain::HISTORY,
    Domain::HEADLINE,
    Domain(200),
];

/// A service as it is first offered. Words: `down`, `not-accepting`, `qos=`, `no-qos`, `qos-range`, `provides=`, `open-limit=`, `open-window=`,
/// `load-factor=`, `item-list=`, `capabilities=MarketPrice,MarketByOrder`.
///
/// # Errors
/// A word has no value that is possible.
pub fn offer(id: u16, name: &str, words: &mut Words<'_>) -> Result<Service, String> {
    let mut service = Service::new(id, Action::Add);
    let qos = words.value("qos").map(|all| all.split(',').map(parse_qos).collect::<Result<Vec<Qos>, String>>());
    let usual = if words.flag("no-qos") { Vec::new() } else { vec![Qos::REALTIME_TICK] };
    let qos = qos.transpose()?.unwrap_or(usual);
    service.info = Some(Part::Set(Info {
        name: name.to_owned(),
        capabilities: words.domains("capabilities")?.unwrap_or_else(|| DOMAINS.to_vec()),
        qos,
        supports_qos_range: words.flag("qos-range").then_some(true),
        dictionaries_provided: words
            .value("provides")
            .map(|names| names.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
        item_list: words.value("item-list").map(str::to_owned),
        ..Info::default()
    }));
    let (up, accepting) = (!words.flag("down"), !words.flag("not-accepting"));
    service.state = Some(Part::Set(ServiceState { up, accepting_requests: Some(up && accepting), status: None }));
    service.load = load(words)?.map(Part::Set);
    Ok(service)
}

/// Whether services, each a name with the words of its offer, can be offered.
///
/// # Errors
/// The first word that is not known.
pub fn check_offers(services: &[String]) -> Result<(), String> {
    for text in services {
        let all: Vec<String> = text.split_whitespace().skip(1).map(str::to_owned).collect();
        let mut words = Words::new(&all);
        offer(1, "", &mut words)?;
        words.end()?;
    }
    Ok(())
}

fn load(words: &mut Words<'_>) -> Result<Option<Load>, String> {
    let load = Load {
        open_limit: words.number("open-limit")?,
        open_window: words.number("open-window")?,
        load_factor: words.number("load-factor")?,
    };
    Ok((load != Load::default()).then_some(load))
}

/// A change that a provider says of a service: `SERVICE` and `up`, `down`, `not-accepting`, `deleted`, `added`, `group=1 Open/Suspect`,
/// `group=1 merged=2`, `load-factor=`.
///
/// # Errors
/// The provider has no such service, or a word is not known.
pub fn change(name: &str, words: &[String], services: &ServiceIds) -> Result<Vec<u8>, String> {
    change_on(DIRECTORY_STREAM, name, words, services)
}

/// As [`change`], on a directory stream of another number.
///
/// # Errors
/// As there.
pub fn change_on(stream_id: i32, name: &str, words: &[String], services: &ServiceIds) -> Result<Vec<u8>, String> {
    let id = *services.get(name).ok_or_else(|| format!("it has no service {name}"))?;
    let mut words = Words::new(words);
    let service = if words.flag("deleted") {
        Service::delete(id)
    } else if words.flag("added") {
        offer(id, name, &mut words)?
    } else {
        let mut service = Service::new(id, Action::Update);
        let status = status(&mut words)?;
        if let Some(group) = words.number::<u8>("group")? {
            let merged_to = words.number::<u8>("merged")?.map(|to| vec![to]);
            service.groups.push(Part::Update(Group { group: vec![group], merged_to, status }));
        } else if let Some(load) = load(&mut words)? {
            service.load = Some(Part::Update(load));
        } else {
            let (up, down, closed) = (words.flag("up"), words.flag("down"), words.flag("not-accepting"));
            let (up, accepting_requests) = (up || !down, Some(!down && !closed));
            service.state = Some(Part::Update(ServiceState { up, accepting_requests, status }));
        }
        service
    };
    words.end()?;
    let update = directory::Update {
        stream_id,
        filter: Some(filter::ALL),
        services: vec![service],
        ..directory::Update::default()
    };
    bytes_of(|w| update.encode(w))
}

/// `status=Suspect`, `status=Ok` or `status=ClosedRecover`: what a transient status says.
fn status(words: &mut Words<'_>) -> Result<Option<StateBuf>, String> {
    let (stream, data) = match words.value("status") {
        None => return Ok(None),
        Some("Ok") => (StreamState::OPEN, DataState::OK),
        Some("Suspect") => (StreamState::OPEN, DataState::SUSPECT),
        Some("ClosedRecover") => (StreamState::CLOSED_RECOVER, DataState::SUSPECT),
        Some(other) => return Err(format!("status={other}: Ok, Suspect or ClosedRecover")),
    };
    Ok(Some(State::new(stream, data, StateCode::NONE, "by the script").into()))
}

/// What a message says of services, each with its words.
pub fn told(services: &[Service], known: &ServiceIds) -> Vec<(String, Vec<String>)> {
    let name = |service: &Service| {
        let by_id = known.iter().find(|(_, id)| **id == service.id).map(|(name, _)| name.clone());
        service.name().map(str::to_owned).or(by_id).unwrap_or_else(|| format!("#{}", service.id))
    };
    services.iter().map(|service| (name(service), service_words(service))).collect()
}

fn service_words(service: &Service) -> Vec<String> {
    let mut words = vec![
        match service.action {
            Action::Add => "added",
            Action::Update => "changed",
            Action::Delete => "deleted",
        }
        .to_owned(),
    ];
    if let Some(info) = service.info.as_ref().and_then(Part::value) {
        words.extend(info.qos.iter().map(|qos| format!("qos={}", qos_word(*qos))));
        words.extend(info.item_list.iter().map(|list| format!("item-list={list}")));
    }
    if let Some(state) = service.state.as_ref().and_then(Part::value) {
        words.push(if state.up { "up" } else { "down" }.to_owned());
        words.push(if state.accepting_requests == Some(false) { "not-accepting" } else { "accepting" }.to_owned());
        words.extend(state.status.as_ref().map(|status| format!("status={}", camel(&status.data.to_string()))));
    }
    for group in service.groups.iter().filter_map(Part::value) {
        let id: Vec<String> = group.group.iter().map(ToString::to_string).collect();
        words.push(format!("group={}", id.join(",")));
        words.extend(group.status.as_ref().map(|status| format!("status={}", camel(&status.data.to_string()))));
    }
    if let Some(load) = service.load.as_ref().and_then(Part::value) {
        words.extend(load.load_factor.map(|factor| format!("load-factor={factor}")));
        words.extend(load.open_limit.map(|limit| format!("open-limit={limit}")));
    }
    words
}
