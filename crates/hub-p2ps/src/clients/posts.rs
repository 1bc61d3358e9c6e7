//! Posts on their way up, and what is answered to whom.

use super::streams::Open;
use crate::ids::{ClientId, Handle, ItemId, RemoteService, ServiceId, SourceId, StreamId};
use crate::sources::services::Provider;
use crate::stream::Request;
use crate::{P2ps, encode};
use permissions::Denial;
use permissions::rights::PostRights;
use rwf::msg::{AckMsg, Domain, Msg, MsgKey, NakCode, PostFlags, PostMsg, PostUserInfo};
use std::collections::VecDeque;

/// Tokens number a slot in the low bits and its use above; none is 0.
const SLOT_BITS: u32 = 20;
const SLOTS: u32 = 1 << SLOT_BITS;

/// A post that is not answered.
#[derive(Debug, Clone, Copy)]
struct Pending {
    token: u32,
    client: ClientId,
    stream: StreamId,
    domain: Domain,
    post_id: u32,
    seq_num: Option<u32>,
    source: SourceId,
    service: ServiceId,
}

/// All posts that are not answered.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    slots: Vec<Option<Pending>>,
    uses: Vec<u32>,
    free: Vec<u32>,
    /// Token and time by which it must be answered, oldest first.
    deadlines: VecDeque<(u64, u32)>,
}

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
        self.deadlines.push_back((deadline, token));
        Some(token)
    }

    fn take(&mut self, token: u32) -> Option<Pending> {
        let slot = self.slots.get_mut((token & (SLOTS - 1)) as usize)?;
        if slot.as_ref()?.token != token {
            return None;
        }
        self.free.push(token & (SLOTS - 1));
        slot.take()
    }

    /// When the oldest post has to be answered.
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.deadlines.front().map(|(at, _)| *at)
    }

    fn overdue(&mut self, now: u64) -> Option<Pending> {
        while let Some(&(at, token)) = self.deadlines.front() {
            if at > now {
                return None;
            }
            self.deadlines.pop_front();
            if let Some(pending) = self.take(token) {
                return Some(pending);
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
    }
}

/// Where a post goes.
struct Destination {
    service: ServiceId,
    source: SourceId,
    remote: RemoteService,
    handle: Option<Handle>,
}

impl P2ps {
    /// A post of a client.
    pub(crate) fn post(&mut self, client: ClientId, post: &PostMsg<'_>) {
        self.counters.posts_in += 1;
        let destination = match self.destination(client, post) {
            Ok(destination) => destination,
            Err(code) => return self.nak_post(client, post, code),
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
            let deadline = self.now.saturating_add(self.config.post_timeout);
            let noted = self.posts.insert(deadline, |token| Pending {
                token,
                client,
                stream: StreamId(post.stream_id),
                domain: post.domain,
                post_id: post.post_id.unwrap_or(0),
                seq_num: post.seq_num,
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
            self.forget_post(token);
            self.nak_post(client, post, NakCode::INVALID_CONTENT);
        }
    }

    /// Where a post goes, or why nowhere.
    fn destination(&self, client: ClientId, post: &PostMsg<'_>) -> Result<Destination, NakCode> {
        let known = self.clients.get(client).filter(|known| known.login.is_some()).ok_or(NakCode::ACCESS_DENIED)?;
        let item = match known.streams.get(StreamId(post.stream_id)) {
            Some(Open::Login) => None,
            Some(Open::Item(item)) => Some(self.items.root(item)),
            _ => return Err(NakCode::NOT_OPEN),
        };
        let own = item.map(|item| self.items.get(item).service());
        let service = post.key.and_then(|key| key.service_id).map(ServiceId).or(own).ok_or(NakCode::SOURCE_UNKNOWN)?;
        if item.is_none() && post.key.is_none_or(|key| key.name.is_none_or(<[u8]>::is_empty)) {
            return Err(NakCode::SYMBOL_UNKNOWN);
        }
        self.services.alive(service).ok_or(NakCode::SOURCE_UNKNOWN)?;
        if own == Some(service)
            && let Some(destination) = item.and_then(|item| self.open_at_source(item))
        {
            return Ok(destination);
        }
        let service_at = |provider: &&Provider| self.sources.is_up(provider.source) && provider.offer.condition.up;
        let providers = &self.services.alive(service).ok_or(NakCode::SOURCE_UNKNOWN)?.providers;
        let provider = providers.iter().find(service_at).ok_or(NakCode::SOURCE_DOWN)?;
        Ok(Destination { service, source: provider.source, remote: provider.service, handle: None })
    }

    fn open_at_source(&self, id: ItemId) -> Option<Destination> {
        let (source, handle) = self.items.open_at(id)?;
        let service = self.items.get(id).service();
        let known = self.sources.up(source)?.services.iter().find(|(_, public)| **public == service);
        Some(Destination { service, source, remote: *known?.0, handle: Some(handle) })
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
        let own = self.clients.get(client).and_then(|known| known.streams.item(StreamId(post.stream_id)));
        let named = post.key.and_then(|key| key.name).filter(|name| !name.is_empty());
        let name = named.or_else(|| own.and_then(|item| self.items.key(item).name)).unwrap_or_default().to_vec();
        let service = self.services.get(to.service).map_or_else(String::new, |service| service.name.clone());
        self.permit_post(client, &service, &name, post)
    }

    /// A post is refused for want of a right: if an answer is wanted, it says which.
    fn deny_post(&mut self, client: ClientId, post: &PostMsg<'_>, text: &str) {
        if !post.flags.contains(PostFlags::ACK) {
            return;
        }
        let ack = AckMsg {
            ack_id: post.post_id.unwrap_or(0),
            nak_code: Some(NakCode::ACCESS_DENIED),
            text: Some(text.as_bytes()),
            seq_num: post.seq_num,
            ..AckMsg::new(post.domain, post.stream_id)
        };
        self.counters.naks_out += 1;
        self.send(client, StreamId(post.stream_id), |w| ack.encode(w));
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
            debug_assert!(false, "a post of a client that is gone: {client:?}");
            return false;
        };
        let mut user = post.post_user_info;
        if user.addr == 0 {
            user.addr = PostUserInfo::of_peer(known.info.address, 0).addr;
        }
        if user.id == 0 {
            user.id = client.0 + 1;
        }
        let key = post.key.map(|key| MsgKey { service_id: None, ..key });
        let post_user_rights = rights.map_or(post.post_user_rights, |rights| Some(rights.0));
        let changed = PostMsg { post_user_info: user, key, post_user_rights, ..post.clone() };
        let mut rwf = Vec::new();
        if encode::append(&mut rwf, 512 + post.body.len(), |w| changed.encode(w)).is_err() {
            return false;
        }
        let Some(source) = self.sources.up_mut(to.source) else { return false };
        let handle = to.handle.map(|handle| handle.0);
        source.writer.request(&Request::Post { service: to.remote.0, handle, token, rwf: &rwf });
        true
    }

    /// A client is gone: nobody waits for its acks. Those of others are not looked at.
    pub(crate) fn forget_posts_of(&mut self, client: ClientId) {
        let own = self.clients.get_mut(client).map(|known| std::mem::take(&mut known.posts));
        for token in own.unwrap_or_default() {
            self.posts.take(token);
        }
    }

    fn forget_post(&mut self, token: u32) -> Option<Pending> {
        let pending = self.posts.take(token)?;
        if let Some(known) = self.clients.get_mut(pending.client) {
            known.posts.remove(&token);
        }
        Some(pending)
    }

    /// The P2PS answers a post itself, if an answer is wanted.
    fn nak_post(&mut self, client: ClientId, post: &PostMsg<'_>, code: NakCode) {
        if post.flags.contains(PostFlags::ACK) {
            self.nak(client, StreamId(post.stream_id), post.domain, post.post_id.unwrap_or(0), post.seq_num, code);
        }
    }

    fn nak(
        &mut self,
        client: ClientId,
        stream: StreamId,
        domain: Domain,
        post_id: u32,
        seq_num: Option<u32>,
        code: NakCode,
    ) {
        let ack = AckMsg {
            ack_id: post_id,
            nak_code: Some(code),
            text: Some(code.text().as_bytes()),
            seq_num,
            ..AckMsg::new(domain, stream.0)
        };
        self.counters.naks_out += 1;
        self.send(client, stream, |w| ack.encode(w));
    }

    /// A Source Distributor's answer to a post.
    pub(crate) fn ack(&mut self, token: u32, rwf: &[u8]) {
        let Some(pending) = self.forget_post(token) else {
            self.counters.acks_unclaimed += 1;
            return;
        };
        let Ok(Msg::Ack(ack)) = Msg::decode(rwf) else {
            self.counters.hub_messages_bad += 1;
            return;
        };
        let key = ack.key.map(|key| MsgKey { service_id: key.service_id.map(|_| pending.service.0), ..key });
        let changed = AckMsg {
            stream_id: pending.stream.0,
            domain: pending.domain,
            ack_id: pending.post_id,
            seq_num: ack.seq_num.or(pending.seq_num),
            key,
            ..ack
        };
        self.counters.acks_out += 1;
        self.send(pending.client, pending.stream, |w| changed.encode(w));
    }

    /// Posts that were not answered in time get their nak.
    pub(crate) fn time_out_posts(&mut self) {
        while let Some(pending) = self.posts.overdue(self.now) {
            self.counters.posts_timed_out += 1;
            self.nak_pending(&pending, NakCode::NO_RESPONSE);
        }
    }

    /// A source is lost: its posts will not be answered.
    pub(crate) fn nak_posts_to(&mut self, number: SourceId) {
        for token in self.posts.tokens(|pending| pending.source == number) {
            if let Some(pending) = self.posts.take(token) {
                self.nak_pending(&pending, NakCode::SOURCE_DOWN);
            }
        }
    }

    fn nak_pending(&mut self, pending: &Pending, code: NakCode) {
        if let Some(known) = self.clients.get_mut(pending.client) {
            known.posts.remove(&pending.token);
        }
        self.nak(pending.client, pending.stream, pending.domain, pending.post_id, pending.seq_num, code);
    }
}
