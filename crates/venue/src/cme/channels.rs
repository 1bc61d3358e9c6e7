//! Channels and where each is sent, as the exchange's own configuration file has it (`config.xml`), which is no part of this project.

use std::net::{Ipv4Addr, SocketAddrV4};

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// Why a configuration file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelsError {
    /// The text is no XML.
    #[error("not XML: {0}")]
    Xml(String),
    /// No channel in it.
    #[error("no channel in it: it is the exchange's config.xml that is wanted")]
    Empty,
    /// An address of a connection is none.
    #[error("connection {connection}: {element} is {text:?}, which is none")]
    Address {
        /// Its identifier.
        connection: String,
        /// What is wrong of it.
        element: &'static str,
        /// What is there.
        text: String,
    },
}

/// What is sent by a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeedType {
    /// Books, trades and states, as they happen (I).
    Incremental,
    /// Definitions of instruments, again and again (N).
    Definitions,
    /// Snapshots by price, again and again (S).
    Snapshot,
    /// Snapshots by order, again and again (SMBO).
    OrderSnapshot,
    /// Anything else: the server that repeats packets (H), and what is not known here.
    Other,
}

/// A connection of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The exchange's identifier: `310IA`.
    pub id: String,
    /// What comes by it.
    pub feed_type: FeedType,
    /// Its line: A is 0, B is 1.
    pub line: u8,
    /// The group; `None`: it is no multicast.
    pub group: Option<SocketAddrV4>,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its number: `310`.
    pub id: String,
    /// Its name for people.
    pub label: String,
    /// In the order of the file.
    pub connections: Vec<Connection>,
}

/// Text of the elements of a connection, as they come.
#[derive(Default)]
struct Texts {
    id: String,
    feed_type: String,
    ip: String,
    port: String,
    feed: String,
}

impl Texts {
    fn connection(&self) -> Result<Connection, ChannelsError> {
        let wrong = |element, text: &str| ChannelsError::Address {
            connection: self.id.clone(),
            element,
            text: text.to_owned(),
        };
        let group = if self.ip.is_empty() {
            None
        } else {
            let ip: Ipv4Addr = self.ip.parse().map_err(|_| wrong("ip", &self.ip))?;
            let port: u16 = self.port.parse().map_err(|_| wrong("port", &self.port))?;
            Some(SocketAddrV4::new(ip, port)).filter(|group| port > 0 && group.ip().is_multicast())
        };
        let line = match &*self.feed {
            "A" => 0,
            "B" => 1,
            // Of the server that repeats packets.
            "" if group.is_none() => 0,
            other => return Err(wrong("feed", other)),
        };
        let feed_type = match &*self.feed_type {
            "I" => FeedType::Incremental,
            "N" => FeedType::Definitions,
            "S" => FeedType::Snapshot,
            "SMBO" => FeedType::OrderSnapshot,
            _ => FeedType::Other,
        };
        Ok(Connection { id: self.id.clone(), feed_type, line, group })
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> String {
    let all = element.attributes().filter_map(Result::ok);
    let own = all.into_iter().find(|attribute| attribute.key.as_ref() == name.as_bytes());
    own.map(|attribute| String::from_utf8_lossy(&attribute.value).into_owned()).unwrap_or_default()
}

impl Channel {
    /// Reads all channels of a configuration file.
    ///
    /// # Errors
    /// It is none, or an address in it cannot be meant.
    pub fn read(text: &str) -> Result<Vec<Self>, ChannelsError> {
        let xml = |error: quick_xml::Error| ChannelsError::Xml(error.to_string());
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let mut channels: Vec<Self> = Vec::new();
        let mut connection: Option<Texts> = None;
        let mut element = String::new();
        loop {
            match reader.read_event().map_err(xml)? {
                Event::Start(start) => {
                    element = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
                    match &*element {
                        "channel" => {
                            let (id, label) = (attribute(&start, "id"), attribute(&start, "label"));
                            channels.push(Self { id, label, connections: Vec::new() });
                        }
                        "connection" => connection = Some(Texts { id: attribute(&start, "id"), ..Texts::default() }),
                        "type" => {
                            if let Some(texts) = &mut connection {
                                texts.feed_type = attribute(&start, "feed-type");
                            }
                        }
                        _ => {}
                    }
                }
                Event::Text(text) => {
                    let text = String::from_utf8_lossy(&text).trim().to_owned();
                    if let Some(texts) = &mut connection {
                        match &*element {
                            "ip" => texts.ip = text,
                            "port" => texts.port = text,
                            "feed" => texts.feed = text,
                            _ => {}
                        }
                    }
                }
                Event::End(end) => {
                    element.clear();
                    if end.local_name().as_ref() == b"connection"
                        && let (Some(texts), Some(channel)) = (connection.take(), channels.last_mut())
                    {
                        channel.connections.push(texts.connection()?);
                    }
                }
                Event::Eof => break,
                _ => {}
            }
        }
        if channels.is_empty() { Err(ChannelsError::Empty) } else { Ok(channels) }
    }

    /// Connections of a kind that are multicast groups, with their lines.
    pub fn groups(&self, feed_type: FeedType) -> impl Iterator<Item = (u8, SocketAddrV4)> {
        let of_kind = self.connections.iter().filter(move |connection| connection.feed_type == feed_type);
        of_kind.filter_map(|connection| Some((connection.line, connection.group?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(connections: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><configuration environment=\"Test\"><channel id=\"7\" label=\"Ours\"><products>\
             <product code=\"ZV\"/></products><connections>{connections}</connections></channel></configuration>"
        )
    }

    fn connection(id: &str, kind: &str, ip: &str, port: &str, feed: &str) -> String {
        format!(
            "<connection id=\"{id}\"><type feed-type=\"{kind}\">words</type><protocol>UDP/IP</protocol>\n <ip>{ip}</ip>\
             <host-ip>10.0.0.1</host-ip><host-ip>10.0.0.2</host-ip><port> {port} </port><feed>{feed}</feed></connection>"
        )
    }

    #[test]
    fn a_channel_has_its_groups_by_what_they_bring() {
        let all = [
            connection("7IA", "I", "239.1.1.1", "9001", "A"),
            connection("7IB", "I", "239.1.2.1", "9002", "B"),
            connection("7NA", "N", "239.1.1.2", "9003", "A"),
            connection("7SA", "S", "239.1.1.3", "9004", "A"),
            connection("7SAMBO", "SMBO", "239.1.1.4", "9005", "A"),
            "<connection id=\"7H1A\"><type feed-type=\"H\">Replay</type><protocol>TCP/IP</protocol><host-ip>10.0.0.3</host-ip>\
             <port>10000</port></connection>"
                .to_owned(),
        ];
        let channels = Channel::read(&file(&all.concat())).unwrap();
        let [channel] = &channels[..] else { panic!("{channels:?}") };
        assert_eq!((&channel.id[..], &channel.label[..], channel.connections.len()), ("7", "Ours", 6));
        let lines: Vec<(u8, u16)> = channel.groups(FeedType::Incremental).map(|(line, at)| (line, at.port())).collect();
        assert_eq!(lines, [(0, 9001), (1, 9002)]);
        for (kind, count) in
            [(FeedType::Definitions, 1), (FeedType::Snapshot, 1), (FeedType::OrderSnapshot, 1), (FeedType::Other, 0)]
        {
            assert_eq!(channel.groups(kind).count(), count, "{kind:?}");
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_place() {
        assert_eq!(Channel::read("<a/>"), Err(ChannelsError::Empty));
        assert!(matches!(Channel::read("<channel id=\"7\"></other>"), Err(ChannelsError::Xml(_))));
        for (wrong, element) in [
            (connection("x", "I", "239.1.1", "9001", "A"), "ip"),
            (connection("x", "I", "239.1.1.1", "99999", "A"), "port"),
            (connection("x", "I", "239.1.1.1", "9001", "C"), "feed"),
        ] {
            let told = Channel::read(&file(&wrong)).unwrap_err().to_string();
            assert!(told.contains("connection x") && told.contains(element), "{told}");
        }
        // What is no multicast is no line.
        let unicast = Channel::read(&file(&connection("x", "I", "10.1.1.1", "9001", "A"))).unwrap();
        assert_eq!(unicast[0].groups(FeedType::Incremental).count(), 0);
    }
}
