//! Questions to request ports of sources: for messages that are missing, and for the topics that we want.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, SocketAddrV4};

use lbm::subscriber::Subscriber;
use lbm::topic::TopicSink as _;
use lbm::transport::tcp::Deframer;
use lbm::wire::Writer;
use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::header::Header;
use lbm::wire::lbmc::{self, Messages};
use net::tcp::{ConnId, SendOutcome, SocketOptions};

use crate::events::Events;
use crate::io::{Io, Role};
use crate::streams::Deliver;

/// Questions of which the answer is awaited, a connection.
const ASKED_MAX: usize = 4_096;

/// Our questions to one source's request port about one session.
pub(super) struct Questions {
    pub(super) conn: ConnId,
    /// (our number of the question, topic).
    asked: VecDeque<(u32, u32)>,
    next: u32,
}

/// A question for a source's request port.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    LateJoin(lbm::wire::header::LateJoinRequest),
    Retransmit(lbm::wire::header::RetransmitRequest),
    Filter(FilterRequest),
}

/// Connections for questions, by session and request port.
pub(super) type Lines = HashMap<(usize, SocketAddrV4), Questions>;
/// Session, request port, topic, and the question itself.
pub(super) type Question = (usize, SocketAddrV4, u32, Asked);

/// The connection to a source's request port, made if there is none. `None`: the system gives none.
fn line_to<'a>(open: &'a mut Lines, session: usize, to: SocketAddrV4, io: &mut Io) -> Option<&'a mut Questions> {
    Some(match open.entry((session, to)) {
        std::collections::hash_map::Entry::Occupied(line) => line.into_mut(),
        std::collections::hash_map::Entry::Vacant(place) => {
            let conn = io.tcp.connect(SocketAddr::V4(to), &SocketOptions::default()).ok()?;
            io.set_role(conn, Role::Questions { session, deframer: Deframer::default() });
            place.insert(Questions { conn, asked: VecDeque::new(), next: 0 })
        }
    })
}

/// Sends questions, each by the connection of its session and port.
pub(super) fn send(open: &mut Lines, asked: Vec<Question>, io: &mut Io) {
    for (session, to, topic, question) in asked {
        let Some(line) = line_to(open, session, to, io) else { continue };
        let filter;
        // Numbers are the connection's, so that an answer finds its topic.
        line.next = line.next.wrapping_add(1);
        let header = match question {
            Asked::LateJoin(request) => {
                if line.asked.len() >= ASKED_MAX {
                    line.asked.pop_front();
                }
                line.asked.push_back((line.next, topic));
                Header::LateJoinRequest(lbm::wire::header::LateJoinRequest { request: line.next, ..request })
            }
            Asked::Filter(request) => {
                filter = request.body();
                FilterRequest::header(&filter)
            }
            Asked::Retransmit(request) => {
                Header::RetransmitRequest(lbm::wire::header::RetransmitRequest { request: line.next, ..request })
            }
        };
        let mut packet = [0; 64];
        let mut w = Writer::new(&mut packet);
        if lbmc::encode_control(&mut w, &[header]).is_ok() {
            io.tcp.send(line.conn, w.written());
        }
    }
}

/// Sends a control message to a source's request port. False: it cannot be reached.
pub(super) fn send_control(open: &mut Lines, session: usize, to: SocketAddrV4, message: &[u8], io: &mut Io) -> bool {
    let Some(line) = line_to(open, session, to, io) else { return false };
    io.tcp.send(line.conn, message) != SendOutcome::Gone
}

/// A source's answers: retained messages, what it retains, what it says to [`Context::ask`](crate::Context::ask). False if they cannot be
/// read.
pub(super) fn receive<E: Events>(
    now: u64,
    (session, line): (usize, &mut Questions),
    deframer: &mut Deframer,
    bytes: &[u8],
    subscriber: &mut Subscriber,
    deliver: &mut Deliver<'_, E>,
) -> bool {
    let transport = subscriber.transport(session);
    let read = deframer.receive(bytes, |messages| {
        for message in Messages::new(messages).flatten().filter(|m| m.kind == lbmc::Kind::Control) {
            for header in message.headers().flatten() {
                // The session may be one of which nothing was heard yet.
                if let (Header::TopicIndex { index, .. }, Some(transport)) = (header, &transport)
                    && let Some(number) = deliver.streams.find(transport, index)
                {
                    deliver.control(number, &message);
                }
                if let Header::LateJoinInfo(info) = header
                    && let Some(at) = line.asked.iter().position(|(number, _)| *number == info.request)
                    && let Some((_, topic)) = line.asked.remove(at)
                {
                    subscriber.late_join_info(now, session, topic, &info, deliver);
                }
            }
        }
        subscriber.fetched(now, session, messages, deliver);
    });
    read.is_ok()
}

/// What a source that filters says first: the only control message of interest here, and the first of its run.
pub(super) fn filter_init(messages: &[u8]) -> Option<FilterInit> {
    let message = Messages::new(messages).next()?.ok().filter(|m| m.kind == lbmc::Kind::Control)?;
    message.headers().flatten().find_map(|header| FilterInit::of(&header))
}
