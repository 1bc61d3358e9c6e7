//! The table of what can be asked and done by HTTP. The router goes through it, and the `OpenAPI` document is written from it, so that
//! neither knows what the other does not.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::sync::{LazyLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use config::Role;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::answer::{Answer, Done, Fault};
use super::asked::{Asked, Parameter, decoded};
use super::endpoint::{Api, Endpoint};
use super::facts::{self, Blocked, Client, Event, Filter, Item, PAGE, Peer, Process, Provider, Service};
use super::item_detail::{self, ItemDetail};
use super::metrics;
use super::threads::Silent;
use super::{RRCPD, STAND, actions, delays, feeds, recording, replays, rights, scenarios, sharedmem};
use crate::agents::history::History;
use crate::agents::monitor::{PATIENCE, Thread};
use crate::agents::permissions::On;
use crate::agents::recording::Recording;

/// Callers and items of which is known that the audit has them.
const SHOWN_MAX: usize = 1_024;
/// Bytes of all images of one answer.
const IMAGES_MAX: usize = 2 << 20;

/// A list, and where it goes on.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Page<T> {
    /// The finding.
    found: Vec<T>,
    /// Where to go on (`after`), if there is more.
    next: Option<String>,
}

/// Whether a process is fit.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Fitness {
    /// The process is fit.
    ok: bool,
    /// The obstacle.
    why: Vec<String>,
}

const LIST: &[Parameter] = &[
    ("contains", "Only what has this in its texts, whatever the case."),
    ("limit", "So many at most: 1 to 1000 [default: 100]."),
    ("after", "Where to go on: next of the last answer."),
];
const ITEMS: &[Parameter] = &[
    LIST[0],
    LIST[1],
    LIST[2],
    ("service", "Only items of this service."),
    ("state", "Only items of this state, as open or suspect."),
];
const WHY: &[Parameter] = &[("why", "Goes to the log and to the peer.")];

const REPLAY: &[Parameter] = &[
    (
        "order",
        "pause, go, step, step 10, speed 2, speed max, seek 2026-11-27T14:30:00Z, skip 10, skip -10 (seconds), loop on, loop off, where.",
    ),
    ("why?", "Goes to the log."),
];
const TRACE: &[Parameter] = &[("seconds?", "For how long, 1 to 600 [default: 10]."), WHY[0]];
const SWITCH: &[Parameter] =
    &[("service", "Its name."), ("provider?", "Address of the provider, as /providers has it."), WHY[0]];
const ITEM: &[Parameter] = &[("service", "The item's service."), ("name", "Its name."), WHY[0]];

macro_rules! endpoint {
    ($method:literal $path:literal, $role:ident, $summary:literal, $query:expr, $body:expr, $answer:ty, $handle:expr) => {
        Endpoint {
            method: $method,
            path: $path,
            role: Role::$role,
            summary: $summary,
            query: $query,
            body: $body,
            answer: |generator| generator.subschema_for::<$answer>(),
            handle: |api, asked| Box::pin($handle(api, asked)),
        }
    };
}

/// Everything that can be asked and done.
pub(super) static ENDPOINTS: &[Endpoint] = &[
    endpoint!("GET" "/healthz", Anybody, "Whether every serving thread goes on", &[], &[], Fitness, health),
    endpoint!("GET" "/readyz", Anybody, "Whether clients get data here: the threads go on, and a service is up (at an rrcpd: a stream is carried)", &[], &[], Fitness, readiness),
    endpoint!("GET" "/metrics", Viewer, "All counters, as Prometheus reads them: its text format, or OpenMetrics for those that ask for it (Accept)", &[], &[], String, metrics_text),
    endpoint!("GET" "/api/v1/process", Viewer, "This process: addresses, threads, totals", &[], &[], Process, process),
    endpoint!("GET" "/api/v1/services", Viewer, "The services, and who serves them", &[], &[], Vec<Service>, services),
    endpoint!("GET" "/api/v1/providers", Viewer, "The providers: routes that are dialled, non-interactive ones that have come", &[], &[], Vec<Provider>, providers),
    endpoint!("GET" "/api/v1/hub", Viewer, "Those at the other end of the hub: P2PSs at a Source Distributor, Source Distributors at a P2PS, the streams that an rrcpd carries", &[], &[], Vec<Peer>, peers),
    endpoint!("GET" "/api/v1/clients", Viewer, "The clients", LIST, &[], Page<Client>, clients),
    endpoint!("GET" "/api/v1/items", Viewer, "The items that clients watch, with their states", ITEMS, &[], Page<Item>, items),
    endpoint!("GET" "/api/v1/items/{id}", Viewer, "An item, and who watches it", &[], &[], ItemDetail, item),
    endpoint!("GET" "/api/v1/items/{service}/{name}", Viewer, "An item by its name: state, watchers, source, what its watchers were told last, its image where it is cached", &[], &[], Vec<ItemDetail>, named_item),
    endpoint!("GET" "/api/v1/history/{service}/{name}", Viewer, "The prices of an item since it was asked for here first, for a chart: a bar a minute, and the last ones one by one. It is remembered from then on; of 500 items the one that was asked for longest ago makes room", &[], &[], History, history),
    endpoint!("GET" "/api/v1/blocked", Viewer, "The items that are blocked, and why", &[], &[], Vec<Blocked>, blocked),
    endpoint!("GET" "/api/v1/locked", Viewer, "The items that operators have locked, and why: they give their places at a provider to nobody", &[], &[], Vec<Blocked>, locked),
    endpoint!("GET" "/api/v1/permissions/users", Viewer, "Who is on, by user and position", &[], &[], Vec<On>, rights::users),
    endpoint!("GET" "/api/v1/permissions/explain", Viewer, "Why a user may, or may not, see an item", rights::EXPLAIN, &[], rights::Explained, rights::explain),
    endpoint!("GET" "/api/v1/permissions/who", Viewer, "Who may see a product (pe) or a subservice of a service", rights::WHO, &[], Vec<String>, rights::who),
    endpoint!("GET" "/api/v1/permissions/usage", Viewer, "How often items were opened today, by user, service and subservice", &[], &[], Vec<rights::Used>, rights::usage),
    endpoint!("GET" "/api/v1/recording", Viewer, "What this process records of itself, and how that goes", &[], &[], recording::Recorded, recording::recording),
    endpoint!("GET" "/api/v1/recording/profile", Viewer, "Rate and gaps of what this process records of itself, over its time; empty where there is nothing", &[], &[], replays::Profile, replays::recording_profile),
    endpoint!("GET" "/api/v1/replays", Viewer, "The recordings that this process plays ([replay.NAME]): where each is, how fast, who watches", &[], &[], Vec<replays::Replay>, replays::replays),
    endpoint!("GET" "/api/v1/replays/{name}/profile", Viewer, "Rate and gaps of what a replay plays, over its time", &[], &[], replays::Profile, replays::profile),
    endpoint!("GET" "/api/v1/feeds", Viewer, "The exchanges' feeds that this process takes in ([feed.NAME]): rate, gaps, repairs, which line was first and by how much, how late messages came", &[], &[], Vec<feeds::Feed>, feeds::feeds),
    endpoint!("GET" "/api/v1/delays", Viewer, "The services that this process publishes later ([delay.NAME]): items, messages, bytes of the journal, how old the oldest message is that is to be published", &[], &[], Vec<delays::Delay>, delays::delays),
    endpoint!("GET" "/api/v1/scenarios", Viewer, "The scenarios that a test stand (quoteway scenario serve) can play; none in other processes", &[], &[], Vec<scenarios::Scenario>, scenarios::scenarios),
    endpoint!("GET" "/api/v1/scenarios/run", Viewer, "How the test stand is, and the scenario that it plays or played last: steps, what was found, the last messages", &[], &[], scenarios::Standing, scenarios::run),
    endpoint!("GET" "/api/v1/events", Viewer, "The last lines of the log", &[("after", "Only those after this number.")], &[], Vec<Event>, events),
    endpoint!("GET" "/api/v1/openapi.json", Viewer, "This interface as an OpenAPI document", &[], &[], Value, openapi),
    endpoint!("GET" "/sharedmem/print/{what}", Viewer, "As RTDS tells it: process, services, mounts or users, each with its variables", &[], &[], Vec<sharedmem::Instance>, sharedmem::print),
    endpoint!("GET" "/sharedmem/classes", Viewer, "As RTDS tells it: the names of the classes", &[], &[], Vec<sharedmem::Class>, sharedmem::classes),
    endpoint!("GET" "/sharedmem/classes/{class}/instances", Viewer, "As RTDS tells it: the names of a class's instances", &[], &[], Vec<String>, sharedmem::names),
    endpoint!("GET" "/sharedmem/classes/{class}/instances/{instance}", Viewer, "As RTDS tells it: an instance, its variables, and the instances that belong to it", &[], &[], sharedmem::Instance, sharedmem::instance),
    endpoint!("POST" "/api/v1/clients/{id}/disconnect", Operator, "Close a client's connection", &[], WHY, Done, actions::disconnect),
    endpoint!("POST" "/api/v1/clients/{id}/trace", Operator, "Trace a client: all that it sends and gets", &[], TRACE, actions::Tracing, actions::trace_client),
    endpoint!("POST" "/api/v1/items/{id}/trace", Operator, "Trace an item: what the first of its watchers gets of it", &[], TRACE, actions::Tracing, actions::trace_item),
    endpoint!("POST" "/api/v1/traces/{id}/take", Operator, "End a trace, and give it", &[], &[], actions::Traced, actions::take_trace),
    endpoint!("POST" "/api/v1/providers/{id}/disconnect", Operator, "End the session with a provider: its items go to others, and a route is dialled again", &[], WHY, Done, actions::end_provider),
    endpoint!("POST" "/api/v1/switch", Operator, "Have the items of a service asked for at one of its providers until that one is gone; without provider, in the order of the routes again", &[], SWITCH, Done, actions::switch),
    endpoint!("POST" "/api/v1/drain", Operator, "Take no new clients; with clients=close, send those that are there elsewhere", &[], &[("why", "Goes to the log and to the clients."), ("clients?", "\"close\", or nothing.")], Done, actions::drain),
    endpoint!("POST" "/api/v1/undrain", Operator, "Take new clients again", &[], WHY, Done, actions::undrain),
    endpoint!("POST" "/api/v1/reload", Operator, "Read the configuration again; a fault in it changes nothing", &[], WHY, actions::Reread, actions::reload),
    endpoint!("POST" "/api/v1/block", Operator, "Have nobody get an item: its watchers are told, later requests refused", &[], ITEM, Done, actions::block),
    endpoint!("POST" "/api/v1/unblock", Operator, "Let an item be watched again", &[], ITEM, Done, actions::unblock),
    endpoint!("POST" "/api/v1/lock", Operator, "Have an item give its place at a provider to nobody (preemption)", &[], ITEM, Done, actions::lock),
    endpoint!("POST" "/api/v1/unlock", Operator, "Let an item give its place to another again", &[], ITEM, Done, actions::unlock),
    endpoint!("POST" "/api/v1/permissions/logout", Operator, "End all logins of a user", &[], rights::USER, Done, rights::logout),
    endpoint!("POST" "/api/v1/permissions/repermission", Operator, "Check again what a user, or everybody, has open", &[], rights::ANYBODY, Done, rights::repermission),
    endpoint!("POST" "/api/v1/recording/start", Operator, "Record, as the configuration says; into the same folder, behind a gap", &[], WHY, Done, recording::start),
    endpoint!("POST" "/api/v1/recording/stop", Operator, "End the recording, once all that was heard is written", &[], WHY, Done, recording::stop),
    endpoint!("POST" "/api/v1/scenarios/run", Operator, "Play a scenario on the test stand, in place of one that is under way", &[], scenarios::PLAY, Done, scenarios::play),
    endpoint!("POST" "/api/v1/scenarios/stop", Operator, "End the scenario that is under way", &[], &[], Done, scenarios::stop),
    endpoint!("POST" "/api/v1/replays/{name}", Operator, "Steer a replay; the answer comes when it is done", &[], REPLAY, Done, replays::order),
    endpoint!("POST" "/api/v1/log", Operator, "Change how much is logged, until the process ends", &[], &[("level", "error, warn, info, debug, trace, or by module as QUOTEWAY_LOG.")], Done, actions::log_level),
];

/// The endpoint of a request, and what stands in its path for `{...}`.
///
/// # Errors
/// There is none, it has other methods, or a part of the path is no text.
pub(super) fn find(method: &str, path: &str) -> Result<(&'static Endpoint, Vec<String>), Fault> {
    let mut others = Vec::new();
    for endpoint in ENDPOINTS {
        let (wanted, given) = (endpoint.path.split('/'), path.split('/'));
        if wanted.clone().count() != given.clone().count() {
            continue;
        }
        let mut places = Vec::new();
        let fits = wanted.zip(given).all(|(wanted, given)| {
            if wanted.starts_with('{') {
                places.push(decoded(given, false));
            }
            wanted == given || wanted.starts_with('{')
        });
        if fits && endpoint.method == method {
            let places = places.into_iter().collect::<Option<_>>();
            let places = places.ok_or_else(|| Fault::new(400, format!("the path cannot be read: {path}")))?;
            return Ok((endpoint, places));
        }
        if fits {
            others.push(endpoint.method);
        }
    }
    Err(if others.is_empty() {
        Fault::new(404, format!("there is no {path}; /api/v1/openapi.json says what there is"))
    } else {
        Fault::new(405, format!("{path} takes {}", others.join(", ")))
    })
}

async fn health(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let answers = api.threads.ask_all(|_| ()).await;
    let why: Vec<String> =
        answers.into_iter().filter_map(Result::err).map(|Silent(name)| format!("{name} does not answer")).collect();
    fitness(why)
}

fn fitness(why: Vec<String>) -> Result<Answer, Fault> {
    let status = if why.is_empty() { 200 } else { 503 };
    let fitness = Fitness { ok: why.is_empty(), why };
    Ok(Answer::Status(status, serde_json::to_value(fitness).map_err(|e| Fault::new(500, e.to_string()))?))
}

async fn readiness(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let mut why = Vec::new();
    let answers = api.threads.ask_all(|t| (facts::services(t, 0), facts::providers(t, 0))).await;
    let (mut known, mut missing) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok((services, providers)) => {
                known.extend(services);
                missing.extend(providers.into_iter().filter(|p| p.kind == "route" && p.state != "ready"));
            }
            Err(Silent(name)) => why.push(format!("{name} does not answer")),
        }
    }
    let services = facts::merge(known);
    if api.life.is_draining() {
        why.push("it is being drained".to_owned());
    }
    if api.about.role == STAND {
        why.extend(api.about.stand.as_ref().and_then(|stand| stand.standing().trouble));
    } else if api.about.role == RRCPD {
        let streams = api.threads.ask_all(|t| t.peers.len()).await;
        if streams.iter().flatten().all(|carried| *carried == 0) {
            why.push("no stream is carried".to_owned());
        }
    } else if !services.iter().any(|service| service.up) {
        why.push(if services.is_empty() { "no service is known" } else { "no service is up" }.to_owned());
        why.extend(missing.iter().map(|route| format!("provider {}: {}", route.address, route.state)));
    }
    fitness(why)
}

async fn metrics_text(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let answers = api.threads.ask_all(metrics::read).await;
    let silent = answers.iter().filter(|answer| answer.is_err()).count();
    let named = api.threads.names().map(str::to_owned).zip(answers);
    let readings = named.filter_map(|(name, answer)| answer.ok().map(|reading| metrics::Reading { name, ..reading }));
    let standing = api.life.recording().map(Recording::standing);
    let text = metrics::text(
        &readings.collect::<Vec<_>>(),
        silent,
        api.about.started,
        standing.as_ref(),
        (&api.about.feeds.all(), &api.about.delays.all()),
        &api.about.replays,
    );
    let (kind, text) = metrics::wanted(&asked.accept, text);
    Ok(Answer::Text(kind, text))
}

async fn process(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let answers = api.threads.ask_all(facts::totals).await;
    let mut totals = facts::Totals::default();
    let mut threads = Vec::new();
    let has_shards = answers.len() > 1 && api.about.rssl.is_some();
    for (n, (name, answer)) in api.threads.names().zip(answers).enumerate() {
        let (facts, counted) = answer.unwrap_or_else(|_| facts::silent_thread());
        threads.push(facts::ThreadFacts { name: name.to_owned(), ..facts });
        // Each shard reads every update; what came in is the first thread's to say.
        totals.add(&counted, has_shards && n > 0);
    }
    let about = &api.about;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let show = |address: Option<std::net::SocketAddr>| address.map(crate::addresses::show);
    Answer::of(&Process {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: about.role.to_owned(),
        host: net::host::name(),
        pid: std::process::id(),
        started: about.started,
        uptime_s: now.saturating_sub(about.started),
        addresses: facts::Addresses {
            rssl: show(about.rssl),
            encrypted: show(about.encrypted),
            websocket: show(about.websocket),
            nip: show(about.nip),
            hub: show(about.hub),
        },
        default_service: about.default_service.clone(),
        takes_websocket: about.takes_websocket,
        draining: api.life.is_draining(),
        threads,
        totals,
    })
}

async fn services(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let mut all = Vec::new();
    for number in 0..api.threads.names().count() {
        all.extend(api.threads.ask(number, move |thread| facts::services(thread, number)).await?);
    }
    Answer::of(&facts::merge(all))
}

async fn providers(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let mut all = Vec::new();
    for number in 0..api.threads.names().count() {
        all.extend(api.threads.ask(number, move |thread| facts::providers(thread, number)).await?);
    }
    Answer::of(&all)
}

async fn peers(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let mut all = Vec::new();
    for answer in api.threads.ask_all(facts::peers).await {
        all.extend(answer?);
    }
    Answer::of(&all)
}

/// A thread's part of a list, and the number to go on from.
type Part<T> = (Vec<T>, Option<u32>);

/// A list over all threads, from where the last answer ended.
async fn list<T: Serialize + Send + 'static>(
    api: &Api,
    asked: &Asked,
    of: fn(&mut Thread<'_>, usize, &Filter) -> Part<T>,
) -> Result<Answer, Fault> {
    let mut filter = asked.filter()?;
    let (mut found, mut next) = (Vec::new(), None);
    let limit = filter.limit;
    let first = filter.after.map_or(0, |(thread, _)| thread);
    'threads: for number in first..api.threads.names().count() {
        // A question looks at so much: where it has found too little, the next one goes on, behind what else the thread has to do.
        loop {
            if found.len() >= limit {
                next = Some(
                    filter.after.map_or_else(|| format!("{number}.0"), |(thread, from)| format!("{thread}.{from}")),
                );
                break 'threads;
            }
            filter.limit = limit - found.len();
            let question = filter.clone();
            let (more, rest) = api.threads.ask(number, move |thread| of(thread, number, &question)).await?;
            found.extend(more);
            filter.after = Some(rest.map_or((number + 1, 0), |rest| (number, rest)));
            if rest.is_none() {
                break;
            }
        }
    }
    Answer::of(&Page { found, next })
}

async fn clients(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    list(api, asked, facts::clients).await
}

async fn items(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    list(api, asked, facts::items).await
}

async fn item(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let (thread, number) = asked.id()?;
    let found = api.threads.ask(thread, move |t| item_detail::item(t, thread, number)).await?;
    let found = found.ok_or_else(|| Fault::new(404, "there is no such item any more"))?;
    Answer::of(&shown(api, asked, found.told()))
}

/// An item on its way to who asks: an image that goes out is in the audit.
fn shown(api: &Api, asked: &Asked, detail: ItemDetail) -> ItemDetail {
    let of = || format!("item {} of service {}", detail.item.name, detail.item.service);
    if detail.image.is_some() && is_news(&mut api.shown.lock().unwrap_or_else(PoisonError::into_inner), asked, of()) {
        actions::audit(asked, &format!("was shown the image of {}", of()));
    }
    detail
}

/// Whether somebody has not been shown an item for a minute.
fn is_news(shown: &mut HashMap<(String, String), Instant>, asked: &Asked, item: String) -> bool {
    let now = Instant::now();
    shown.retain(|_, since| now.duration_since(*since) < Duration::from_mins(1));
    // A connection more, of the same caller, is no other one.
    let caller = asked.caller.rsplit_once(':').map_or(asked.caller.as_str(), |(caller, _)| caller);
    let key = (caller.to_owned(), item);
    if shown.contains_key(&key) {
        return false;
    }
    // Of more items than that, each look is in the audit.
    if shown.len() < SHOWN_MAX {
        shown.insert(key, now);
    }
    true
}

async fn named_item(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let [service, name] = &asked.places[..] else { return Err(Fault::new(404, "the path is items/SERVICE/NAME")) };
    let mut found = Vec::new();
    for thread in 0..api.threads.names().count() {
        let mut from = Some(0);
        while let Some(begin) = from {
            let (service, name) = (service.clone(), name.clone());
            let question = move |t: &mut Thread<'_>| item_detail::items_named(t, thread, (&service, &name), begin);
            let (some, next) = api.threads.ask(thread, question).await?;
            found.extend(some);
            from = next.filter(|_| found.len() < PAGE);
        }
    }
    if found.is_empty() {
        return Err(Fault::new(404, format!("nobody watches {name} of service {service} here")));
    }
    let mut left = IMAGES_MAX;
    let bounded = found.into_iter().map(|found| match left.checked_sub(found.image_bytes()) {
        Some(rest) => {
            left = rest;
            found
        }
        None => found.without_image("the images of this name are too large for one answer"),
    });
    Answer::of(&bounded.map(|found| shown(api, asked, found.told())).collect::<Vec<_>>())
}

async fn history(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let [service, name] = &asked.places[..] else { return Err(Fault::new(404, "the path is history/SERVICE/NAME")) };
    let (answer, answered) = oneshot::channel();
    // A caller that has given up does not get the answer.
    let answer = Box::new(move |told| drop(answer.send(told)));
    api.histories.agent()?.ask(service, name, answer).map_err(|why| Fault::new(503, why))?;
    let told = timeout(PATIENCE, answered).await.ok().and_then(Result::ok);
    let told = told.ok_or_else(|| Fault::new(503, "the history of prices does not answer"))?;
    let told = told.map_err(|refused| Fault::new(if refused.is_denied { 403 } else { 404 }, refused.why))?;
    Answer::of(&told)
}

async fn blocked(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    named(api, facts::blocked).await
}

async fn locked(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    named(api, facts::locked).await
}

/// Items that operators have done something to, of all threads.
async fn named(api: &Api, of: fn(&mut Thread<'_>) -> Vec<Blocked>) -> Result<Answer, Fault> {
    let mut all = Vec::new();
    for answer in api.threads.ask_all(of).await {
        all.extend(answer?);
    }
    // Each thread with clients has the same.
    all.sort();
    all.dedup();
    Answer::of(&all)
}

fn events(_: &Api, asked: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(recent_events(asked))
}

fn recent_events(asked: &Asked) -> Result<Answer, Fault> {
    let after = asked.query("after").map_or(Ok(0), str::parse::<u64>);
    let after = after.map_err(|_| Fault::new(400, "after is the number of an event"))?;
    let events = crate::log::recent(after).into_iter().map(|line| Event {
        number: line.number,
        time_ms: line.time_ms,
        level: line.level.to_owned(),
        text: line.text,
    });
    Answer::of(&events.collect::<Vec<_>>())
}

/// The `OpenAPI` document of this interface.
pub fn document() -> Value {
    super::openapi::document(ENDPOINTS)
}

/// The document as text: it takes milliseconds to make, and is the same each time.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

fn openapi(_: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(Ok(Answer::Json(DOCUMENT.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_find_their_endpoint() {
        let found =
            |method, path| find(method, path).map(|(e, places)| (e.path, places)).map_err(|f| (f.status, f.why));
        assert_eq!(found("GET", "/api/v1/items"), Ok(("/api/v1/items", vec![])));
        assert_eq!(found("GET", "/api/v1/items/0.7"), Ok(("/api/v1/items/{id}", vec!["0.7".to_owned()])));
        let item = found("GET", "/api/v1/items/FEED/A%2FB%20%2B+c");
        assert_eq!(item, Ok(("/api/v1/items/{service}/{name}", vec!["FEED".to_owned(), "A/B ++c".to_owned()])));
        assert_eq!(found("GET", "/api/v1/drain"), Err((405, "/api/v1/drain takes POST".to_owned())));
        for (path, status) in [("/api/v2", 404), ("/api/v1/items/FEED/%", 400), ("/api/v1/items/FEED/%ff", 400)] {
            assert_eq!(found("GET", path).map_err(|(status, _)| status), Err(status), "{path}");
        }
    }

    #[test]
    fn only_operators_act_and_every_action_is_an_operators() {
        for endpoint in ENDPOINTS {
            assert_eq!(endpoint.method == "POST", endpoint.role == Role::Operator, "{}", endpoint.path);
        }
    }
}
