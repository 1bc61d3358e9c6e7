//! JSON as messages: the members of the header.

use super::names::Named;
use super::parse::Node;
use super::read_members::{Encoded, JsonReader, Key, Members, SharedMembers, given};
use super::{Converter, ErrorKind, Incoming, JsonError, read_plain};
use crate::msg::{
    AckFlags, AckMsg, CloseFlags, CloseMsg, Domain, GenericFlags, GenericMsg, MsgClass, NakCode, PostFlags, PostMsg,
    RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusFlags, StatusMsg, UpdateFlags, UpdateMsg, UpdateType,
};
use crate::rdm::request::Payload;
use crate::rdm::state::StateBuf;
use crate::wire::Writer;
use crate::{DataState, DataType, StreamState};

pub(super) fn messages(converter: &Converter<'_>, text: &str) -> Vec<Result<Incoming, JsonError>> {
    read_plain::updates(converter, text).unwrap_or_else(|| messages_of_tree(converter, text))
}

/// The messages of any text.
fn messages_of_tree(converter: &Converter<'_>, text: &str) -> Vec<Result<Incoming, JsonError>> {
    let root = match Node::parse(text) {
        Ok(root) => root,
        Err(error) => return vec![Err(JsonError { offending: text.to_owned(), ..error })],
    };
    let mut out = Vec::new();
    match &root {
        Node::Array(items) => {
            for item in items {
                match item {
                    // The transport puts brackets around an application's own.
                    Node::Array(inner) => out.extend(inner.iter().map(|node| incoming(converter, node))),
                    node => out.push(incoming(converter, node)),
                }
            }
        }
        node => out.push(incoming(converter, node)),
    }
    out
}

fn incoming(converter: &Converter<'_>, node: &Node<'_>) -> Result<Incoming, JsonError> {
    read_one(converter, node).map_err(|error| {
        let stream_id = match node.get("ID") {
            Some(Node::Number(id)) => id.parse().unwrap_or(0),
            _ => 0,
        };
        let mut offending = String::new();
        node.write(&mut offending);
        JsonError { stream_id, offending, ..error }
    })
}

fn read_one(converter: &Converter<'_>, node: &Node<'_>) -> Result<Incoming, JsonError> {
    if !matches!(node, Node::Object(_)) {
        let text = format!("a message or an array of messages was expected, not {}", node.kind());
        return Err(JsonError::new(ErrorKind::Syntax, text));
    }
    match node.get("Type") {
        Some(Node::Text(name)) if name == "Ping" => return Ok(Incoming::Ping),
        Some(Node::Text(name)) if name == "Pong" => return Ok(Incoming::Pong),
        Some(Node::Text(name)) if name == "Error" => {
            let text = if let Some(Node::Text(text)) = node.get("Text") { text.to_string() } else { String::new() };
            return Ok(Incoming::Error(text));
        }
        _ => {}
    }
    let reader = JsonReader::new(*converter);
    reader.build(node, |w| reader.message(node, w)).map(Incoming::Message)
}

impl JsonReader<'_> {
    pub(super) fn message(&self, node: &Node<'_>, w: &mut Writer<'_>) -> Encoded {
        let Node::Object(members) = node else {
            return Err(self.wrong_kind("Message", "an object", node));
        };
        let class = match node.get("Type") {
            None | Some(Node::Null) => MsgClass::REQUEST,
            Some(kind) => self.class(kind)?,
        };
        match class {
            MsgClass::REQUEST => self.request(members, w),
            MsgClass::REFRESH => self.refresh(members, w),
            MsgClass::STATUS => self.status(members, w),
            MsgClass::UPDATE => self.update(members, w),
            MsgClass::CLOSE => self.close(members, w),
            MsgClass::ACK => self.ack(members, w),
            MsgClass::GENERIC => self.generic(members, w),
            _ => self.post(members, w),
        }
    }

    fn class(&self, node: &Node<'_>) -> Encoded<MsgClass> {
        let class = match node {
            Node::Text(name) => MsgClass::from_json_name(name),
            Node::Number(text) => text.parse().ok().map(MsgClass).filter(|class| class.name().is_some()),
            _ => None,
        };
        class.ok_or_else(|| {
            let mut text = String::from("message type is not supported: ");
            node.write(&mut text);
            self.fail(ErrorKind::UnknownMessageType, text)
        })
    }

    fn request(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = RequestMsg::new(Domain::MARKET_PRICE, 0);
        let mut key = None;
        let mut streaming = true;
        let mut key_in_updates = true;
        let mut view = None;
        let mut view_type = None;
        for (name, node) in given(members) {
            match name {
                "Streaming" => streaming = self.bool(name, node)?,
                "KeyInUpdates" => key_in_updates = self.bool(name, node)?,
                "ConfInfoInUpdates" => msg.flags.set(RequestFlags::CONF_INFO_IN_UPDATES, self.bool(name, node)?),
                "Refresh" => msg.flags.set(RequestFlags::NO_REFRESH, !self.bool(name, node)?),
                "Private" => msg.flags.set(RequestFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(RequestFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                "Pause" => msg.flags.set(RequestFlags::PAUSE, self.bool(name, node)?),
                "Priority" => msg.priority = Some(self.priority(node)?),
                "Qos" => msg.qos = Some(self.qos(name, node)?),
                "WorstQos" => msg.worst_qos = Some(self.qos(name, node)?),
                "Key" => key = Some(node),
                "View" => view = Some(node),
                "ViewType" => view_type = Some(node),
                _ => self.common(&mut common, name, node)?,
            }
        }
        let key = self.key(key.ok_or_else(|| self.missing("Key"))?, common.domain, true)?;
        msg.flags.set(RequestFlags::STREAMING, streaming);
        msg.flags.set(RequestFlags::MSG_KEY_IN_UPDATES, key_in_updates);
        let view = view.map(|node| self.view(node, view_type)).transpose()?;
        let has_payload = view.is_some() || key.batch.is_some();
        let items = key.batch.as_ref().map(|names| names.iter().map(Vec::as_slice).collect());
        msg.flags.set(RequestFlags::HAS_BATCH, key.batch.is_some());
        msg.flags.set(RequestFlags::HAS_VIEW, view.is_some());
        let payload = Payload { items, view, ..Payload::default() };
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = if has_payload { DataType::ELEMENT_LIST } else { common.container() };
        msg.ext_header = common.ext_header.as_deref();
        msg.key = key.as_key();
        msg.encode_header(w)?;
        if has_payload { payload.encode(w) } else { common.write_body(self, w) }
    }

    fn refresh(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = RefreshMsg::new(Domain::MARKET_PRICE, 0);
        let mut state = StateBuf { stream: StreamState::OPEN, data: DataState::OK, ..StateBuf::default() };
        let mut key = None;
        let (mut solicited, mut complete, mut clear_cache) = (true, true, true);
        for (name, node) in given(members) {
            match name {
                "Key" => key = Some(node),
                "State" => state = self.state(name, node)?,
                "Solicited" => solicited = self.bool(name, node)?,
                "Complete" => complete = self.bool(name, node)?,
                "ClearCache" => clear_cache = self.bool(name, node)?,
                "DoNotCache" => msg.flags.set(RefreshFlags::DO_NOT_CACHE, self.bool(name, node)?),
                "Private" => msg.flags.set(RefreshFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(RefreshFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                "Qos" => msg.qos = Some(self.qos(name, node)?),
                "PartNumber" => msg.part_num = Some(self.number(name, node)?),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "PostUserInfo" => msg.post_user_info = Some(self.post_user(node)?),
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        msg.flags.set(RefreshFlags::SOLICITED, solicited);
        msg.flags.set(RefreshFlags::REFRESH_COMPLETE, complete);
        msg.flags.set(RefreshFlags::CLEAR_CACHE, clear_cache);
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.state = state.as_state();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn status(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = StatusMsg::new(Domain::MARKET_PRICE, 0);
        let mut state = None;
        let mut key = None;
        for (name, node) in given(members) {
            match name {
                "Key" => key = Some(node),
                "State" => state = Some(self.state(name, node)?),
                "ClearCache" => msg.flags.set(StatusFlags::CLEAR_CACHE, self.bool(name, node)?),
                "Private" => msg.flags.set(StatusFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(StatusFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                "PostUserInfo" => msg.post_user_info = Some(self.post_user(node)?),
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.state = state.as_ref().map(StateBuf::as_state);
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn update(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = UpdateMsg::new(Domain::MARKET_PRICE, 0);
        let mut key = None;
        for (name, node) in given(members) {
            match name {
                "Key" => key = Some(node),
                "ConflationInfo" => msg.conflation = Some(self.conflation(node)?),
                "PostUserInfo" => msg.post_user_info = Some(self.post_user(node)?),
                "ReqKey" => {}
                _ if self.update_member(&mut msg, name, node)? => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    /// Takes a member that only updates have, and that is a plain value. False for others.
    pub(super) fn update_member(&self, msg: &mut UpdateMsg<'_>, name: &str, node: &Node<'_>) -> Encoded<bool> {
        match name {
            "UpdateType" => msg.update_type = self.named(name, node, UpdateType)?,
            "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
            "DoNotConflate" => msg.flags.set(UpdateFlags::DO_NOT_CONFLATE, self.bool(name, node)?),
            "DoNotRipple" => msg.flags.set(UpdateFlags::DO_NOT_RIPPLE, self.bool(name, node)?),
            "Discardable" => msg.flags.set(UpdateFlags::DISCARDABLE, self.bool(name, node)?),
            "DoNotCache" => msg.flags.set(UpdateFlags::DO_NOT_CACHE, self.bool(name, node)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn close(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = CloseMsg::new(Domain::MARKET_PRICE, 0);
        let mut streams: Option<Vec<i32>> = None;
        for (name, node) in given(members) {
            match (name, node) {
                ("ID", Node::Array(ids)) => {
                    streams = Some(ids.iter().map(|id| self.number(name, id)).collect::<Result<_, _>>()?);
                }
                ("Ack", _) => msg.flags.set(CloseFlags::ACK, self.bool(name, node)?),
                _ => self.common(&mut common, name, node)?,
            }
        }
        common.fill(&mut msg.stream_id, &mut msg.domain);
        msg.ext_header = common.ext_header.as_deref();
        let Some(streams) = streams else {
            common.require_id(self)?;
            msg.container = common.container();
            msg.encode_header(w)?;
            return common.write_body(self, w);
        };
        msg.stream_id =
            *streams.first().ok_or_else(|| self.fail(ErrorKind::UnexpectedValue, "ID is an empty array".to_owned()))?;
        // The bit has no name in the codec's flags: ETA Java has none for it either.
        msg.flags.0 |= CLOSE_HAS_BATCH;
        msg.container = DataType::ELEMENT_LIST;
        msg.encode_header(w)?;
        Payload { streams: Some(streams), ..Payload::default() }.encode(w)
    }

    fn ack(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = AckMsg::new(Domain::MARKET_PRICE, 0);
        let mut text = None;
        let mut key = None;
        for (name, node) in given(members) {
            match name {
                "Key" => key = Some(node),
                "AckID" => msg.ack_id = self.number(name, node)?,
                "NakCode" => msg.nak_code = Some(self.named(name, node, NakCode)?),
                "Text" => text = Some(self.text(name, node)?),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "Private" => msg.flags.set(AckFlags::PRIVATE_STREAM, self.bool(name, node)?),
                "Qualified" => msg.flags.set(AckFlags::QUALIFIED_STREAM, self.bool(name, node)?),
                _ => self.common(&mut common, name, node)?,
            }
        }
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.text = text.map(str::as_bytes);
        msg.ext_header = common.ext_header.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn generic(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = GenericMsg::new(Domain::MARKET_PRICE, 0);
        let mut complete = true;
        let mut key = None;
        for (name, node) in given(members) {
            match name {
                "Key" => key = Some(node),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "SecSeqNumber" => msg.secondary_seq_num = Some(self.number(name, node)?),
                "PartNumber" => msg.part_num = Some(self.number(name, node)?),
                "Complete" => complete = self.bool(name, node)?,
                "ProviderDriven" => msg.flags.set(GenericFlags::PROVIDER_DRIVEN, self.bool(name, node)?),
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        msg.flags.set(GenericFlags::MESSAGE_COMPLETE, complete);
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }

    fn post(&self, members: &Members<'_>, w: &mut Writer<'_>) -> Encoded {
        let mut common = SharedMembers::default();
        let mut msg = PostMsg::new(Domain::MARKET_PRICE, 0);
        let mut complete = true;
        let mut key = None;
        for (name, node) in given(members) {
            match name {
                "Key" => key = Some(node),
                "PostUserInfo" => msg.post_user_info = self.post_user(node)?,
                "PostID" => msg.post_id = Some(self.number(name, node)?),
                "SeqNumber" => msg.seq_num = Some(self.number(name, node)?),
                "PartNumber" => msg.part_num = Some(self.number(name, node)?),
                "PostUserRights" => msg.post_user_rights = Some(self.number(name, node)?),
                "Ack" => msg.flags.set(PostFlags::ACK, self.bool(name, node)?),
                "Complete" => complete = self.bool(name, node)?,
                "ReqKey" => {}
                _ => self.common(&mut common, name, node)?,
            }
        }
        msg.flags.set(PostFlags::POST_COMPLETE, complete);
        let key = key.map(|node| self.key(node, common.domain, false)).transpose()?;
        common.fill(&mut msg.stream_id, &mut msg.domain);
        common.require_id(self)?;
        msg.container = common.container();
        msg.ext_header = common.ext_header.as_deref();
        msg.perm_data = common.perm_data.as_deref();
        msg.key = key.as_ref().map(Key::as_key);
        msg.encode_header(w)?;
        common.write_body(self, w)
    }
}

/// The bit of a close that closes several streams.
const CLOSE_HAS_BATCH: u16 = 0x04;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::Dictionary;
    use crate::json::Settings;
    use crate::msg::Msg;
    use proptest::prelude::*;

    /// Texts of which each is in reach of one that is read in one pass.
    fn text() -> impl Strategy<Value = String> {
        let value = proptest::sample::select(vec![
            "1",
            "-1",
            "0",
            "2.50",
            "1e3",
            "01",
            "1.",
            "-",
            "null",
            "true",
            "\"Quote\"",
            "\"\"",
            "\"USD\"",
            "\"a\\u0041\"",
            "\"\u{e9}\"",
            "\"10:20:30\"",
            "\"2024-02-29\"",
            "\"Inf\"",
            "{}",
            "[]",
            "[1]",
            "99999999999999999999",
            "\"\t\"",
        ]);
        let field = proptest::sample::select(vec![
            "BID",
            "ASK",
            "22",
            "+22",
            "PROD_PERM",
            "DSPLY_NAME",
            "QUOTIM",
            "TRADE_DATE",
            "CURRENCY",
            "NONE",
            "B\\u0049D",
            "",
        ]);
        let fields = proptest::collection::vec((field, value.clone()), 0..6).prop_map(|fields| {
            let members: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        });
        let member = (
            proptest::sample::select(vec![
                "ID",
                "Type",
                "UpdateType",
                "SeqNumber",
                "DoNotCache",
                "Domain",
                "Key",
                "Fields",
                "Xml",
                "X",
            ]),
            value,
        );
        let member = member.prop_map(|(name, value)| format!("\"{name}\":{value}"));
        let plain = || {
            proptest::sample::select(vec![
                "\"ID\":5",
                "\"Type\":\"Update\"",
                "\"UpdateType\":\"Trade\"",
                " \"SeqNumber\" : 7 ",
            ])
        };
        let one = (
            proptest::collection::vec(plain().prop_map(str::to_owned), 0..5),
            proptest::collection::vec(member, 0..2),
            proptest::collection::vec(fields.prop_map(|fields| format!("\"Fields\": {fields}")), 0..3),
        );
        let one = one.prop_map(|(mut head, odd, fields)| {
            head.splice(0..0, ["\"Type\":\"Update\"".to_owned(), "\"ID\":-3".to_owned()]);
            head.extend(fields);
            head.extend(odd);
            format!("{{{}}}", head.join(","))
        });
        let some = proptest::collection::vec(one.clone(), 0..3).prop_map(|all| format!("[{}]", all.join(" , ")));
        (prop_oneof![one, some], proptest::sample::select(vec!["", "", "", " ", ",", "}", "x"]))
            .prop_map(|(text, end)| text + end)
    }

    proptest! {
        /// One pass gives what the tree does, or nothing.
        #[test]
        fn both_ways_give_the_same(text in text(), cut in 0_usize..400, unknown in any::<bool>()) {
            let dictionary = Dictionary::builtin();
            let settings = Settings { unknown_fields: unknown, unknown_members: unknown, ..Settings::rtds() };
            let converter = Converter::new(&dictionary).with_settings(settings);
            let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            for text in [&text[..], &text[..cut]] {
                if let Some(found) = read_plain::updates(&converter, text) {
                    prop_assert_eq!(found, messages_of_tree(&converter, text), "{}", text);
                }
            }
        }
    }

    fn message(converter: &Converter<'_>, text: &str) -> Vec<u8> {
        match messages(converter, text).remove(0) {
            Ok(Incoming::Message(message)) => message,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The default service is for the message that goes somewhere, not for what stands within it: who checks a post tells what was written.
    #[test]
    fn a_key_within_a_post_has_the_service_that_was_written() {
        let dictionary = Dictionary::builtin();
        let settings = Settings { default_service_id: Some(9), ..Settings::rtds() };
        let converter = Converter::new(&dictionary).with_settings(settings);
        for (service, within) in [("", None), (r#""Service":4,"#, Some(4))] {
            let text = format!(
                r#"{{"ID":1,"Type":"Post","PostID":2,"Key":{{"Name":"A"}},"Message":{{"ID":0,"Type":"Update","Key":{{{service}"Name":"A"}},"Fields":{{"BID":1}}}}}}"#
            );
            let bytes = message(&converter, &text);
            let Ok(Msg::Post(post)) = Msg::decode(&bytes) else { panic!("{text}") };
            assert_eq!(post.key.as_ref().and_then(|key| key.service_id), Some(9));
            let inner = Msg::decode(post.body).expect("a message within");
            assert_eq!(inner.key().and_then(|key| key.service_id), within);
        }
    }

    /// Each text beside the same without the members that are null.
    #[test]
    fn a_member_that_is_null_is_as_none() {
        let dictionary = Dictionary::builtin();
        for unknown_members in [false, true] {
            let settings = Settings { unknown_members, default_service_id: Some(9), ..Settings::rtds() };
            let converter = Converter::new(&dictionary).with_settings(settings);
            for (with, without) in [
                (
                    r#"{"ID":5,"Type":null,"Domain":null,"Streaming":null,"Refresh":null,"KeyInUpdates":null,"Private":null,"Pause":null,
                    "Qualified":null,"ConfInfoInUpdates":null,"Priority":null,"Qos":null,"WorstQos":null,"View":null,"ViewType":null,
                    "ExtHdr":null,"Key":{"Name":"A","Service":null,"NameType":null,"Filter":null,"Identifier":null,"Elements":null}}"#,
                    r#"{"ID":5,"Key":{"Name":"A"}}"#,
                ),
                (r#"{"ID":5,"Key":{"Name":["A","B"]},"View":null}"#, r#"{"ID":5,"Key":{"Name":["A","B"]}}"#),
                (
                    r#"{"ID":5,"Key":{"Name":"A"},"View":["BID"],"ViewType":null,"Priority":{"Class":2,"Count":null},
                    "Qos":{"Timeliness":"Realtime","Rate":null,"TimeInfo":null,"Dynamic":null}}"#,
                    r#"{"ID":5,"Key":{"Name":"A"},"View":["BID"],"Priority":{"Class":2},"Qos":{"Timeliness":"Realtime"}}"#,
                ),
                (
                    r#"{"ID":5,"Type":"Refresh","Key":null,"State":null,"Solicited":null,"Complete":null,"ClearCache":null,"DoNotCache":null,
                    "Qos":null,"PartNumber":null,"SeqNumber":null,"PostUserInfo":null,"PermData":null,"Fields":{"BID":1}}"#,
                    r#"{"ID":5,"Type":"Refresh","Fields":{"BID":1}}"#,
                ),
                (
                    r#"{"ID":5,"Type":"Status","State":{"Stream":"Closed","Data":"Suspect","Code":null,"Text":null}}"#,
                    r#"{"ID":5,"Type":"Status","State":{"Stream":"Closed","Data":"Suspect"}}"#,
                ),
                (
                    r#"{"ID":5,"Type":"Update","UpdateType":null,"SeqNumber":null,"ConflationInfo":null,"DoNotConflate":null,"Fields":{"BID":1}}"#,
                    r#"{"ID":5,"Type":"Update","Fields":{"BID":1}}"#,
                ),
                (r#"{"ID":5,"Type":"Close","Ack":null}"#, r#"{"ID":5,"Type":"Close"}"#),
                (
                    r#"{"ID":5,"Type":"Ack","AckID":3,"NakCode":null,"Text":null,"SeqNumber":null}"#,
                    r#"{"ID":5,"Type":"Ack","AckID":3}"#,
                ),
                (
                    r#"{"ID":5,"Type":"Generic","SeqNumber":null,"SecSeqNumber":null,"PartNumber":null,"Complete":null,"Map":{"KeyType":"UInt",
                    "KeyFieldID":null,"CountHint":null,"Summary":null,"Entries":[{"Action":"Add","Key":1,"PermData":null,"Fields":{"BID":1}}]}}"#,
                    r#"{"ID":5,"Type":"Generic","Map":{"KeyType":"UInt","Entries":[{"Action":"Add","Key":1,"Fields":{"BID":1}}]}}"#,
                ),
                (
                    r#"{"ID":5,"Type":"Post","PostID":1,"Ack":null,"PartNumber":null,"PostUserRights":null,"PostUserInfo":null,"Fields":{"BID":1}}"#,
                    r#"{"ID":5,"Type":"Post","PostID":1,"Fields":{"BID":1}}"#,
                ),
            ] {
                assert_eq!(message(&converter, with), message(&converter, without), "{with}");
            }
            // Contents that have to be there are missing; empty contents are contents.
            for (text, why) in
                [(r#"{"ID":null,"Key":{"Name":"A"}}"#, "ID is missing"), (r#"{"ID":5,"Key":null}"#, "Key is missing")]
            {
                assert_eq!(messages(&converter, text).remove(0).unwrap_err().to_string(), why);
            }
            let empty = message(&converter, r#"{"ID":5,"Type":"Update","Fields":null}"#);
            let none = message(&converter, r#"{"ID":5,"Type":"Update"}"#);
            assert_ne!(empty, none);
        }
    }

    #[test]
    fn plain_updates_need_no_tree() {
        let dictionary = Dictionary::builtin();
        let converter = Converter::new(&dictionary).with_settings(Settings::rtds());
        for text in [
            r#"{"ID":5,"Type":"Update","UpdateType":"Quote","SeqNumber":9,"Fields":{"BID":1.5,"ASK":null}}"#,
            r#" [ { "Type" : "Update" , "ID" : -5 , "Fields" : { } } , {"ID":6,"Type":"Update","Domain":"MarketPrice"} ] "#,
        ] {
            let found = read_plain::updates(&converter, text).unwrap();
            assert_eq!(found, messages_of_tree(&converter, text), "{text}");
        }
    }
}
