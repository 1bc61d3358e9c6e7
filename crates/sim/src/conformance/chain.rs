//! The machines of a scenario: Source Distributors and P2PSs with nothing random about them, joined by calls or as over a network.

use super::servers::{Deed, Out, Servers};
use hub::cache::rules::{CacheRules, NamePattern, ServiceRule};
use hub::distributor::{
    self, Balance, CloseReason, Interruption, ItemPriority, Origin, PeerInfo, ProviderSink, RouteConfig, ServiceGroup,
    SessionId, SourceDistributor,
};
use hub::filter::rules::{FieldRule, FieldSelector, FieldSet, FieldValue, Filters, ServiceFilter, UpdateTypes};
use hub::headlines::HeadlineRule;
use hub::p2ps::conflation::{JustInTime, ServiceConflation, Settings};
use hub::p2ps::{self, ClientId, ClientInfo, Joined, P2ps, SourceId};
use hub::status_texts::StatusTexts;
use scenario::words::{parse_qos, update_type};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const SECOND: u64 = 1_000_000_000;
/// Routes that a scenario may use.
const ROUTES: usize = 10;
/// Bytes of a block on a network: small, so that blocks are cut.
const LONGEST: usize = 300;

/// The variant between consumers and providers, beside the rules that all share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// One process, no cache.
    Plain,
    /// One process, the Source Distributor has a cache.
    DistributorCache,
    /// One process, the P2PS has a cache.
    P2psCache,
    /// Two processes and the hub between them, no cache.
    Network,
}

/// In place of variants: the scenario is of what a process does beside its machines, and runs where there are processes.
const PROCESSES: &str = "processes";

impl Variant {
    /// Whether a scenario or step for these variants is one for servers that are processes and have this variant's machines.
    pub fn is_one_of_processes(self, names: &[String]) -> bool {
        self.is_one_of(names) || names.iter().any(|name| name == PROCESSES)
    }

    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plain, Self::DistributorCache, Self::P2psCache, Self::Network];

    /// What scripts call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::DistributorCache => "distributor-cache",
            Self::P2psCache => "p2ps-cache",
            Self::Network => "network",
        }
    }

    /// Whether it is one of these, by its name or as `cached` or `uncached`.
    pub fn is_one_of(self, names: &[String]) -> bool {
        let cached = matches!(self, Self::DistributorCache | Self::P2psCache);
        let fits = |name: &String| match name.as_str() {
            "cached" => cached,
            "uncached" => !cached,
            name => name == self.name(),
        };
        names.is_empty() || names.iter().any(fits)
    }
}

/// What distributors say to their sessions.
#[derive(Debug, Default)]
struct Sink {
    sent: Vec<(u32, Vec<u8>)>,
    closed: Vec<(u32, String)>,
}

impl ProviderSink for Sink {
    fn send(&mut self, session: SessionId, msg: &[u8]) {
        self.sent.push((session.0, msg.to_vec()));
    }

    fn close(&mut self, session: SessionId, reason: &CloseReason) {
        self.closed.push((session.0, reason.to_string()));
    }
}

/// What a scenario sets at the servers, beside the variant.
#[derive(Debug, Clone, Default)]
pub(super) struct Set {
    distributor: distributor::Config,
    interruption: Option<Interruption>,
    /// Of each route.
    max_items: u32,
    named_there: BTreeMap<String, String>,
    p2ps: p2ps::Config,
    pub(super) distributors: usize,
    pub(super) p2pss: usize,
}

impl Set {
    pub(super) fn new(settings: &[(String, String)], variant: Variant) -> Result<Self, String> {
        let mut set = Self { distributors: 1, p2pss: 1, ..Self::default() };
        for (key, value) in settings {
            set.apply(key, value).map_err(|why| format!("set: {key}={value}: {why}"))?;
        }
        let route = |number: usize| RouteConfig {
            server_id: (number + 1).to_string(),
            max_items: set.max_items,
            interruption: set.interruption,
            named_there: set.named_there.clone(),
            ..RouteConfig::default()
        };
        set.distributor.routes = (0..ROUTES).map(route).collect();
        let everything = CacheRules::everything();
        match variant {
            Variant::Plain => {}
            Variant::DistributorCache => set.distributor.cache = everything,
            Variant::P2psCache => set.p2ps.cache = everything,
            Variant::Network => {
                set.distributor.heartbeat_interval = SECOND;
                set.distributor.p2ps_timeout = 3 * SECOND;
                set.distributor.history_bytes = 1 << 20;
                set.distributor.point_to_point = true;
                set.p2ps.heartbeat_interval = SECOND;
                set.p2ps.source_timeout = 3 * SECOND;
            }
        }
        Ok(set)
    }

    fn apply(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| "no number".to_owned());
        match key {
            "distributors" => self.distributors = number()? as usize,
            "p2pss" => self.p2pss = number()? as usize,
            "rtds-status-texts" => {
                let texts = if number()? != 0 { StatusTexts::Rtds } else { StatusTexts::Own };
                (self.distributor.status_texts, self.p2ps.status_texts) = (texts, texts);
            }
            "named-there" => {
                let (here, there) = of_service(value)?;
                self.named_there.insert(here.to_owned(), there.to_owned());
            }
            "max-cache" => self.max_items = number()? as u32,
            "image-part" => {
                self.distributor.image_part = number()? as usize;
                self.p2ps.image_part = number()? as usize;
            }
            "not-cached" => {
                let rule = ServiceRule::default();
                self.distributor.cache.services.insert(value.to_owned(), rule.clone());
                self.p2ps.cache.services.insert(value.to_owned(), rule);
            }
            _ => return self.apply_to_distributors(key, value),
        }
        Ok(())
    }

    /// What is set of Source Distributors alone.
    fn apply_to_distributors(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| "no number".to_owned());
        let seconds = || number().map(|n| n * SECOND);
        match key {
            "provider-choice" => {
                self.distributor.balance = match value {
                    "first" => Balance::First,
                    "load" => Balance::Load,
                    "hot" => Balance::Hot,
                    _ => return Err("first, hot or load".to_owned()),
                }
            }
            "sequence-numbers" => self.distributor.sequence_numbers = number()? != 0,
            "service-qos" => {
                let (service, qos) = of_service(value)?;
                self.distributor.service_qos.insert(service.to_owned(), parse_qos(qos)?);
            }
            "of-service" => {
                let (service, what) = of_service(value)?;
                let (key, number) = what.split_once(':').ok_or("SERVICE/KEY:NUMBER")?;
                let number: u64 = number.parse().map_err(|_| "SERVICE/KEY:NUMBER")?;
                self.apply_to_service(service, key, number)?;
            }
            "recover-on-close" => self.distributor.recover_on_close = number()? != 0,
            "retry-limit" => self.distributor.retry_limit = number()? as u32,
            "stale-retry-s" => self.distributor.stale_recovery_retry = seconds()?,
            "supports-snapshots" => {
                let (service, takes) = of_service(value)?;
                self.distributor.supports_snapshots.insert(service.to_owned(), takes == "true");
            }
            "contrib-fields" => {
                let (service, field) = of_service(value)?;
                let field = field.parse().map_err(|_| "no field".to_owned())?;
                let fields = FieldSet::new([(field, field)]);
                self.distributor.contributions.fields.insert(service.to_owned(), fields);
            }
            "contrib-exchange-fields" => {
                let (service, field) = of_service(value)?;
                let field = field.parse().map_err(|_| "no field".to_owned())?;
                let fields = FieldSet::new([(field, field)]);
                self.distributor.contributions.exchange_fields.insert(service.to_owned(), fields);
            }
            "contrib-rtl" => {
                let (service, inserts) = of_service(value)?;
                self.distributor.contributions.levels.insert(service.to_owned(), inserts == "true");
            }
            "contrib-services" => _ = self.distributor.contributions.services.insert(value.to_owned()),
            "service-group" => {
                let (name, members) = of_service(value)?;
                let members = members.split('|').map(str::to_owned).collect();
                self.distributor.service_groups.push(ServiceGroup { name: name.to_owned(), members });
            }
            "standby-pair" => {
                let pair = value.split('|').map(str::to_owned).collect();
                self.distributor.standby_pairs.push(pair);
            }
            "locked" => {
                let (service, item) = of_service(value)?;
                self.distributor.item_priorities.add(service, item.as_bytes(), ItemPriority::Locked);
            }
            "preemption" => self.distributor.preemption = number()? != 0,
            "takeover-on-suspect" => self.distributor.takeover_on_suspect = number()? != 0,
            "interruption-s" => self.interruption().duration = seconds()?,
            "traffic-window-s" => self.interruption().traffic_window = seconds()?,
            "failback-s" => self.distributor.failback = seconds()?,
            "age-unwatched-s" => self.distributor.age_unwatched = seconds()?,
            "post-timeout-s" => self.distributor.post_timeout = seconds()?,
            "distributor-conflate-ms" => self.distributor.conflation.others.interval = number()? as u16,
            "distributor-without" => filter(&mut self.distributor.filters, value, without)?,
            "distributor-where" => {
                let (service, what) = of_service(value)?;
                let (fid, number) = what.split_once(':').ok_or("SERVICE/FIELD:NUMBER")?;
                let fid = fid.parse().map_err(|_| "SERVICE/FIELD:NUMBER")?;
                let number = number.parse().map_err(|_| "SERVICE/FIELD:NUMBER")?;
                let known = self.distributor.filters.services.entry(service.to_owned()).or_default();
                Arc::make_mut(known).selector = Some(FieldSelector { fid, values: vec![FieldValue::Number(number)] });
            }
            "distributor-withholds" => filter(&mut self.distributor.filters, value, withholding)?,
            _ => return self.apply_to_p2pss(key, value),
        }
        Ok(())
    }

    /// What is set of one service.
    fn apply_to_service(&mut self, service: &str, key: &str, number: u64) -> Result<(), String> {
        let of_distributor = self.distributor.services.entry(service.to_owned()).or_default();
        let of_p2ps = self.p2ps.services.entry(service.to_owned()).or_default();
        match key {
            "recover-on-close" => of_distributor.recover_on_close = Some(number != 0),
            "retry-limit" => of_distributor.retry_limit = Some(number as u32),
            "stale-retry-s" => of_distributor.stale_recovery_retry = Some(number * SECOND),
            "include-unwatched" => of_distributor.counts_unwatched = Some(number != 0),
            "restart-s" => of_distributor.restart = Some(number * SECOND),
            "failback-s" => of_distributor.failback = Some(number * SECOND),
            "age-unwatched-s" => of_distributor.age_unwatched = Some(number * SECOND),
            "request-timeout-s" => of_distributor.request_timeout = Some(number * SECOND),
            "post-flush-ms" => of_distributor.post_flush = Some(number * SECOND / 1_000),
            "max-pending-posts" => of_distributor.max_pending_posts = Some(number as usize),
            "forward-priority" => of_distributor.forward_priority = Some(number != 0),
            "point-to-point" => of_distributor.point_to_point = Some(number != 0),
            "post-timeout-s" => {
                of_distributor.post_timeout = Some(number * SECOND);
                of_p2ps.post_timeout = Some(number * SECOND);
            }
            "discourage-on-outage" => of_p2ps.discourage_on_outage = Some(number != 0),
            _ => return Err(format!("nothing of a service is called {key}")),
        }
        Ok(())
    }

    /// What is set of P2PSs alone.
    fn apply_to_p2pss(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|_| "no number".to_owned());
        let seconds = || number().map(|n| n * SECOND);
        match key {
            "distributor-pair" => {
                // Whether they number alike.
                let names = || vec!["sd1".to_owned(), "sd2".to_owned()];
                self.p2ps.sequence_numbers = number()? != 0;
                (self.p2ps.source_order, self.p2ps.source_pairs) = (names(), vec![names()]);
            }
            "service-items" => {
                let (service, items) = of_service(value)?;
                let items = items.parse().map_err(|_| "no number".to_owned())?;
                self.p2ps.service_item_limits.insert(service.to_owned(), items);
            }
            "consumer-age-unwatched-s" => self.p2ps.unwatched_time = seconds()?,
            "max-unwatched" => self.p2ps.max_unwatched = number()? as u32,
            "pause-resume" => self.p2ps.support_pause_resume = number()? != 0,
            "max-mounts-per-user" => self.p2ps.max_mounts_per_user = number()? as u32,
            "item-limit" => self.p2ps.item_limit = number()? as u32,
            "items-per-user" => self.p2ps.aggregate_item_limit = number()? as u32,
            "total-items" => self.p2ps.total_item_limit = number()? as u32,
            "max-views-per-item" => self.p2ps.max_views_per_item = number()? as u32,
            "dictionary-part" => self.p2ps.max_fragment_size = number()? as usize,
            "warm-standby" => self.p2ps.support_warm_standby = number()? != 0,
            "open-window" => self.p2ps.open_window = number()? as u32,
            "open-window-for-polls" => self.p2ps.open_window_for_polls = number()? as u32,
            "max-posts-per-client" => self.p2ps.max_posts_per_client = number()? as u32,
            "round-trip-s" => self.p2ps.round_trip_interval = seconds()?,
            "login-timeout-s" => self.p2ps.login_timeout = seconds()?,
            "conflate-ms" => self.conflation().interval = number()? as u16,
            "conflation-offered-ms" => self.conflation().offered = vec![number()? as u16],
            "conflate-above" => {
                let (above, below) = value.split_once('/').ok_or("BYTES/BYTES")?;
                let bytes = |text: &str| text.parse::<usize>().map_err(|_| "BYTES/BYTES");
                let (conflate, tick_by_tick) = (bytes(above)?, bytes(below)?);
                let limits = &mut self.p2ps.egress;
                (limits.guaranteed, limits.conflate, limits.tick_by_tick) = (conflate / 2, conflate, tick_by_tick);
                self.conflation().just_in_time = JustInTime::All;
            }
            "max-output-bytes" => {
                self.p2ps.egress.max = number()? as usize;
                self.p2ps.egress.guaranteed = number()? as usize / 2;
            }
            "blocked" => {
                let (service, item) = of_service(value)?;
                self.p2ps.blocked.add(service, item.as_bytes());
            }
            "p2ps-without" => filter(&mut self.p2ps.filters, value, without)?,
            "p2ps-only" => filter(&mut self.p2ps.filters, value, only)?,
            "p2ps-headlines" => {
                let (service, what) = of_service(value)?;
                let (fid, lock_service) = what.split_once(':').ok_or("SERVICE/FIELD:NUMBER")?;
                let (fid, lock_service) =
                    (fid.parse().map_err(|_| "no field")?, lock_service.parse().map_err(|_| "no number")?);
                let rule = HeadlineRule { fid, lock_service, names: vec![NamePattern::new("N2_*")] };
                self.p2ps.headlines.insert(service.to_owned(), rule.into());
            }
            "service-id" => {
                let (service, id) = of_service(value)?;
                let id = id.parse().map_err(|_| "SERVICE/ID")?;
                self.p2ps.service_ids.give(service, id).map_err(|error| error.to_string())?;
            }
            _ => return Err("no such setting".to_owned()),
        }
        Ok(())
    }

    /// Of all routes.
    fn interruption(&mut self) -> &mut Interruption {
        self.interruption.get_or_insert(Interruption { duration: 10 * SECOND, traffic_window: 10 * SECOND })
    }

    fn conflation(&mut self) -> &mut ServiceConflation {
        let settings: &mut Settings = &mut self.p2ps.conflation;
        &mut settings.others
    }
}

/// `SERVICE/` and what is said of it.
fn of_service(text: &str) -> Result<(&str, &str), String> {
    text.split_once('/').ok_or_else(|| "SERVICE/ and what of it".to_owned())
}

fn filter(filters: &mut Filters, text: &str, what: fn(&str) -> Result<ServiceFilter, String>) -> Result<(), String> {
    let (service, of_it) = of_service(text)?;
    filters.services.insert(service.to_owned(), Arc::new(what(of_it)?));
    Ok(())
}

fn fields(text: &str) -> Result<FieldSet, String> {
    let fid = |fid: &str| fid.parse::<i16>().map(|fid| (fid, fid)).map_err(|_| format!("{fid} is no field"));
    Ok(FieldSet::new(text.split(',').map(fid).collect::<Result<Vec<_>, String>>()?))
}

fn without(text: &str) -> Result<ServiceFilter, String> {
    Ok(ServiceFilter { fields: FieldRule::AllBut(fields(text)?), ..ServiceFilter::default() })
}

fn only(text: &str) -> Result<ServiceFilter, String> {
    Ok(ServiceFilter { fields: FieldRule::Only(fields(text)?), ..ServiceFilter::default() })
}

fn withholding(text: &str) -> Result<ServiceFilter, String> {
    let kinds = text.split(',').map(update_type).collect::<Result<Vec<_>, String>>()?;
    let withheld = kinds.into_iter().fold(UpdateTypes::NONE, UpdateTypes::with);
    Ok(ServiceFilter { withheld, ..ServiceFilter::default() })
}

struct Distributor {
    machine: SourceDistributor,
    sink: Sink,
    alive: bool,
}

/// The machines.
pub(super) struct Chain {
    set: Set,
    networked: bool,
    now: u64,
    distributors: Vec<Distributor>,
    p2pss: Vec<P2ps>,
    /// Distributor of a session, P2PS of a client.
    sessions: BTreeMap<u32, usize>,
    clients: BTreeMap<u32, usize>,
    incarnation: u32,
    out: Vec<Out>,
}

impl Chain {
    pub(super) fn new(set: Set, variant: Variant) -> Self {
        let mut chain = Self {
            networked: variant == Variant::Network,
            now: 100 * SECOND,
            distributors: Vec::new(),
            p2pss: Vec::new(),
            sessions: BTreeMap::new(),
            clients: BTreeMap::new(),
            incarnation: 10,
            out: Vec::new(),
            set,
        };
        for at in 0..chain.set.p2pss {
            let mut machine = P2ps::new(chain.set.p2ps.clone(), at as u16);
            for number in 0..chain.set.distributors {
                machine.name_source(SourceId(number as u16), &format!("sd{}", number + 1));
            }
            chain.p2pss.push(machine);
        }
        for number in 0..chain.set.distributors {
            let machine = SourceDistributor::new(chain.set.distributor.clone(), chain.incarnation + number as u32);
            chain.distributors.push(Distributor { machine, sink: Sink::default(), alive: true });
            chain.join(number);
        }
        chain.incarnation += chain.set.distributors as u32;
        chain.settle();
        chain
    }

    /// All P2PSs join a distributor.
    fn join(&mut self, number: usize) {
        let machine = &mut self.distributors[number].machine;
        for (at, p2ps) in self.p2pss.iter_mut().enumerate() {
            let (incarnation, position) = (machine.incarnation(), machine.next_position());
            machine.p2ps_up(self.now, at as u16);
            let source = SourceId(number as u16);
            if self.networked {
                p2ps.source_joined(self.now, source, Joined { number: at as u16, incarnation, position });
            } else {
                p2ps.source_up(self.now, source);
            }
        }
    }

    /// A distributor ends, and its sessions with it.
    fn kill(&mut self, number: usize) {
        self.distributors[number].alive = false;
        self.sessions.retain(|_, at| *at != number);
        for p2ps in &mut self.p2pss {
            p2ps.source_down(self.now, SourceId(number as u16));
        }
        self.settle();
    }

    /// A distributor starts again, in another life.
    fn start(&mut self, number: usize) {
        self.incarnation += 1;
        let machine = SourceDistributor::new(self.set.distributor.clone(), self.incarnation);
        self.distributors[number] = Distributor { machine, sink: Sink::default(), alive: true };
        self.join(number);
        self.settle();
    }

    /// So many bytes have not been taken by a client's connection.
    fn backlog(&mut self, client: u32, bytes: usize) {
        if let Some(&at) = self.clients.get(&client) {
            self.p2pss[at].client_backlog(ClientId(client), bytes);
            self.settle();
        }
    }

    /// Operators block `SERVICE/ITEM`.
    fn block(&mut self, what: &str) -> Result<(), String> {
        let (service, item) = of_service(what)?;
        for p2ps in &mut self.p2pss {
            let blocked = p2ps.block_item(self.now, service, item.as_bytes(), "blocked by the script");
            blocked.map_err(|error| error.to_string())?;
        }
        self.settle();
        Ok(())
    }

    fn unblock(&mut self, what: &str) -> Result<(), String> {
        let (service, item) = of_service(what)?;
        let all = self.p2pss.iter_mut().all(|p2ps| p2ps.unblock_item(service, item.as_bytes()));
        self.settle();
        if all { Ok(()) } else { Err("it is not blocked".to_owned()) }
    }

    /// An operator has a client go elsewhere.
    fn dismiss(&mut self, client: u32, why: &str) -> Result<(), String> {
        let at = *self.clients.get(&client).ok_or("it is not connected")?;
        let done = self.p2pss[at].dismiss(self.now, ClientId(client), why);
        self.settle();
        if done { Ok(()) } else { Err("its connection is closed already".to_owned()) }
    }

    /// An operator has a service served by the provider of this session.
    fn switch(&mut self, service: &str, session: u32) -> Result<(), String> {
        let number = *self.sessions.get(&session).ok_or("it is not connected")?;
        let Distributor { machine, sink, .. } = &mut self.distributors[number];
        let switched = machine.switch_provider(self.now, service, Some(&address(session)), sink);
        switched.map_err(|error| error.to_string())?;
        self.settle();
        Ok(())
    }

    /// Time passes; what is due meanwhile happens at its time.
    fn pass(&mut self, nanoseconds: u64) {
        let until = self.now + nanoseconds;
        loop {
            let distributors = self.distributors.iter().filter(|d| d.alive).filter_map(|d| d.machine.timeout());
            let next = distributors.chain(self.p2pss.iter().filter_map(P2ps::timeout)).min();
            match next {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => break,
            }
            self.settle();
        }
        self.now = until;
        self.settle();
    }

    /// Turns, until nothing is on its way any more.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the machines never come to rest");
            for Distributor { machine, sink, alive } in &mut self.distributors {
                if *alive {
                    machine.on_timer(self.now, sink);
                }
            }
            for p2ps in &mut self.p2pss {
                p2ps.on_timer(self.now);
            }
            let busy = self.exchange();
            let waits = |timeout: Option<u64>| timeout.is_some_and(|at| at <= self.now);
            let due = self.distributors.iter().any(|d| d.alive && waits(d.machine.timeout()))
                || self.p2pss.iter().any(|p2ps| waits(p2ps.timeout()));
            if !busy && !due {
                break;
            }
        }
        for p2ps in &self.p2pss {
            p2ps.check_invariants();
        }
    }

    /// One round: requests up, blocks down, messages out.
    fn exchange(&mut self) -> bool {
        let Self { distributors, p2pss, out, now, networked, .. } = self;
        let (now, longest) = (*now, if *networked { LONGEST } else { usize::MAX });
        let mut busy = false;
        for (at, p2ps) in p2pss.iter_mut().enumerate() {
            p2ps.requests(|source, block| {
                busy = true;
                let Distributor { machine, sink, alive } = &mut distributors[usize::from(source.0)];
                for part in hub::stream::parts(block, longest).filter(|_| *alive) {
                    machine.request_block(now, at as u16, &part, sink).expect("a request block");
                }
            });
            assert!(p2ps.closing_sources().next().is_none(), "a P2PS parts from a Source Distributor");
        }
        for (number, Distributor { machine, sink, alive }) in distributors.iter_mut().enumerate() {
            out.extend(sink.sent.drain(..).map(|(session, msg)| Out::ToProvider(session, msg)));
            out.extend(sink.closed.drain(..).map(|(session, why)| Out::ProviderClosed(session, why)));
            if !*alive {
                continue;
            }
            let source = SourceId(number as u16);
            if let Some(block) = machine.block() {
                busy = true;
                for p2ps in p2pss.iter_mut() {
                    for part in hub::stream::parts(block, longest) {
                        p2ps.hub_block(now, source, &part).expect("an event block");
                        flush(p2ps, &part, out);
                    }
                }
                machine.clear_block();
                machine.check_invariants();
            }
            machine.point_to_point_blocks(|to, block| {
                busy = true;
                let p2ps = &mut p2pss[usize::from(to)];
                p2ps.point_to_point_block(now, source, block).expect("a block point to point");
                flush(p2ps, block, out);
            });
            assert!(machine.closing_p2ps().next().is_none(), "a Source Distributor parts from a P2PS");
            machine.notices();
        }
        for p2ps in p2pss.iter_mut() {
            flush(p2ps, &[], out);
        }
        busy
    }
}

impl Servers for Chain {
    fn session_up(&mut self, session: u32, number: usize, route: Option<u16>) -> Result<(), String> {
        self.sessions.insert(session, number);
        let origin = route.map_or(Origin::NonInteractive, Origin::Route);
        let peer = PeerInfo { address: address(session) };
        let Distributor { machine, sink, .. } = &mut self.distributors[number];
        machine.session_up(self.now, SessionId(session), origin, peer, sink);
        self.settle();
        Ok(())
    }

    fn session_down(&mut self, session: u32) {
        if let Some(number) = self.sessions.remove(&session) {
            let Distributor { machine, sink, .. } = &mut self.distributors[number];
            machine.session_down(self.now, SessionId(session), "connection closed by the peer", sink);
            self.settle();
        }
    }

    fn client_up(&mut self, client: u32, at: usize) -> Result<(), String> {
        self.clients.insert(client, at);
        let address = std::net::IpAddr::from([10, 0, 0, client as u8]);
        self.p2pss[at].client_up(self.now, ClientId(client), ClientInfo { address });
        self.settle();
        Ok(())
    }

    fn client_down(&mut self, client: u32) {
        if let Some(at) = self.clients.remove(&client) {
            self.p2pss[at].client_down(self.now, ClientId(client));
            self.settle();
        }
    }

    fn provider_message(&mut self, session: u32, bytes: &[u8]) -> Result<(), String> {
        let number = *self.sessions.get(&session).ok_or("it is not connected")?;
        let Distributor { machine, sink, .. } = &mut self.distributors[number];
        machine.session_message(self.now, SessionId(session), bytes, sink);
        self.settle();
        Ok(())
    }

    fn consumer_message(&mut self, client: u32, bytes: &[u8]) -> Result<(), String> {
        let at = *self.clients.get(&client).ok_or("it is not connected")?;
        self.p2pss[at].client_message(self.now, ClientId(client), bytes);
        self.settle();
        Ok(())
    }

    fn happens(&mut self, deed: Deed<'_>) -> Result<(), String> {
        match deed {
            Deed::Time(nanoseconds) => self.pass(nanoseconds),
            Deed::Dies(number) => self.kill(number),
            Deed::Starts(number) => self.start(number),
            Deed::Backlog(client, bytes) => self.backlog(client, bytes),
            Deed::Blocks(what) => self.block(what)?,
            Deed::Unblocks(what) => self.unblock(what)?,
            Deed::Dismisses(client, why) => self.dismiss(client, why)?,
            Deed::Switches(service, session) => self.switch(service, session)?,
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Vec<Out>, String> {
        Ok(std::mem::take(&mut self.out))
    }
}

/// Where the provider of a session is.
fn address(session: u32) -> String {
    format!("provider{session}:14002")
}

fn flush(p2ps: &mut P2ps, block: &[u8], out: &mut Vec<Out>) {
    p2ps.flush(block, |client, deliveries| {
        for (body, stream) in deliveries {
            let mut bytes = body.to_vec();
            assert!(rwf::peek::set_stream_id(&mut bytes, stream), "a delivery is a message");
            out.push(Out::ToConsumer(client.0, bytes));
        }
    });
    out.extend(p2ps.closing().map(|(client, reason)| Out::ConsumerClosed(client.0, reason.to_string())));
    p2ps.flow_control();
    p2ps.notices();
}
