//! Statistics in the shape in which RTDS's REST interface has them, for the scripts and plug-ins that read that one: `/sharedmem/print/...` and
//! `/sharedmem/classes/...`.
//!
//! Public of it are the paths, the names of six classes, the members of an answer (`Class`, `Instance`, `State`, `Variables`, `Children`)
//! and the types of variables; names of variables are not, and are this project's ([`Variable::name`] in the style of the classes). A script
//! finds its way by class and instance, and has its list of variables changed.
//!
//! | class | an instance is |
//! |---|---|
//! | `Process` | this process |
//! | `GlobalUser` | a user who is logged in, whatever the number of connections |
//! | `Consumer.SinkDist` | a mount: a client that is logged in |
//! | `ConsumerService.SinkDist` | a service |
//! | `ConsumerDataStream` | an item, `SERVICE:NAME` |
//! | `RIPCClient` | a connection that speaks RSSL |
//! | `WSOCKClient` | a connection that speaks WebSocket |

use std::collections::BTreeMap;
use std::future::{Ready, ready};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::answer::{Answer, Fault};
use super::asked::Asked;
use super::endpoint::Api;
use super::facts::{self, Client, Filter, Item, PAGE, Service, Totals};
use super::item_detail;
use crate::agents::monitor::Thread;

/// Instances of one answer, at most: some megabytes of text. `/api/v1` tells of more, by pages.
const INSTANCES_MAX: usize = 10_000;

/// How a variable changes, as RTDS has its types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
enum Kind {
    String,
    Numeric,
    /// Only grows, until the process ends.
    Counter,
    Gauge,
    #[serde(rename = "Boolean Config")]
    Boolean,
}

/// One fact of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
struct Variable {
    /// In lower camel case, the unit behind it where there is one.
    name: &'static str,
    /// How it changes.
    r#type: Kind,
    /// A number, a text, or a truth value.
    value: Value,
}

/// A class's instance that belongs to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
struct Child {
    /// The class's name.
    class: Class,
    /// The instance's name.
    instance: String,
}

/// An instance of a class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Instance {
    /// The class's name.
    class: Class,
    /// The instance's name, which is a place in a path.
    #[serde(rename = "Instance")]
    name: String,
    /// How it stands: `Up`, `Down`, `Draining`; of an item its state.
    state: String,
    /// The facts of it.
    variables: Vec<Variable>,
    /// What belongs to it.
    children: Vec<Child>,
}

/// The classes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) enum Class {
    Process,
    GlobalUser,
    #[serde(rename = "Consumer.SinkDist")]
    Mount,
    #[serde(rename = "ConsumerService.SinkDist")]
    Service,
    ConsumerDataStream,
    #[serde(rename = "RIPCClient")]
    Rssl,
    #[serde(rename = "WSOCKClient")]
    WebSocket,
}

impl Class {
    const ALL: [Self; 7] = [
        Self::Process,
        Self::GlobalUser,
        Self::Mount,
        Self::Service,
        Self::ConsumerDataStream,
        Self::Rssl,
        Self::WebSocket,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Process => "Process",
            Self::GlobalUser => "GlobalUser",
            Self::Mount => "Consumer.SinkDist",
            Self::Service => "ConsumerService.SinkDist",
            Self::ConsumerDataStream => "ConsumerDataStream",
            Self::Rssl => "RIPCClient",
            Self::WebSocket => "WSOCKClient",
        }
    }

    fn named(text: &str) -> Result<Self, Fault> {
        Self::ALL.into_iter().find(|class| class.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Fault::new(404, format!("there is no class {text:?}: there are {names}"))
        })
    }
}

fn variable(name: &'static str, r#type: Kind, value: impl Into<Value>) -> Variable {
    Variable { name, r#type, value: value.into() }
}

fn text(name: &'static str, value: &str) -> Variable {
    variable(name, Kind::String, value)
}

fn gauge(name: &'static str, value: u64) -> Variable {
    variable(name, Kind::Gauge, value)
}

fn counter(name: &'static str, value: u64) -> Variable {
    variable(name, Kind::Counter, value)
}

fn truth(name: &'static str, value: bool) -> Variable {
    variable(name, Kind::Boolean, value)
}

fn up(is_up: bool) -> String {
    if is_up { "Up" } else { "Down" }.to_owned()
}

/// The members of `/sharedmem/print/{what}`.
pub(super) async fn print(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let what = asked.places.first().map_or("", String::as_str);
    let class = match what {
        "process" => Class::Process,
        "services" => Class::Service,
        "mounts" => Class::Mount,
        "users" => Class::GlobalUser,
        _ => return Err(Fault::new(404, format!("there is no {what:?} to print: process, services, mounts, users"))),
    };
    Answer::of(&instances(api, class).await?)
}

/// The names of the classes.
pub(super) fn classes(_: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(Answer::of(&Class::ALL))
}

/// The names of a class's instances.
pub(super) async fn names(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let class = Class::named(asked.places.first().map_or("", String::as_str))?;
    let all = instances(api, class).await?;
    Answer::of(&all.into_iter().map(|instance| instance.name).collect::<Vec<_>>())
}

/// One instance.
pub(super) async fn instance(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let [class, name] = &asked.places[..] else {
        return Err(Fault::new(404, "the path is sharedmem/classes/CLASS/instances/INSTANCE"));
    };
    let class = Class::named(class)?;
    let found = match class {
        Class::ConsumerDataStream => named_item(api, name).await?,
        _ => instances(api, class).await?.into_iter().find(|instance| instance.name == *name),
    };
    Answer::of(&found.ok_or_else(|| Fault::new(404, format!("class {} has no instance {name:?}", class.name())))?)
}

async fn instances(api: &Api, class: Class) -> Result<Vec<Instance>, Fault> {
    Ok(match class {
        Class::Process => vec![process(api).await?],
        Class::Service => services(api).await?.into_iter().map(of_service).collect(),
        Class::GlobalUser => users(clients(api).await?),
        Class::Mount => clients(api).await?.iter().filter(|client| is_mount(client)).map(mount).collect(),
        Class::Rssl | Class::WebSocket => {
            clients(api).await?.iter().filter(|client| connection_class(client) == class).map(connection).collect()
        }
        Class::ConsumerDataStream => pages(api, facts::items).await?.into_iter().map(of_item).collect(),
    })
}

type Part<T> = (Vec<T>, Option<u32>);

/// All of a list, over all threads.
async fn pages<T: Send + 'static>(
    api: &Api,
    of: fn(&mut Thread<'_>, usize, &Filter) -> Part<T>,
) -> Result<Vec<T>, Fault> {
    let mut all = Vec::new();
    for number in 0..api.threads.names().count() {
        let mut from = Some(0);
        while let Some(begin) = from {
            let filter = Filter { limit: PAGE, after: Some((number, begin)), ..Filter::default() };
            let (some, next) = api.threads.ask(number, move |thread| of(thread, number, &filter)).await?;
            all.extend(some);
            from = next;
            if all.len() > INSTANCES_MAX {
                let why = format!("there are more than {INSTANCES_MAX} instances: /api/v1 tells of them by pages");
                return Err(Fault::new(413, why));
            }
        }
    }
    Ok(all)
}

async fn clients(api: &Api) -> Result<Vec<Client>, Fault> {
    pages(api, facts::clients).await
}

async fn services(api: &Api) -> Result<Vec<Service>, Fault> {
    let mut all = Vec::new();
    for number in 0..api.threads.names().count() {
        all.extend(api.threads.ask(number, move |thread| facts::services(thread, number)).await?);
    }
    Ok(facts::merge(all))
}

/// The longer of two times, of which either may not be known.
fn slower(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

async fn process(api: &Api) -> Result<Instance, Fault> {
    let answers = api.threads.ask_all(facts::totals).await;
    let is_up = answers.iter().all(Result::is_ok);
    let has_shards = answers.len() > 1 && api.about.rssl.is_some();
    let (mut totals, mut received, mut sent) = (Totals::default(), 0, 0);
    let (mut sampled, mut median, mut tail) = (0, None, None);
    for (n, answer) in answers.into_iter().enumerate() {
        let (thread, counted) = answer.unwrap_or_else(|_| facts::silent_thread());
        totals.add(&counted, has_shards && n > 0);
        received += thread.bytes_received;
        sent += thread.bytes_sent;
        sampled += thread.sampled_turns;
        // Of several threads the slowest.
        median = slower(median, thread.latency_p50_us);
        tail = slower(tail, thread.latency_p99_us);
    }
    let about = &api.about;
    let services = services(api).await?;
    Ok(Instance {
        class: Class::Process,
        name: format!("{}.{}", net::host::name(), std::process::id()),
        state: if api.life.is_draining() { "Draining".to_owned() } else { up(is_up) },
        variables: vec![
            text("version", env!("CARGO_PKG_VERSION")),
            text("component", about.role),
            variable("startTime", Kind::Numeric, about.started),
            gauge("clients", totals.clients),
            gauge("mounts", totals.mounts),
            gauge("openItems", totals.items),
            gauge("watchers", totals.watchers),
            gauge("pendingItems", totals.items_waiting),
            gauge("sourceItems", totals.source_items),
            gauge("clientsBehind", totals.clients_behind),
            gauge("mountsBurdened", totals.mounts_burdened),
            gauge("usersBurdened", totals.users_burdened),
            counter("updatesReceived", totals.updates_in),
            counter("updatesSent", totals.updates_out),
            counter("messagesSent", totals.messages_out),
            counter("mountsDisconnected", totals.clients_cut_off),
            counter("requestsRejected", totals.requests_refused),
            counter("bytesReceived", received),
            counter("bytesSent", sent),
            counter("latencySamples", sampled),
            variable("latencyMedianMicroseconds", Kind::Gauge, median),
            variable("latency99thPercentileMicroseconds", Kind::Gauge, tail),
        ],
        children: services.into_iter().map(|service| Child { class: Class::Service, instance: service.name }).collect(),
    })
}

fn of_service(service: Service) -> Instance {
    let sum = |of: fn(&facts::Offer) -> u64| service.providers.iter().map(of).sum();
    Instance {
        class: Class::Service,
        state: up(service.up),
        variables: vec![
            truth("acceptingRequests", service.accepting),
            gauge("pendingItems", service.waiting),
            gauge("staleItems", service.suspect),
            gauge("providers", service.providers.len() as u64),
            gauge("providersUp", service.providers.iter().filter(|offer| offer.up).count() as u64),
            gauge("openItems", sum(|offer| offer.open)),
            gauge("outstandingRequests", sum(|offer| offer.outstanding)),
        ],
        children: Vec::new(),
        name: service.name,
    }
}

fn is_mount(client: &Client) -> bool {
    !client.user.is_empty()
}

fn connection_class(client: &Client) -> Class {
    if matches!(client.protocol.as_str(), "rssl" | "rssl.http") { Class::Rssl } else { Class::WebSocket }
}

fn connection_of(client: &Client) -> Child {
    Child { class: connection_class(client), instance: client.id.clone() }
}

fn mount(client: &Client) -> Instance {
    Instance {
        class: Class::Mount,
        name: client.id.clone(),
        state: up(true),
        variables: vec![
            text("userName", &client.user),
            text("position", &client.position),
            text("applicationId", &client.application_id),
            text("applicationName", &client.application),
            text("hostAndPort", &client.address),
            gauge("openItems", client.items),
            gauge("outputBufferBytes", client.queued_bytes),
            truth("requestsHeldBack", client.held_back),
            variable("loginRoundTripMicroseconds", Kind::Numeric, client.login_round_trip_us),
            counter("latencySamples", client.latency.map_or(0, |latency| latency.samples)),
            variable("latencyMedianMicroseconds", Kind::Gauge, client.latency.map(|latency| latency.median_us)),
            variable("latency99thPercentileMicroseconds", Kind::Gauge, client.latency.map(|latency| latency.p99_us)),
        ],
        children: vec![connection_of(client)],
    }
}

fn connection(client: &Client) -> Instance {
    let traffic = client.traffic;
    Instance {
        class: connection_class(client),
        name: client.id.clone(),
        state: up(true),
        variables: vec![
            text("hostAndPort", &client.address),
            text("protocol", &client.protocol),
            text("program", &client.program),
            variable("connectedSeconds", Kind::Numeric, client.connected_s),
            variable("bytesReceived", Kind::Counter, traffic.map(|traffic| traffic.received_bytes)),
            variable("bytesSent", Kind::Counter, traffic.map(|traffic| traffic.sent_bytes)),
            variable("roundTripMicroseconds", Kind::Numeric, traffic.map(|traffic| traffic.round_trip_us)),
            gauge("outputBufferBytes", client.queued_bytes),
        ],
        children: Vec::new(),
    }
}

/// Users of the clients that are logged in, by name.
fn users(clients: Vec<Client>) -> Vec<Instance> {
    let mut by_name: BTreeMap<String, Vec<Client>> = BTreeMap::new();
    for client in clients.into_iter().filter(is_mount) {
        by_name.entry(client.user.clone()).or_default().push(client);
    }
    let user = |(name, mounts): (String, Vec<Client>)| Instance {
        class: Class::GlobalUser,
        name,
        state: up(true),
        variables: vec![
            gauge("mounts", mounts.len() as u64),
            gauge("openItems", mounts.iter().map(|mount| mount.items).sum()),
            gauge("outputBufferBytes", mounts.iter().map(|mount| mount.queued_bytes).sum()),
        ],
        children: mounts.into_iter().map(|mount| Child { class: Class::Mount, instance: mount.id }).collect(),
    };
    by_name.into_iter().map(user).collect()
}

fn of_item(item: Item) -> Instance {
    Instance {
        class: Class::ConsumerDataStream,
        name: format!("{}:{}", item.service, item.name),
        state: item.state,
        variables: vec![
            variable("domain", Kind::Numeric, item.domain),
            truth("stale", item.suspect),
            gauge("watchers", item.watchers),
            gauge("watchersHeld", item.held_watchers),
            truth("private", item.private),
        ],
        children: Vec::new(),
    }
}

/// The first item of this name; its watchers are its children.
async fn named_item(api: &Api, name: &str) -> Result<Option<Instance>, Fault> {
    let Some((service, item)) = name.split_once(':') else {
        return Err(Fault::new(404, format!("{name:?} is no item: its instance is SERVICE:NAME")));
    };
    for number in 0..api.threads.names().count() {
        let mut from = Some(0);
        while let Some(begin) = from {
            let (service, item) = (service.to_owned(), item.to_owned());
            let question =
                move |thread: &mut Thread<'_>| item_detail::items_named(thread, number, (&service, &item), begin);
            let (found, next) = api.threads.ask(number, question).await?;
            if let Some(found) = found.into_iter().next() {
                let (item, watchers) = found.item_and_watchers();
                let child = |client: String| Child { class: Class::Mount, instance: client };
                return Ok(Some(Instance { children: watchers.into_iter().map(child).collect(), ..of_item(item) }));
            }
            from = next;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_are_found_by_the_name_that_is_told() {
        for class in Class::ALL {
            assert_eq!(Class::named(class.name()), Ok(class));
            assert_eq!(serde_json::to_value(class).expect("text"), json!(class.name()));
        }
        let fault = Class::named("Consumer").expect_err("no class");
        assert!(fault.status == 404 && fault.why.contains("Consumer.SinkDist"), "{fault:?}");
    }

    #[test]
    fn an_instance_has_the_members_that_rtds_has() {
        let item = Item {
            id: "0.1".to_owned(),
            service: "FEED".to_owned(),
            name: "A:B".to_owned(),
            domain: 6,
            state: "open".to_owned(),
            suspect: false,
            watchers: 2,
            held_watchers: 0,
            private: false,
        };
        let told = serde_json::to_value(of_item(item)).expect("JSON");
        assert_eq!(told["Class"], "ConsumerDataStream");
        assert_eq!(
            (&told["Instance"], &told["State"], &told["Children"]),
            (&json!("FEED:A:B"), &json!("open"), &json!([]))
        );
        assert_eq!(told["Variables"][2], json!({"Name": "watchers", "Type": "Gauge", "Value": 2}));
        assert_eq!(told["Variables"][1], json!({"Name": "stale", "Type": "Boolean Config", "Value": false}));
    }
}
