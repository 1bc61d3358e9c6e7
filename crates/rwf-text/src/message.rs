use std::fmt;

use crate::hex::Hex;
use crate::value::Quoted;
use crate::{Printer, count};
use rwf::container::SetScope;
use rwf::msg::{Domain, Msg, MsgKey, PostUserInfo};
use rwf::rdm::directory::filter;
use rwf::{DataType, Qos, State};

impl Printer<'_, '_, '_> {
    /// A message; ends the line.
    pub(super) fn message(&mut self, bytes: &[u8]) -> fmt::Result {
        let msg = match Msg::decode(bytes) {
            Ok(msg) => msg,
            Err(error) => {
                write!(self.out, "MSG, {}, ", count(bytes.len(), "byte"))?;
                return self.undecodable(error, bytes);
            }
        };
        writeln!(
            self.out,
            "{} {}, stream {}, {}",
            msg.class(),
            msg.domain(),
            msg.stream_id(),
            count(bytes.len(), "byte")
        )?;
        let outer = self.domain.replace(msg.domain());
        let result = self.nested(|p| {
            p.members(&msg)?;
            p.body(msg.container(), msg.body())
        });
        self.domain = outer;
        result
    }

    fn body(&mut self, container: DataType, body: &[u8]) -> fmt::Result {
        if container == DataType::NO_DATA && body.is_empty() {
            return Ok(());
        }
        self.indent()?;
        self.data(container, body, &SetScope::NONE)
    }

    fn members(&mut self, msg: &Msg<'_>) -> fmt::Result {
        match msg {
            Msg::Request(m) => {
                self.flags(m.flags, m.flags.0)?;
                self.option("priority", m.priority.map(|p| format!("class {}, count {}", p.class, p.count)))?;
                self.qos("qos", m.qos)?;
                self.qos("worst qos", m.worst_qos)?;
            }
            Msg::Refresh(m) => {
                self.flags(m.flags, m.flags.0)?;
                self.state(Some(&m.state))?;
                self.option("sequence", m.seq_num)?;
                self.option("part", m.part_num)?;
                self.hex("group", Some(m.group_id))?;
                self.qos("qos", m.qos)?;
                self.post_user(m.post_user_info)?;
            }
            Msg::Status(m) => {
                self.flags(m.flags, m.flags.0)?;
                self.state(m.state.as_ref())?;
                self.hex("group", m.group_id)?;
                self.post_user(m.post_user_info)?;
            }
            Msg::Update(m) => {
                self.flags(m.flags, m.flags.0)?;
                self.member("update type", m.update_type)?;
                self.option("sequence", m.seq_num)?;
                let conflation =
                    |c: rwf::msg::Conflation| format!("{} in {} ms", count(c.count.into(), "update"), c.time);
                self.option("conflation", m.conflation.map(conflation))?;
                self.post_user(m.post_user_info)?;
            }
            Msg::Close(m) => self.flags(m.flags, m.flags.0)?,
            Msg::Ack(m) => {
                self.flags(m.flags, m.flags.0)?;
                self.member("ack id", m.ack_id)?;
                self.option("nak code", m.nak_code)?;
                self.option("text", m.text.map(|_| Quoted(&m.text_lossy()).to_string()))?;
                self.option("sequence", m.seq_num)?;
            }
            Msg::Generic(m) => {
                self.flags(m.flags, m.flags.0)?;
                self.option("sequence", m.seq_num)?;
                self.option("secondary", m.secondary_seq_num)?;
                self.option("part", m.part_num)?;
            }
            Msg::Post(m) => {
                self.flags(m.flags, m.flags.0)?;
                self.post_user(Some(m.post_user_info))?;
                self.option("post id", m.post_id)?;
                self.option("sequence", m.seq_num)?;
                self.option("part", m.part_num)?;
                self.option("rights", m.post_user_rights.map(rights))?;
            }
        }
        self.hex("permission", msg.perm_data())?;
        if let Some(key) = msg.key() {
            self.key(key)?;
        }
        self.hex("ext header", msg.ext_header())
    }

    /// Flags that say more than that a member is there.
    fn flags(&mut self, flags: impl fmt::Display, bits: u16) -> fmt::Result {
        if bits == 0 { Ok(()) } else { self.member("flags", flags) }
    }

    fn option(&mut self, label: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        value.map_or(Ok(()), |value| self.member(label, value))
    }

    fn state(&mut self, state: Option<&State<'_>>) -> fmt::Result {
        self.option("state", state)
    }

    fn qos(&mut self, label: &str, qos: Option<Qos>) -> fmt::Result {
        self.option(label, qos)
    }

    fn hex(&mut self, label: &str, bytes: Option<&[u8]>) -> fmt::Result {
        self.option(label, bytes.filter(|bytes| !bytes.is_empty()).map(Hex))
    }

    fn post_user(&mut self, user: Option<PostUserInfo>) -> fmt::Result {
        self.option("post user", user.map(|user| format!("{}, id {}", user.ip(), user.id)))
    }

    fn key(&mut self, key: &MsgKey<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(key.service_id.map(|id| format!("service {id}")));
        parts.extend(key.name.map(|_| format!("name {}", Quoted(&key.name_lossy()))));
        parts.extend(key.name_type.map(|kind| format!("name type {kind}")));
        parts.extend(key.filter.map(|bits| format!("filter {bits:#x}{}", self.filter_names(bits))));
        parts.extend(key.identifier.map(|id| format!("identifier {id}")));
        if key.flags.0 != 0 {
            parts.push(format!("flags {}", key.flags));
        }
        if parts.is_empty() && key.attrib.is_none() {
            return self.member("key", "empty");
        }
        if parts.is_empty() {
            self.indent()?;
            writeln!(self.out, "key")?;
        } else {
            self.member("key", parts.join(", "))?;
        }
        let Some(attrib) = &key.attrib else {
            return Ok(());
        };
        self.nested(|p| {
            p.indent()?;
            p.data(attrib.container, attrib.data, &SetScope::NONE)
        })
    }

    /// In the directory the bits have names.
    fn filter_names(&self, bits: u32) -> String {
        const NAMES: [(u32, &str); 7] = [
            (filter::INFO, "INFO"),
            (filter::STATE, "STATE"),
            (filter::GROUP, "GROUP"),
            (filter::LOAD, "LOAD"),
            (filter::DATA, "DATA"),
            (filter::LINK, "LINK"),
            (filter::SEQUENCED_MULTICAST, "SEQUENCED_MULTICAST"),
        ];
        let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
        match self.domain {
            Some(Domain::SOURCE) if !names.is_empty() => format!(" {}", names.join("|")),
            _ => String::new(),
        }
    }
}

fn rights(bits: u16) -> String {
    const NAMES: [(u16, &str); 3] = [(1, "CREATE"), (2, "DELETE"), (4, "MODIFY_PERM")];
    let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    if bits & !7 == 0 && bits != 0 { names.join("|") } else { format!("{bits:#x}") }
}
