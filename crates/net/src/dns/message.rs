//! A question for SRV records and its answer (RFC 1035, RFC 2782), by `simple-dns`.

use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE, header_buffer};

use super::{SERVERS_MAX, Server, Servers};

/// Aliases (CNAME) that are followed within an answer.
const ALIASES_MAX: usize = 8;

/// What an answer comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Servers(Servers),
    /// The service is decidedly not there.
    NotOffered,
    /// The name is unknown, or has no SRV records.
    NoRecords,
    /// The answer did not fit a datagram: ask by TCP.
    Truncated,
    /// The server does not say, for this reason.
    Refused(&'static str),
}

/// The question for the SRV records of a name, with this number. `None` for a name that the DNS cannot carry.
pub(super) fn question(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(Question::new(Name::new(name).ok()?, TYPE::SRV.into(), CLASS::IN.into(), false));
    packet.build_bytes_vec().ok()
}

/// Reads what came back on a question; `None` if that is no answer to it, or none that can be read.
pub(super) fn answer(bytes: &[u8], id: u16, name: &str) -> Option<Answer> {
    // The shortest question has 5 bytes, the shortest record 11: a count beyond that is a lie, which must not reach an allocation.
    let questions = usize::from(header_buffer::questions(bytes).ok()?);
    let counts =
        [header_buffer::answers(bytes), header_buffer::name_servers(bytes), header_buffer::additional_records(bytes)];
    let records = counts.into_iter().try_fold(0, |sum, count| Some(sum + usize::from(count.ok()?)))?;
    if 12 + questions * 5 + records * 11 > bytes.len() {
        return None;
    }
    // A truncated answer may end within a record: nothing of it is read.
    let is_response = header_buffer::has_flags(bytes, PacketFlag::RESPONSE).ok()?;
    if header_buffer::id(bytes).ok()? != id || !is_response {
        return None;
    }
    if header_buffer::has_flags(bytes, PacketFlag::TRUNCATION).ok()? {
        return Some(Answer::Truncated);
    }
    let packet = Packet::parse(bytes).ok()?;
    let asked = Name::new(name).ok()?;
    let [question] = &packet.questions[..] else { return None };
    if !is_same(&question.qname, &asked) || question.qtype != TYPE::SRV.into() {
        return None;
    }
    Some(match packet.rcode() {
        RCODE::NoError => servers(&packet, &asked),
        RCODE::NameError => Answer::NoRecords,
        RCODE::ServerFailure => Answer::Refused("it cannot find out (SERVFAIL)"),
        RCODE::Refused => Answer::Refused("it refuses to say (REFUSED)"),
        RCODE::NotImplemented => Answer::Refused("it does not know such questions (NOTIMP)"),
        RCODE::FormatError => Answer::Refused("it does not understand the question (FORMERR)"),
        _ => Answer::Refused("it does not say"),
    })
}

/// The servers of a name, or of the name that the name is an alias of.
fn servers(packet: &Packet<'_>, asked: &Name<'_>) -> Answer {
    let (mut owner, mut ttl) = (asked, u32::MAX);
    for _ in 0..ALIASES_MAX {
        let alias = packet.answers.iter().find_map(|record| match &record.rdata {
            RData::CNAME(alias) if is_same(&record.name, owner) => Some((&alias.0, record.ttl)),
            _ => None,
        });
        let Some((alias, seconds)) = alias else { break };
        (owner, ttl) = (alias, ttl.min(seconds));
    }
    let (mut list, mut roots) = (Vec::new(), 0);
    for record in packet.answers.iter().filter(|record| is_same(&record.name, owner)) {
        let RData::SRV(srv) = &record.rdata else { continue };
        if srv.target.get_labels().is_empty() {
            roots += 1;
        } else if let Some(host) = host(&srv.target).filter(|_| srv.port != 0) {
            list.push(Server { priority: srv.priority, weight: srv.weight, host, port: srv.port });
            ttl = ttl.min(record.ttl);
        }
    }
    if list.is_empty() {
        return if roots > 0 { Answer::NotOffered } else { Answer::NoRecords };
    }
    list.sort_by_key(|server| server.priority);
    list.truncate(SERVERS_MAX);
    // RFC 2181, 8: a TTL with its highest bit set is none.
    let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
    Answer::Servers(Servers { list, ttl: Duration::from_secs(u64::from(ttl)) })
}

/// The text of a target; `None` for what no host is called.
fn host(target: &Name<'_>) -> Option<String> {
    let labels = target.as_bytes().map(|label| {
        let is_known = |c: &u8| c.is_ascii_alphanumeric() || *c == b'-' || *c == b'_';
        std::str::from_utf8(label).ok().filter(|label| label.bytes().all(|c| is_known(&c)))
    });
    Some(labels.collect::<Option<Vec<_>>>()?.join("."))
}

/// Names are the same in capitals and without.
fn is_same(one: &Name<'_>, other: &Name<'_>) -> bool {
    one.as_bytes().count() == other.as_bytes().count()
        && one.as_bytes().zip(other.as_bytes()).all(|(one, other)| one.eq_ignore_ascii_case(other))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use simple_dns::rdata::{CNAME, SRV};
    use simple_dns::{ResourceRecord, rdata};

    /// An answer to a question: records of (owner, TTL, what).
    pub(crate) fn reply<'a>(question: &'a [u8], records: &[(&'a str, u32, RData<'a>)]) -> Packet<'a> {
        let mut packet = Packet::parse(question).expect("a question").into_reply();
        for (owner, ttl, data) in records {
            packet.answers.push(ResourceRecord::new(Name::new_unchecked(owner), CLASS::IN, *ttl, data.clone()));
        }
        packet
    }

    pub(crate) fn srv(priority: u16, weight: u16, port: u16, target: &str) -> RData<'_> {
        RData::SRV(SRV { priority, weight, port, target: Name::new_unchecked(target) })
    }

    const NAME: &str = "_rssl._tcp.example.com";

    fn read(records: &[(&str, u32, RData<'_>)]) -> Option<Answer> {
        let asked = question(7, NAME).expect("a name");
        answer(&reply(&asked, records).build_bytes_vec_compressed().expect("bytes"), 7, NAME)
    }

    fn servers(list: &[(u16, u16, &str, u16)], ttl: u64) -> Answer {
        let server = |&(priority, weight, host, port): &(u16, u16, &str, u16)| Server {
            priority,
            weight,
            host: host.to_owned(),
            port,
        };
        let list = list.iter().map(server).collect();
        Answer::Servers(Servers { list, ttl: Duration::from_secs(ttl) })
    }

    #[test]
    fn records_are_read_by_priority_with_the_shortest_life() {
        let records = [
            (NAME, 300, srv(20, 1, 14_004, "b.example.com")),
            ("_RSSL._tcp.Example.com", 60, srv(10, 5, 14_005, "a.example.com")),
            ("_other._tcp.example.com", 5, srv(1, 1, 1, "other.example.com")),
            (NAME, 5, RData::A(rdata::A { address: 1 })),
        ];
        assert_eq!(
            read(&records),
            Some(servers(&[(10, 5, "a.example.com", 14_005), (20, 1, "b.example.com", 14_004)], 60))
        );
    }

    #[test]
    fn an_alias_is_followed_as_long_as_it_does_not_go_round() {
        let alias = |target| RData::CNAME(CNAME(Name::new_unchecked(target)));
        let there = "_rssl._tcp.elsewhere.net";
        assert_eq!(
            read(&[(NAME, 9, alias(there)), (there, 60, srv(0, 0, 2, "a.net"))]),
            Some(servers(&[(0, 0, "a.net", 2)], 9))
        );
        assert_eq!(read(&[(NAME, 9, alias(NAME)), (there, 60, srv(0, 0, 2, "a.net"))]), Some(Answer::NoRecords));
    }

    #[test]
    fn records_that_lead_nowhere_are_left_out() {
        assert_eq!(read(&[]), Some(Answer::NoRecords));
        assert_eq!(read(&[(NAME, 5, srv(0, 0, 0, "."))]), Some(Answer::NotOffered));
        let records = [
            (NAME, 5, srv(0, 0, 0, "no-port.example.com")),
            (NAME, 5, srv(0, 0, 1, "ill\nlog.example.com")),
            (NAME, u32::MAX, srv(0, 0, 1, "good.example.com")),
        ];
        assert_eq!(
            read(&records),
            Some(servers(&[(0, 0, "good.example.com", 1)], 0)),
            "and a TTL of 136 years is none"
        );
        let many: Vec<_> = (0..100).map(|n| (NAME, 5, srv(100 - n, 0, 1, "x.com"))).collect();
        let Some(Answer::Servers(found)) = read(&many) else { panic!("no servers") };
        assert_eq!((found.list.len(), found.list[0].priority), (SERVERS_MAX, 1), "the best ones are kept");
    }

    #[test]
    fn only_the_answer_to_the_question_counts() {
        let asked = question(7, NAME).expect("a name");
        let bytes = reply(&asked, &[(NAME, 5, srv(0, 0, 1, "a.com"))]).build_bytes_vec().expect("bytes");
        assert!(matches!(answer(&bytes, 7, NAME), Some(Answer::Servers(_))));
        assert_eq!(answer(&bytes, 8, NAME), None, "another number");
        assert_eq!(answer(&bytes, 7, "_x._tcp.example.com"), None, "another name");
        assert_eq!(answer(&asked, 7, NAME), None, "a question");
        for end in 0..bytes.len() {
            assert_eq!(answer(&bytes[..end], 7, NAME), None, "cut at {end}");
        }
        let mut truncated = bytes.clone();
        truncated[2] |= 2;
        assert_eq!(answer(&truncated, 7, NAME), Some(Answer::Truncated));
        for (code, what) in [(2, "SERVFAIL"), (5, "REFUSED"), (9, "does not say")] {
            let mut refused = bytes.clone();
            refused[3] = refused[3] & 0xF0 | code;
            let told = answer(&refused, 7, NAME);
            assert!(matches!(&told, Some(Answer::Refused(why)) if why.contains(what)), "{told:?}");
        }
        let mut forged = bytes[..12].to_vec();
        forged[6..12].fill(0xFF);
        assert_eq!(answer(&forged, 7, NAME), None, "196,605 records in 12 bytes");
    }

    proptest! {
        #[test]
        fn garbage_is_no_answer_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = answer(&bytes, 7, NAME);
        }

        #[test]
        fn a_spoilt_answer_is_no_panic(changes in proptest::collection::vec((0_usize..400, any::<u8>()), 1..12)) {
            let asked = question(7, NAME).expect("a name");
            let records = [
                (NAME, 5, srv(0, 0, 1, "a.example.com")),
                (NAME, 5, RData::CNAME(CNAME(Name::new_unchecked("b.example.com")))),
                (NAME, 5, srv(1, 0, 1, "c.example.com")),
            ];
            let mut bytes = reply(&asked, &records).build_bytes_vec_compressed().expect("bytes");
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            (bytes[0], bytes[1]) = (0, 7);
            let _ = answer(&bytes, 7, NAME);
        }
    }
}
