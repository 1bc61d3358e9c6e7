//! Posts on their way up, and what is answered to whom.

use super::Clients;
use super::streams::Open;
use crate::ids::{ClientId, Handle, ItemId, RemoteService, ServiceId, SourceId, StreamId};
use crate::item::NAME_TYPE_RIC;
use crate::items::Items;
use crate::sources::services::Provider;
use crate::stream::Request;
use crate::{P2ps, encode};
use permissions::Denial;
use permissions::rights::PostRights;
use rwf::DataType;
use rwf::msg::{AckMsg, Domain, Msg, MsgKey, NakCode, PostFlags, PostMsg, PostUserInfo};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Tokens number a slot in the low bits and its use above; none is 0.
const SLOT_BITS: u32 = 20;
const SLOTS: u32 = 1 << SLOT_BITS;

/// What of a post its answer repeats: the client finds its post by these, and by nothing that a provider has written.
#[derive(Debug, Clone, Copy)]
struct Answered {
    stream: StreamId,
    domain: Domain,
    post_id: u32,
    seq_num: Option<u32>,
}

impl Answered {
    fn of(post: &PostMsg<'_>) -> Self {
        let (stream, post_id) = (StreamId(post.stream_id), post.post_id.unwrap_or(0));
        Self { stream, domain: post.domain, post_id, seq_num: post.seq_num }
    }
}

/// A post that is not answered.
#[derive(Debug, Clone, Copy)]
struct Pending {
    token: u32,
    client: ClientId,
    post: Answered,
    source: SourceId,
    service: ServiceId,
}

/// All posts that are not answered.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    slots: Vec<Option<Pending>>,
    uses: Vec<u32>,
    free: Vec<u32>,
    /// Token and time by which it must be answered, the first on top: services may have times of their own. Of those that were answered some
    /// are still here.
    deadlines: BinaryHeap<Reverse<(u64, u32)>>,
    /// How many of them, at most.
    answered: usize,
}

/// So many deadlines of answered posts are let be: a client that posts without an end has an answer to each, and would leave all of them here until
/// their time.
const ANSWERED_MAX: usize = 1_024;

impl Posts {
    fn insert(&mut self, deadline: u64, pending: impl FnOnce(u32) -> Pending) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < SLOTS as usize => {
                self.slots.push(None);
                self.uses.push(0);
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        let uses = &mut self.uses[slot as usize];
        *uses = *uses % ((1 << (32 - SLOT_BITS)) - 1) + 1;
        let token = *uses << SLOT_BITS | slot;
        self.slots[slot as usize] = Some(pending(token));
        self.deadlines.push(Reverse((deadline, token)));
        Some(token)
    }

    fn take(&mut self, token: u32) -> Option<Pending> {
        let slot = self.slots.get_mut((token & (SLOTS - 1)) as usize)?;
        if slot.as_ref()?.token != token {
            return None;
        }
        self.free.push(token & (SLOTS - 1));
        let taken = slot.take();
        self.answered += 1;
        if self.answered > ANSWERED_MAX && self.answered * 2 > self.deadlines.len() {
            self.forget_answered();
        }
        taken
    }

    /// Takes the deadlines of answered posts out, and gives their room back.
    fn forget_answered(&mut self) {
        let slots = &self.slots;
        let waits = |token: u32| slots[(token & (SLOTS - 1)) as usize].as_ref().is_some_and(|at| at.token == token);
        self.deadlines.retain(|&Reverse((_, token))| waits(token));
        self.deadlines.shrink_to(self.deadlines.len() + 2 * ANSWERED_MAX);
        self.answered = 0;
    }

    /// When the oldest post has to be answered.
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    fn overdue(&mut self, now: u64) -> Option<Pending> {
        while let Some(&Reverse((at, token))) = self.deadlines.peek() {
            if at > now {
                return None;
            }
            self.deadlines.pop();
            let overdue = self.take(token);
            // Answered or overdue: its deadline is not here any more.
            self.answered = self.answered.saturating_sub(1);
            if overdue.is_some() {
                return overdue;
            }
        }
        None
    }

    fn tokens(&self, of: impl Fn(&Pending) -> bool) -> Vec<u32> {
        self.slots.iter().flatten().filter(|pending| of(pending)).map(|pending| pending.token).collect()
    }

    /// Panics if posts are not those that clients wait for.
    pub(crate) fn check<'c>(&self, clients: impl Iterator<Item = (ClientId, &'c super::Client)>) {
        let mut count = 0;
        for (client, token) in clients.flat_map(|(id, known)| known.posts.iter().map(move |&token| (id, token))) {
            let pending = self.slots.get((token & (SLOTS - 1)) as usize).and_then(Option::as_ref);
            assert!(pending.is_some_and(|at| (at.token, at.client) == (token, client)), "post {token} of {client:?}");
            count += 1;
        }
        assert_eq!(self.slots.iter().flatten().count(), count, "posts that are not answered");
        let most = count + (ANSWERED_MAX + 1).max(self.deadlines.len() / 2 + 1);
        assert!(self.deadlines.len() <= most, "{} deadlines of {count} posts", self.deadlines.len());
    }
}

/// Where a post goes: what rights are asked for, what the audit names and what is delivered are all taken from here.
struct Destination {
    service: ServiceId,
    /// The item's name; empty if the item of the stream has none.
    name: Vec<u8>,
    /// The item of the stream, if the post is on one.
    item: Option<ItemId>,
    source: SourceId,
    remote: RemoteService,
    handle: Option<Handle>,
}

/// Why a post goes nowhere: the code, and the text if the code's own does not say it.
struct Refused {
    code: NakCode,
    text: &'static str,
}

impl From<NakCode> for Refused {
    fn from(code: NakCode) -> Self {
        Self { code, text: code.text() }
    }
}

/// A post names its item by the stream, by its key and by the key of the message in it. One that names two is for neither: whoever takes it further
/// would have to know which of them the right was asked for.
const TWO_ITEMS: Refused = Refused {
    code: NakCode::INVALID_CONTENT,
    text: "The post names two items or services: its key, the key of the message in it and the item of its stream have to agree",
};
const UNREADABLE: Refused = Refused { code: NakCode::INVALID_CONTENT, text: "The message in the post is malformed" };

/// The one value of all that were given, or none.
fn agreed<T: PartialEq>(given: impl IntoIterator<Item = Option<T>>) -> Result<Option<T>, Refused> {
    let mut given = given.into_iter().flatten();
    let first = given.next();
    if given.all(|other| Some(&other) == first.as_ref()) { Ok(first) } else { Err(TWO_ITEMS) }
}

impl Clients {
    /// A client is gone: nobody waits for its acks. Those of others are not looked at.
    pub(crate) fn forget_posts_of(&mut self, client: ClientId) {
        let own = self.get_mut(client).map(|known| std::mem::take(&mut known.posts));
        for token in own.unwrap_or_default() {
            self.posts.take(token);
        }
    }

    fn forget_post(&mut self, token: u32) -> Option<Pending> {
        let pending = self.posts.take(token)?;
        if let Some(known) = self.get_mut(pending.client) {
            known.posts.remove(&token);
        }
        Some(pending)
    }
}

/// The service and the name that a post is for, by all that it names one with. In JSON the post's own key has been given the default service
/// on its way where it names none: that of the stream's item counts before it. The message within it has what the client has written.
fn named_by(
    items: &Items,
    item: Option<ItemId>,
    post: &PostMsg<'_>,
    is_json: bool,
) -> Result<(Option<ServiceId>, Vec<u8>), Refused> {
    let inner = (post.container == DataType::MSG).then(|| Msg::decode(post.body)).transpose();
    let inner = inner.map_err(|_| UNREADABLE)?;
    let inner = inner.as_ref().and_then(Msg::key);
    let own = item.map(|item| items.key(item));
    let keys = [post.key.as_ref(), inner];
    let [of_post, of_inner] = keys.map(|key| key.and_then(|key| key.service_id).map(ServiceId));
    let of_item = item.map(|item| items.get(item).service());
    let service =
        if is_json { agreed([of_item.or(of_post), of_inner])? } else { agreed([of_item, of_post, of_inner])? };
    // A name of another type is another name; without one it is a RIC.
    let named = |name: Option<&[u8]>, name_type: Option<u8>| {
        let name = name.filter(|name| !name.is_empty())?;
        Some((name.to_vec(), name_type.unwrap_or(NAME_TYPE_RIC)))
    };
    let names = keys.map(|key| key.and_then(|key| named(key.name, key.name_type)));
    let own = own.and_then(|key| named(key.name, key.name_type));
    let name = agreed(names.into_iter().chain([own]))?;
    Ok((service, name.map(|(name, _)| name).unwrap_or_default()))
}

impl P2ps {
    /// A post of a client.
    pub(crate) fn post(&mut self, client: ClientId, post: &PostMsg<'_>) {
        self.counters.posts_in += 1;
        let destination = match self.destination(client, post) {
            Ok(destination) => destination,
            Err(refused) => return self.refuse_post(client, post, &refused),
        };
        let rights = match self.permit_post_to(client, post, &destination) {
            Ok(rights) => rights,
            Err(denial) => return self.deny_post(client, post, &denial.answer().text),
        };
        let mut token = 0;
        if post.flags.contains(PostFlags::ACK) {
            let limit = self.config.max_posts_per_client;
            let is_full = |known: &super::Client| limit > 0 && known.posts.len() >= limit as usize;
            if self.clients.get(client).is_some_and(is_full) {
                return self.nak_post(client, post, NakCode::NO_RESOURCES);
            }
            let known = self.sources.services().get(destination.service);
            let timeout = self.config.post_timeout_of(known.map_or("", |service| service.name.as_str()));
            let deadline = self.now.saturating_add(timeout);
            let noted = self.clients.posts.insert(deadline, |token| Pending {
                token,
                client,
                post: Answered::of(post),
                source: destination.source,
                service: destination.service,
            });
            let Some(noted) = noted else { return self.nak_post(client, post, NakCode::NO_RESOURCES) };
            token = noted;
            if let Some(known) = self.clients.get_mut(client) {
                known.posts.insert(token);
            }
        }
        if !self.pass_on(client, post, &destination, token, rights) {
            self.clients.forget_post(token);
            self.nak_post(client, post, NakCode::INVALID_CONTENT);
        }
    }

    /// Where a post goes, or why nowhere.
    fn destination(&self, client: ClientId, post: &PostMsg<'_>) -> Result<Destination, Refused> {
        let known = self.clients.get(client).filter(|known| known.login.is_some()).ok_or(NakCode::ACCESS_DENIED)?;
        let item = match known.streams.get(StreamId(post.stream_id)) {
            Some(Open::Login) => None,
            Some(Open::Item(item)) => Some(self.items.root(item)),
            _ => return Err(NakCode::NOT_OPEN.into()),
        };
        let (service, name) = named_by(&self.items, item, post, known.speaks_json)?;
        let service = service.ok_or(NakCode::SOURCE_UNKNOWN)?;
        if item.is_none() && name.is_empty() {
            return Err(NakCode::SYMBOL_UNKNOWN.into());
        }
        self.sources.services().alive(service).ok_or(NakCode::SOURCE_UNKNOWN)?;
        if let Some((source, remote, handle)) = item.and_then(|item| self.sources.open_at_source(&self.items, item)) {
            return Ok(Destination { service, name, item, source, remote, handle: Some(handle) });
        }
        let service_at = |provider: &&Provider| self.sources.is_up(provider.source) && provider.offer.condition.up;
        let providers = &self.sources.services().alive(service).ok_or(NakCode::SOURCE_UNKNOWN)?.providers;
        let provider = providers.iter().find(service_at).ok_or(NakCode::SOURCE_DOWN)?;
        Ok(Destination { service, name, item, source: provider.source, remote: provider.service, handle: None })
    }

    fn permit_post_to(
        &mut self,
        client: ClientId,
        post: &PostMsg<'_>,
        to: &Destination,
    ) -> Result<Option<PostRights>, Denial> {
        if !self.gate.is_on() {
            return Ok(None);
        }
        let service = self.sources.services().get(to.service).map_or_else(String::new, |service| service.name.clone());
        self.permit_post(client, &service, &to.name, post)
    }

    /// A post is refused for want of a right: if an answer is wanted, it says which.
    fn deny_post(&mut self, client: ClientId, post: &PostMsg<'_>, text: &str) {
        if !post.flags.contains(PostFlags::ACK) {
            return;
        }
        self.nak(client, &Answered::of(post), NakCode::ACCESS_DENIED, text);
    }

    /// Passes a post on: its key without service id, the poster filled in.
    /// What the poster may do is said here, where permissions are on, whatever the client has written.
    fn pass_on(
        &mut self,
        client: ClientId,
        post: &PostMsg<'_>,
        to: &Destination,
        token: u32,
        rights: Option<PostRights>,
    ) -> bool {
        let Some(known) = self.clients.get(client) else {
            hub_items::fault!("a post of a client that is gone: {client:?}");
            return false;
        };
        let mut user = post.post_user_info;
        if user.addr == 0 {
            user.addr = PostUserInfo::of_peer(known.info.address, 0).addr;
        }
        if user.id == 0 {
            user.id = client.0 + 1;
        }
        // An item that is not open at its source now is found by its key.
        let own = to.item.filter(|_| to.handle.is_none()).map(|item| self.items.key(item).msg_key(0));
        let key = own.or(post.key).map(|key| MsgKey { service_id: None, ..key });
        let post_user_rights = rights.map_or(post.post_user_rights, |rights| Some(rights.0));
        let changed = PostMsg { post_user_info: user, key, post_user_rights, ..post.clone() };
        let mut rwf = Vec::new();
        if encode::append(&mut rwf, 512 + post.body.len(), |w| changed.encode(w)).is_err() {
            return false;
        }
        // The caller answers what cannot be passed on.
        let Some(source) = self.sources.up_mut(to.source) else { return false };
        let handle = to.handle.map(|handle| handle.0);
        source.writer.request(&Request::Post { service: to.remote.0, handle, token, rwf: &rwf });
        true
    }

    /// The P2PS answers a post itself, if an answer is wanted.
    fn nak_post(&mut self, client: ClientId, post: &PostMsg<'_>, code: NakCode) {
        self.refuse_post(client, post, &code.into());
    }

    /// As [`P2ps::nak_post`], with a reason of its own.
    fn refuse_post(&mut self, client: ClientId, post: &PostMsg<'_>, refused: &Refused) {
        if post.flags.contains(PostFlags::ACK) {
            self.nak(client, &Answered::of(post), refused.code, refused.text);
        }
    }

    fn nak(&mut self, client: ClientId, post: &Answered, code: NakCode, text: &str) {
        let ack = AckMsg {
            ack_id: post.post_id,
            nak_code: Some(code),
            text: Some(text.as_bytes()),
            seq_num: post.seq_num,
            ..AckMsg::new(post.domain, post.stream.0)
        };
        self.counters.naks_out += 1;
        self.send(client, post.stream, |w| ack.encode(w));
    }

    /// A Source Distributor's answer to a post.
    pub(crate) fn ack(&mut self, token: u32, rwf: &[u8]) {
        let Some(pending) = self.clients.forget_post(token) else {
            self.counters.acks_unclaimed += 1;
            return;
        };
        let Ok(Msg::Ack(ack)) = Msg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        let key = ack.key.map(|key| MsgKey { service_id: key.service_id.map(|_| pending.service.0), ..key });
        let Answered { stream, domain, post_id, seq_num } = pending.post;
        // EMA drops an ack whose number is not its post's, and tells its application NoResponse.
        let changed = AckMsg { stream_id: stream.0, domain, ack_id: post_id, seq_num, key, ..ack };
        self.counters.acks_out += 1;
        self.send(pending.client, stream, |w| changed.encode(w));
    }

    /// Posts that were not answered in time get their nak.
    pub(crate) fn time_out_posts(&mut self) {
        while let Some(pending) = self.clients.posts.overdue(self.now) {
            self.counters.posts_timed_out += 1;
            self.nak_pending(&pending, NakCode::NO_RESPONSE);
        }
    }

    /// A source is lost: its posts will not be answered.
    pub(crate) fn nak_posts_to(&mut self, number: SourceId) {
        for token in self.clients.posts.tokens(|pending| pending.source == number) {
            if let Some(pending) = self.clients.posts.take(token) {
                self.nak_pending(&pending, NakCode::SOURCE_DOWN);
            }
        }
    }

    fn nak_pending(&mut self, pending: &Pending, code: NakCode) {
        if let Some(known) = self.clients.get_mut(pending.client) {
            known.posts.remove(&pending.token);
        }
        self.nak(pending.client, &pending.post, code, code.text());
    }
}
