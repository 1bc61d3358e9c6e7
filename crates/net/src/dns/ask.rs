//! Asking name servers: by UDP, by TCP where the answer is long, one server after the other.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::message::{self, Answer};
use super::{Fault, Servers, ServiceName, random};

/// The variable that names the servers to ask instead of the system's: `ADDRESS` or `ADDRESS:PORT`, with commas between.
pub const NAME_SERVERS: &str = "QUOTEWAY_NAME_SERVERS";
/// Where the system says which servers to ask.
const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;

/// Whom to ask, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// In the order in which they are asked.
    pub servers: Vec<SocketAddr>,
    /// Domains that a name is looked for in when it is not known as it is.
    pub search: Vec<String>,
    /// How long each is waited for.
    pub patience: Duration,
    /// How often all are asked.
    pub rounds: u32,
}

impl Resolver {
    /// A resolver that asks these servers: twice, five seconds each, as the system does by itself.
    pub fn at(servers: Vec<SocketAddr>) -> Self {
        Self { servers, search: Vec::new(), patience: Duration::from_secs(5), rounds: 2 }
    }

    /// The servers that [`NAME_SERVERS`] names, else those of `/etc/resolv.conf` with its domains, times and rounds; read anew at each
    /// call, since they change with the network that a machine is in.
    ///
    /// # Errors
    /// The variable or the file cannot be understood.
    pub fn of_system() -> Result<Self, Fault> {
        let config = match std::fs::read(RESOLV_CONF) {
            Ok(text) => text,
            // A name server on the machine itself, as the system assumes.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(Fault::NoNameServer(format!("{RESOLV_CONF}: {e}"))),
        };
        let config = Self::of_resolv_conf(&config);
        match std::env::var(NAME_SERVERS) {
            Ok(text) if !text.trim().is_empty() => Ok(Self { servers: listed(&text)?, ..config }),
            _ => Ok(config),
        }
    }

    /// What a `resolv.conf` says; lines that cannot be understood are passed over, as the system does.
    fn of_resolv_conf(text: &[u8]) -> Self {
        let (mut config, _) = resolv_conf::Config::parse_with_errors(text);
        config.glibc_normalize();
        let servers = config.get_nameservers_or_local();
        Self {
            servers: servers.iter().map(|server| SocketAddr::new(server.into(), PORT)).collect(),
            search: config.get_last_search_or_domain().map(|domain| domain.trim_matches('.').to_owned()).collect(),
            // The limits of resolv.conf(5).
            patience: Duration::from_secs(u64::from(config.timeout.clamp(1, 30))),
            rounds: config.attempts.clamp(1, 5),
        }
    }

    /// How long a look-up takes at most where nobody answers.
    pub fn longest(&self) -> Duration {
        self.patience * self.rounds * self.servers.len() as u32
    }

    /// Asks for the servers of a service: as its name is, then within the domains that are searched. Blocks.
    ///
    /// # Errors
    /// There are none, or nobody says which.
    pub fn look_up(&self, name: &ServiceName) -> Result<Servers, Fault> {
        let end = Instant::now() + self.longest();
        let within = self.search.iter().map(|domain| format!("{}.{domain}", name.as_str()));
        let mut fault = Fault::NoRecords;
        for name in std::iter::once(name.as_str().to_owned()).chain(within) {
            match self.ask_all(&name, end) {
                Err(Fault::NoRecords) => {}
                Err(why) if fault == Fault::NoRecords => fault = why,
                Err(_) => {}
                found => return found,
            }
        }
        Err(fault)
    }

    /// Asks one server after the other until one says what there is.
    fn ask_all(&self, name: &str, end: Instant) -> Result<Servers, Fault> {
        let mut fault = Fault::NoNameServer("none is known".to_owned());
        for _ in 0..self.rounds {
            for &server in &self.servers {
                let until = end.min(Instant::now() + self.patience);
                fault = match ask(server, name, until) {
                    Ok(Answer::Servers(servers)) => return Ok(servers),
                    Ok(Answer::NotOffered) => return Err(Fault::NotOffered),
                    Ok(Answer::NoRecords) => return Err(Fault::NoRecords),
                    Ok(Answer::Refused(why)) => Fault::NoAnswer { server, what: why.to_owned() },
                    Ok(Answer::Truncated) => Fault::NoAnswer { server, what: "its answer by TCP is cut short".into() },
                    Err(e) => Fault::NoAnswer { server, what: e.to_string() },
                };
            }
        }
        Err(fault)
    }
}

/// The servers of a list.
fn listed(text: &str) -> Result<Vec<SocketAddr>, Fault> {
    let server = |word: &str| {
        let address = word.parse().ok().or_else(|| word.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, PORT)));
        address.ok_or_else(|| Fault::NoNameServer(format!("{NAME_SERVERS}: {word:?} is no address")))
    };
    text.split(',').map(|word| server(word.trim())).collect()
}

/// Asks one server, by TCP if its answer does not fit a datagram.
fn ask(server: SocketAddr, name: &str, until: Instant) -> io::Result<Answer> {
    let id = random() as u16;
    let question = message::question(id, name).ok_or_else(|| io::Error::other(format!("{name} is too long a name")))?;
    match by_udp(server, &question, id, name, until)? {
        Answer::Truncated => by_tcp(server, &question, id, name, until),
        answer => Ok(answer),
    }
}

/// Time that is left, at least a little: a socket takes no time-out of zero.
fn left(until: Instant) -> io::Result<Duration> {
    until
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
        .ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "it does not answer"))
}

fn by_udp(server: SocketAddr, question: &[u8], id: u16, name: &str, until: Instant) -> io::Result<Answer> {
    // The system chooses the port, another one for each question: who forges an answer has to guess that and the number.
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // From others nothing comes then.
    socket.connect(server)?;
    socket.send(question)?;
    let mut bytes = [0; 4096];
    let mut garbage = false;
    loop {
        let what = if garbage { "what it answers cannot be understood" } else { "it does not answer" };
        let silent = |_| io::Error::new(io::ErrorKind::TimedOut, what);
        socket.set_read_timeout(Some(left(until).map_err(silent)?))?;
        match socket.recv(&mut bytes) {
            Ok(length) => match message::answer(&bytes[..length], id, name) {
                Some(answer) => return Ok(answer),
                None => garbage = true,
            },
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Err(silent(e)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn by_tcp(server: SocketAddr, question: &[u8], id: u16, name: &str, until: Instant) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, left(until)?)?;
    stream.set_write_timeout(Some(left(until)?))?;
    // RFC 1035, 4.2.2: the length of each message before it.
    let mut sent = (question.len() as u16).to_be_bytes().to_vec();
    sent.extend_from_slice(question);
    stream.write_all(&sent)?;
    let mut length = [0; 2];
    fill(&mut stream, &mut length, until)?;
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    fill(&mut stream, &mut bytes, until)?;
    message::answer(&bytes, id, name).ok_or_else(|| io::Error::other("what it answers by TCP cannot be understood"))
}

/// Reads as many bytes as there is room for; a server that sends them one by one gets no more time for that.
fn fill(stream: &mut TcpStream, mut room: &mut [u8], until: Instant) -> io::Result<()> {
    while !room.is_empty() {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(room) {
            Ok(0) => return Err(io::Error::other("it ends the connection before its answer is whole")),
            Ok(read) => room = &mut room[read..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer by TCP"));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::message::tests::{reply, srv};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    const NAME: &str = "_rssl._tcp.example.com";

    fn service() -> ServiceName {
        ServiceName::of("srv:_rssl._tcp.example.com").expect("a service").expect("a name")
    }

    /// A name server on a port of the system's, which gives `answers` of each question by UDP and `by_tcp` of it by TCP. It ends with
    /// the process. Tells the name of each question that comes by UDP.
    fn name_server(
        answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static,
        by_tcp: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
    ) -> (SocketAddr, Receiver<String>) {
        let (socket, listener) = loop {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            // Another program may have the port of this number for TCP.
            if let Ok(listener) = TcpListener::bind(socket.local_addr().expect("an address")) {
                break (socket, listener);
            }
        };
        let (asked, names) = channel();
        let address = socket.local_addr().expect("an address");
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut bytes) {
                let name =
                    simple_dns::Packet::parse(&bytes[..length]).expect("a question").questions[0].qname.to_string();
                let _ = asked.send(name);
                for answer in answers(&bytes[..length]) {
                    socket.send_to(&answer, client).expect("it is sent");
                }
            }
        });
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a length");
                let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut question).expect("a question");
                let _ = stream.write_all(&by_tcp(&question));
            }
        });
        (address, names)
    }

    fn good(question: &[u8]) -> Vec<u8> {
        reply(question, &[(NAME, 30, srv(1, 2, 14_002, "p2ps.example.com"))]).build_bytes_vec().expect("bytes")
    }

    fn with_code(question: &[u8], code: u8) -> Vec<u8> {
        let mut bytes = reply(question, &[]).build_bytes_vec().expect("bytes");
        bytes[3] = bytes[3] & 0xF0 | code;
        bytes
    }

    fn truncated(question: &[u8]) -> Vec<u8> {
        let mut bytes = reply(question, &[]).build_bytes_vec().expect("bytes");
        bytes[2] |= 2;
        bytes
    }

    fn with_length(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
    }

    fn is_good(found: &Result<Servers, Fault>) -> bool {
        found.as_ref().is_ok_and(|found| found.draw() == ["p2ps.example.com:14002"] && found.ttl.as_secs() == 30)
    }

    fn no_tcp(_: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    /// Asks with little patience: for servers that do not answer.
    fn hasty(servers: Vec<SocketAddr>) -> Resolver {
        Resolver { patience: Duration::from_millis(50), rounds: 1, ..Resolver::at(servers) }
    }

    #[test]
    fn an_answer_that_does_not_fit_is_fetched_by_tcp() {
        let (server, _) = name_server(|asked| vec![truncated(asked)], |asked| with_length(&good(asked)));
        assert!(is_good(&Resolver::at(vec![server]).look_up(&service())));
        // A hundred servers are 4 KB.
        let many = |asked: &[u8]| {
            let records: Vec<_> = (1..=100).map(|n| (NAME, 30, srv(n, 0, 1, "p2ps.example.com"))).collect();
            with_length(&reply(asked, &records).build_bytes_vec().expect("bytes"))
        };
        let (server, _) = name_server(|asked| vec![truncated(asked)], many);
        let found = Resolver::at(vec![server]).look_up(&service()).expect("servers");
        assert_eq!((found.list.len(), found.list[63].priority), (64, 64));
    }

    #[test]
    fn what_tcp_brings_may_be_bad_as_well() {
        for (bad, told) in [
            (no_tcp as fn(&[u8]) -> Vec<u8>, "ends the connection"),
            (|asked| with_length(&good(asked))[..20].to_vec(), "ends the connection"),
            (|_| with_length(b"nonsense"), "cannot be understood"),
            (|asked| with_length(&truncated(asked)), "cut short"),
        ] {
            let (server, _) = name_server(|asked| vec![truncated(asked)], bad);
            let fault = Resolver { rounds: 1, ..Resolver::at(vec![server]) }.look_up(&service()).expect_err("nothing");
            assert!(fault.to_string().contains(told), "{fault}: {told}");
        }
    }

    #[test]
    fn garbage_before_the_answer_is_passed_over() {
        let answers = |asked: &[u8]| {
            let mut other = good(asked);
            other[0] ^= 1;
            vec![b"nonsense".to_vec(), Vec::new(), asked.to_vec(), other, good(asked)[..30].to_vec(), good(asked)]
        };
        let (server, _) = name_server(answers, no_tcp);
        assert!(is_good(&Resolver::at(vec![server]).look_up(&service())));
    }

    #[test]
    fn nothing_or_garbage_alone_is_said_and_the_next_server_asked() {
        let (silent, _) = name_server(|_| Vec::new(), no_tcp);
        let (mad, _) = name_server(|_| vec![b"nonsense".to_vec()], no_tcp);
        let told = |server| hasty(vec![server]).look_up(&service()).expect_err("nothing").to_string();
        assert_eq!(told(silent), format!("name server {silent}: it does not answer"));
        assert_eq!(told(mad), format!("name server {mad}: what it answers cannot be understood"));
        let closed = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
        let (well, _) = name_server(|asked| vec![good(asked)], no_tcp);
        let resolver = Resolver { patience: Duration::from_millis(500), ..hasty(vec![silent, mad, closed, well]) };
        assert!(is_good(&resolver.look_up(&service())));
        assert_eq!(resolver.longest(), Duration::from_secs(2));
        assert!(matches!(hasty(Vec::new()).look_up(&service()), Err(Fault::NoNameServer(_))));
    }

    #[test]
    fn a_server_that_cannot_say_is_not_the_last_that_is_asked() {
        let (broken, _) = name_server(|asked| vec![with_code(asked, 2)], no_tcp);
        let told = hasty(vec![broken]).look_up(&service()).expect_err("nothing").to_string();
        assert!(told.contains("SERVFAIL"), "{told}");
        let (well, _) = name_server(|asked| vec![good(asked)], no_tcp);
        assert!(is_good(&Resolver::at(vec![broken, well]).look_up(&service())));
        // A server that fails once is asked again.
        let times = AtomicUsize::new(0);
        let once = move |asked: &[u8]| match times.fetch_add(1, Ordering::Relaxed) {
            0 => vec![with_code(asked, 2)],
            _ => vec![good(asked)],
        };
        let (server, _) = name_server(once, no_tcp);
        assert!(is_good(&Resolver::at(vec![server]).look_up(&service())));
    }

    #[test]
    fn a_name_is_looked_for_within_the_domains_of_the_system() {
        let (server, names) = name_server(|asked| vec![with_code(asked, 3)], no_tcp);
        let mut resolver = Resolver::at(vec![server]);
        resolver.search = vec!["a.example".to_owned(), "b.example".to_owned()];
        let name = ServiceName::of("srv:_rssl._tcp").expect("a service").expect("a name");
        assert_eq!(resolver.look_up(&name), Err(Fault::NoRecords));
        let asked: Vec<_> = names.try_iter().collect();
        assert_eq!(asked, ["_rssl._tcp", "_rssl._tcp.a.example", "_rssl._tcp.b.example"], "each once: nobody knows it");
    }

    #[test]
    fn whom_to_ask_is_said_by_the_system_or_by_a_list() {
        let text = b"# a comment\nsearch a.example b.example.\nnameserver 10.0.0.1\nnameserver fe80::1\n\
            options timeout:1 attempts:9\nnonsense here\n";
        let said = Resolver::of_resolv_conf(text);
        assert_eq!(said.servers, ["10.0.0.1:53", "[fe80::1]:53"].map(|s| s.parse().expect("an address")));
        assert_eq!(said.search, ["a.example", "b.example"]);
        assert_eq!((said.patience, said.rounds), (Duration::from_secs(1), 5));
        assert_eq!(Resolver::of_resolv_conf(b"").servers[0], "127.0.0.1:53".parse().expect("an address"));
        let two = ["10.0.0.1:53", "[::1]:5353"].map(|s| s.parse().expect("an address"));
        assert_eq!(listed("10.0.0.1, [::1]:5353").expect("addresses"), two);
        assert!(listed("10.0.0.1,nobody").expect_err("a name").to_string().contains("nobody"));
    }
}
