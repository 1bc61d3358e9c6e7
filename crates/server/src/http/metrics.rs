//! The counters as text, `OpenMetrics` or the older format of Prometheus, from readings of the one table ([`crate::counters`]), with what is known per service, provider and
//! class of client beside them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::delays::Delay;
use super::facts::{Provider, Service};
use super::families::{escaped, head};
use super::feeds::Feed;
use crate::agents::consumers::Protocol;
use crate::agents::monitor::Thread;
use crate::agents::recording::Standing;
use crate::agents::turn_latency::{BOUNDS_NS, TurnLatency};
use crate::counters::Samples;

/// The type of `OpenMetrics`, for `Content-Type`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the format that Prometheus has read since 2014, and that all others read as well.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text in the format that a caller would rather read, by its `Accept`, and the type of that. Who does not ask for `OpenMetrics` gets the
/// older one: `curl`, `promtool check metrics`, and agents that do not know the newer one.
pub(super) fn wanted(accept: &str, open_metrics: String) -> (&'static str, String) {
    let (mut open, mut classic) = (0, 0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut weight, mut is_known) = (Some(1_000), true);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match (name.trim().to_ascii_lowercase().as_str(), value.trim()) {
                ("q", value) => weight = thousandths(value),
                ("version", value) => is_known = matches!(value.trim_matches('"'), "1.0.0" | "0.0.1" | "0.0.4"),
                _ => {}
            }
        }
        let weight = weight.filter(|_| is_known).unwrap_or(0);
        match kind.as_str() {
            "application/openmetrics-text" => open = open.max(weight),
            "text/plain" => classic = classic.max(weight),
            _ => {}
        }
    }
    if open > 0 && open >= classic { (OPEN_METRICS, open_metrics) } else { (CLASSIC, older(&open_metrics)) }
}

/// A weight of `Accept` (RFC 9110, 12.4.2): from 0 to 1 with three digits at most.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
    let part = format!("{part:0<3}").parse::<u32>().ok().filter(|_| is_number)?;
    match whole {
        "0" => Some(part),
        "1" if part == 0 => Some(1_000),
        _ => None,
    }
}

/// The same in the older format: a counter's family is called as its sample, there is no type for what only informs, no unit and no end.
fn older(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let (mut ending, mut family) = ("", "");
    for line in open_metrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let (Some("#"), Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next(), words.next())
        else {
            let _ = writeln!(out, "{line}");
            continue;
        };
        if word == "TYPE" {
            family = name;
            ending = match rest {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
        }
        let ending = if family == name { ending } else { "" };
        let rest = if word == "TYPE" && rest == "info" { "gauge" } else { rest };
        let _ = writeln!(out, "# {word} {name}{ending} {rest}");
    }
    out
}

/// The metrics of one thread.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) name: String,
    pub(super) samples: Samples,
    pub(super) latency: TurnLatency,
    /// By protocol: from the receipt of messages until a client had them.
    pub(super) latencies: Vec<(&'static str, TurnLatency)>,
    /// By protocol: clients, their items, bytes that wait for them.
    pub(super) clients: BTreeMap<&'static str, [u64; 3]>,
    pub(super) services: Vec<Service>,
    pub(super) providers: Vec<Provider>,
}

/// Takes a reading of a thread.
pub(super) fn read(thread: &mut Thread<'_>) -> Reading {
    let mut clients: BTreeMap<&'static str, [u64; 3]> = BTreeMap::new();
    if let Some(consumers) = &thread.consumers {
        clients = Protocol::ALL.into_iter().map(|protocol| (protocol.name(), [0; 3])).collect();
        let items: BTreeMap<u32, u32> = consumers.p2ps.mounts().map(|m| (m.client.0, m.items)).collect();
        for connection in consumers.connections() {
            let of = clients.entry(connection.protocol.name()).or_default();
            of[0] += 1;
            of[1] += items.get(&connection.id.0).copied().map_or(0, u64::from);
            of[2] += consumers.p2ps.client_waiting(connection.id) as u64;
        }
    }
    Reading {
        name: String::new(),
        samples: thread.samples.clone(),
        latency: thread.latency,
        latencies: thread.consumers.as_ref().map_or_else(Vec::new, |consumers| {
            consumers.latencies().map(|(protocol, latency)| (protocol.name(), latency)).collect()
        }),
        clients,
        services: super::facts::services(thread, 0),
        providers: super::facts::providers(thread, 0),
    }
}

/// The whole text.
pub(super) fn text(
    readings: &[Reading],
    silent: usize,
    started: u64,
    recording: Option<&Standing>,
    (feeds, delays): (&[Feed], &[Delay]),
    replays: &super::Replays,
) -> String {
    let mut out = String::new();
    let mut samples = Samples::default();
    let many = readings.len() > 1;
    for reading in readings {
        let of_thread = reading.samples.clone();
        let label = ("thread", reading.name.clone());
        samples.extend_by_new(if many { of_thread.labelled(&label) } else { of_thread });
    }
    samples.open_metrics(&mut out);
    families(&mut out, readings);
    histograms(&mut out, readings);
    if let Some(standing) = recording {
        of_recording(&mut out, standing);
    }
    super::feeds::metrics(&mut out, feeds);
    super::delays::metrics(&mut out, delays);
    super::replays::metrics(&mut out, replays);
    head(&mut out, "quoteway_threads_silent", "gauge", "Serving threads that did not answer.");
    let _ = writeln!(out, "quoteway_threads_silent {silent}");
    head(&mut out, "quoteway_start_time_seconds", "gauge", "When the process was ready, Unix time.");
    let _ = writeln!(out, "quoteway_start_time_seconds {started}");
    head(&mut out, "quoteway_build", "info", "The version.");
    let _ = writeln!(out, "quoteway_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    out + "# EOF\n"
}

/// Figures per service, provider and class of client.
fn families(out: &mut String, readings: &[Reading]) {
    type Value = fn(&Service) -> u64;
    let services = super::facts::merge(readings.iter().flat_map(|reading| reading.services.iter().cloned()));
    let of_services: [(&str, &str, Value); 4] = [
        ("up", "1 where clients get data of the service.", |s| u64::from(s.up)),
        ("accepting", "1 where requests for the service are taken.", |s| u64::from(s.accepting)),
        ("items_waiting", "Items of the service that wait to be opened.", |s| s.waiting),
        ("items_suspect", "Items of the service whose watchers were told Suspect, and nothing good since.", |s| {
            s.suspect
        }),
    ];
    for (name, help, value) in of_services.into_iter().filter(|_| !services.is_empty()) {
        let family = format!("quoteway_service_{name}");
        head(out, &family, "gauge", help);
        for service in &services {
            let _ = writeln!(out, "{family}{{service=\"{}\"}} {}", escaped(&service.name), value(service));
        }
    }
    let offers = || services.iter().flat_map(|s| s.providers.iter().map(move |offer| (s, offer)));
    if offers().next().is_some() {
        head(out, "quoteway_provider_items", "gauge", "Items of a service that are open at a provider.");
        for (service, offer) in offers() {
            let (service, provider) = (escaped(&service.name), escaped(&offer.address));
            let labels = format!("{{service=\"{service}\",provider=\"{provider}\"}}");
            let _ = writeln!(out, "quoteway_provider_items{labels} {}", offer.open);
        }
    }
    // Two providers on one address are told apart by their numbers in the administration only.
    let mut providers: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for provider in readings.iter().flat_map(|reading| &reading.providers) {
        let ready = providers.entry((escaped(&provider.address), &provider.kind)).or_default();
        *ready = (*ready).max(u64::from(provider.state == "ready"));
    }
    if !providers.is_empty() {
        head(
            out,
            "quoteway_provider_ready",
            "gauge",
            "1 where the session with a provider is established and its directory has come.",
        );
        for ((provider, kind), ready) in &providers {
            let _ = writeln!(out, "quoteway_provider_ready{{provider=\"{provider}\",kind=\"{kind}\"}} {ready}");
        }
    }
    let of_clients = [
        ("quoteway_clients", "Clients connected, by what they speak."),
        ("quoteway_clients_items", "Items that clients watch, each client counted, by what they speak."),
        ("quoteway_clients_queued_bytes", "Bytes that wait for clients, by what they speak."),
    ];
    let mut clients: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for (protocol, counts) in readings.iter().flat_map(|reading| &reading.clients) {
        clients.entry(protocol).or_default().iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    for (n, (family, help)) in of_clients.into_iter().enumerate().filter(|_| !clients.is_empty()) {
        head(out, family, "gauge", help);
        for (protocol, counts) in &clients {
            let _ = writeln!(out, "{family}{{protocol=\"{protocol}\"}} {}", counts[n]);
        }
    }
}

/// How long messages are in each thread, and until clients of each class have them.
fn histograms(out: &mut String, readings: &[Reading]) {
    let family = "quoteway_turn_latency_seconds";
    head(
        out,
        family,
        "histogram",
        "From the receipt of messages until all that came of them was handed to the kernel, of every 32nd turn.",
    );
    for reading in readings {
        histogram(out, family, &format!("thread=\"{}\"", escaped(&reading.name)), &reading.latency);
    }
    let family = "quoteway_client_latency_seconds";
    if readings.iter().any(|reading| !reading.latencies.is_empty()) {
        head(
            out,
            family,
            "histogram",
            "From the receipt of messages until a client had what came of them, by what it speaks: one client each of every 32nd turn.",
        );
    }
    for reading in readings {
        for (protocol, latency) in &reading.latencies {
            let labels = format!("protocol=\"{protocol}\",thread=\"{}\"", escaped(&reading.name));
            histogram(out, family, &labels, latency);
        }
    }
}

fn histogram(out: &mut String, family: &str, labels: &str, latency: &TurnLatency) {
    let mut below = 0;
    for (count, bound) in latency.counts.iter().zip(BOUNDS_NS) {
        below += count;
        let _ = writeln!(out, "{family}_bucket{{{labels},le=\"{}\"}} {below}", bound as f64 / 1e9);
    }
    let all: u64 = latency.counts.iter().sum();
    let _ = writeln!(out, "{family}_bucket{{{labels},le=\"+Inf\"}} {all}");
    let _ = writeln!(out, "{family}_sum{{{labels}}} {}", latency.sum_ns as f64 / 1e9);
    let _ = writeln!(out, "{family}_count{{{labels}}} {all}");
}

/// The counters of a recording as `OpenMetrics`.
fn of_recording(out: &mut String, standing: &Standing) {
    let counts = standing.counts;
    for (name, help, value) in [
        ("records", "Records written.", counts.records),
        ("message_bytes", "Bytes of messages in them.", counts.message_bytes),
        ("file_bytes", "Bytes of files written.", counts.file_bytes),
        ("lost", "Messages lost: they came faster than they were written.", counts.lost),
        ("lost_bytes", "Their bytes.", counts.lost_bytes),
        ("gaps", "Gaps that were recorded.", counts.gaps),
        ("disk_failures", "Failures of the disk.", counts.disk_failures),
        ("disconnects", "Connections to the recorder that this server has closed.", counts.disconnects),
    ] {
        let family = format!("quoteway_record_{name}");
        head(out, &family, "counter", help);
        let _ = writeln!(out, "{family}_total {value}");
    }
    for (name, help, value) in [
        ("queue_bytes", "Bytes that wait to be written.", standing.waiting as u64),
        ("recording", "1 where it is recorded and the disk takes it.", u64::from(standing.state == "recording")),
    ] {
        let family = format!("quoteway_record_{name}");
        head(out, &family, "gauge", help);
        let _ = writeln!(out, "{family} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::recording::Counts;
    use crate::counters::Part;

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let text = "# TYPE a counter\n# UNIT a bytes\n# HELP a A thing.\na_total 1\n# TYPE b info\n# HELP b The b.\nb_info{v=\"1\"} 1\n# EOF\n";
        let kind = |accept: &str| wanted(accept, text.to_owned()).0;
        let of_prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1";
        for accept in
            ["application/openmetrics-text", "Application/OpenMetrics-Text; q=0.5, text/plain;q=0.5", of_prometheus]
        {
            assert_eq!(kind(accept), OPEN_METRICS, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "application/json",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.000",
            "application/openmetrics-text;q=high",
            "application/openmetrics-text;q=2",
            "application/openmetrics-text;q=-1",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=0.1,text/plain",
            "application/openmetrics-textual",
            ";;q=,",
        ] {
            assert_eq!(kind(accept), CLASSIC, "{accept}");
        }
        let older = wanted("text/plain", text.to_owned()).1;
        assert_eq!(
            older,
            "# TYPE a_total counter\n# HELP a_total A thing.\na_total 1\n# TYPE b_info gauge\n# HELP b_info The b.\nb_info{v=\"1\"} 1\n"
        );
    }

    #[test]
    fn every_family_stands_once_and_the_text_has_its_end() {
        let mut readings = Vec::new();
        for name in ["egress 0", "egress 1"] {
            let mut reading = Reading { name: name.to_owned(), ..Reading::default() };
            let rssl = [("rssl", "127.0.0.1:14002".to_owned())];
            reading.samples.add(Part::P2ps, &rssl, &hub::p2ps::Counters::default());
            reading.samples.add(Part::Log, &[], &crate::log::counters());
            reading.clients.insert("rssl", [1, 2, 3]);
            reading.latency.counts[3] = 4;
            reading.latencies.push(("tr_json2", reading.latency));
            reading.services.push(Service {
                path: Vec::new(),
                name: "A\"B".to_owned(),
                up: true,
                accepting: true,
                waiting: 1,
                suspect: 0,
                is_told: true,
                providers: Vec::new(),
            });
            readings.push(reading);
        }
        let standing = Standing {
            state: "recording",
            trouble: None,
            folder: "today".to_owned(),
            services: Vec::new(),
            counts: Counts::default(),
            waiting: 7,
        };
        let text = text(&readings, 0, 5, Some(&standing), (&[], &[]), &crate::http::Replays::default());
        assert!(text.ends_with("# EOF\n"));
        let mut families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let count = families.len();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), count);
        let mut samples: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|l| l.rsplit_once(' '))
            .map(|l| l.0)
            .collect();
        let count = samples.len();
        samples.sort_unstable();
        samples.dedup();
        assert_eq!(samples.len(), count, "{text}");
        for line in [
            "quoteway_clients{protocol=\"rssl\"} 2",
            "quoteway_service_items_waiting{service=\"A\\\"B\"} 2",
            "quoteway_turn_latency_seconds_bucket{thread=\"egress 1\",le=\"0.00005\"} 4",
            "quoteway_client_latency_seconds_count{protocol=\"tr_json2\",thread=\"egress 0\"} 4",
            "quoteway_p2ps_clients{rssl=\"127.0.0.1:14002\",thread=\"egress 1\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
