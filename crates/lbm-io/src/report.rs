//! Counters for other processes of the host (`quoteway lbmstat`): who connects to a context's Unix socket gets them as text.
//!
//! The socket has the abstract name `quoteway-lbm/PID/NUMBER` (seen in `/proc/net/unix`), so that nothing has to be removed and
//! each network namespace has its own. One line a thing: kind, name and counters, parted by tabs; the last line is `end`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::io::{Io, Watch};
use crate::stats::Stats;

/// How the names of the sockets begin.
pub const SOCKET_PREFIX: &str = "quoteway-lbm/";

/// Topics of a session that are listed: the report has to fit a socket's buffer, and making it stops the context.
const TOPICS_MAX: usize = 1_000;
/// Bytes of a report; what is longer is cut at a line.
const REPORT_MAX: usize = 150_000;
/// Reports a second; who asks more often is sent away.
const PER_SECOND: u32 = 20;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// The socket of a context.
pub(crate) struct Reporter {
    listener: UnixListener,
    /// The second that is counted, and reports in it.
    second: (u64, u32),
}

impl Reporter {
    /// Opens the socket. Nobody can look on if that fails, which is no reason not to work.
    pub(crate) fn open(io: &mut Io) -> Option<Self> {
        let name = format!("{SOCKET_PREFIX}{}/{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
        listener.set_nonblocking(true).ok()?;
        io.watch(listener.as_fd(), Watch::Statistics).ok()?;
        Some(Self { listener, second: (0, 0) })
    }

    /// Answers one of those who wait. Nothing blocks: what the reader's socket does not take is not sent.
    pub(crate) fn answer(&mut self, now: u64, report: impl FnOnce() -> String) {
        let Ok((mut stream, _)) = self.listener.accept() else { return };
        let second = now / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        if self.second.1 > PER_SECOND || stream.set_nonblocking(true).is_err() {
            return;
        }
        let _ = stream.write_all(report().as_bytes());
    }
}

/// The text of a report.
pub(crate) fn text(stats: &Stats, name: &str) -> String {
    let mut out = String::new();
    line(
        &mut out,
        "context",
        name,
        &[
            ("pid", u64::from(std::process::id())),
            ("dropped", stats.dropped),
            ("malformed", stats.malformed),
            ("receive_failures", stats.receive_failures),
            ("unwanted", stats.unwanted),
            ("unreachable", stats.unreachable),
            ("queries_sent", stats.resolver.queries),
            ("adverts_sent", stats.resolver.adverts),
            ("queries_received", stats.resolver.queries_received),
            ("adverts_received", stats.resolver.adverts_received),
            ("sources_found", stats.resolver.found),
            ("services", stats.services_registered as u64),
            ("services_known", stats.services.known as u64),
            ("services_broken", stats.services.broken),
        ],
    );
    for s in &stats.sending {
        let sent = &s.sent;
        line(
            &mut out,
            "sending",
            &s.transport.to_string(),
            &[
                ("datagrams", sent.datagrams),
                ("bytes", sent.bytes),
                ("retransmissions", sent.retransmissions),
                ("retransmitted_bytes", sent.retransmitted_bytes),
                ("nak_packets", sent.nak_packets),
                ("naks", sent.naks),
                ("naks_ignored", sent.naks_ignored),
                ("naks_outside_window", sent.naks_outside_window),
                ("naks_over_budget", sent.naks_over_budget),
                ("naks_delayed", sent.naks_delayed),
                ("naks_shed", sent.naks_shed),
                ("ncfs", sent.ncfs),
                ("session_messages", sent.session_messages),
                ("would_block", sent.would_block),
                ("topics", s.topics.len() as u64),
            ],
        );
        for t in s.topics.iter().take(TOPICS_MAX) {
            let counters = [("messages", t.stats.numbered), ("retained", t.stats.retained as u64)];
            line(&mut out, "source", &t.topic, &counters);
        }
    }
    for r in &stats.receiving {
        let got = &r.received;
        line(
            &mut out,
            "receiving",
            &r.transport.to_string(),
            &[
                ("datagrams", got.datagrams.max(r.session.datagrams)),
                ("early", got.early),
                ("duplicates", got.duplicates),
                ("missed", got.missed),
                ("repaired", got.repaired),
                ("nak_packets", got.nak_packets),
                ("naks", got.naks),
                ("ncfs", got.ncfs),
                ("lost_timeout", got.lost_timeout),
                ("lost_window", got.lost_window),
                ("lost_burst", got.lost_burst),
                ("implausible", got.implausible),
                ("malformed", r.session.malformed),
                ("lost_messages", r.session.lost),
                ("session_messages", got.session_messages),
                ("topics", r.topics.len() as u64),
            ],
        );
        for t in r.topics.iter().take(TOPICS_MAX) {
            line(&mut out, "receiver", &t.topic, &[("messages", t.messages), ("lost", t.lost)]);
        }
    }
    for f in stats.failover.iter().take(TOPICS_MAX) {
        let s = &f.stats;
        line(
            &mut out,
            "failover",
            &f.topic,
            &[
                ("sources", f.sources as u64),
                ("messages", s.delivered),
                ("duplicates", s.duplicates),
                ("compared", s.compared),
                ("differing", s.differing),
                ("lost", s.lost),
                ("left_out", s.left_out),
                ("optional", s.optional),
                ("pass_through", s.pass_through),
                ("outdated", s.outdated),
                ("malformed", s.malformed),
                ("too_far", s.too_far),
            ],
        );
    }
    if out.len() > REPORT_MAX {
        out.truncate(out[..=REPORT_MAX.min(out.len() - 1)].rfind('\n').map_or(0, |at| at + 1));
        out.push_str("cut\t\n");
    }
    out.push_str("end\n");
    out
}

fn line(out: &mut String, kind: &str, name: &str, counters: &[(&str, u64)]) {
    out.push_str(kind);
    out.push('\t');
    out.extend(name.chars().map(|c| if net::plain::is_unprintable(c) { '?' } else { c }));
    for (name, value) in counters {
        let _ = write!(out, "\t{name}={value}");
    }
    out.push('\n');
}
