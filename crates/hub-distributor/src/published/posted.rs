//! Posts to published items: they change the held image, and are published, as if the provider had sent them.

use crate::SourceDistributor;
use crate::ids::{GroupId, Handle};
use crate::item::ItemKey;
use crate::items::Item;
use permissions::rights::PostRights;
use rwf::msg::{Domain, Msg, MsgKey, NakCode, PostMsg, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Qos};

/// A refused post: code and text.
type Nak = (NakCode, &'static str);

const NO_CREATION: Nak = (NakCode::ACCESS_DENIED, "Access Denied: User may not create items");
const NO_DELETION: Nak = (NakCode::ACCESS_DENIED, "Access Denied: User may not delete items");
const NO_LOCK: Nak = (NakCode::ACCESS_DENIED, "Access Denied: User may not change permission data");
const UNREADABLE: Nak = (NakCode::INVALID_CONTENT, "The message in the post is malformed");

/// Whether the poster may do more than change values: as the P2PS says, where it has permissions, or the post of itself. A post that says
/// nothing may.
fn may(post: &PostMsg<'_>, right: PostRights) -> bool {
    post.post_user_rights.is_none_or(|rights| PostRights(rights).contains(right))
}

impl SourceDistributor {
    /// Applies a post to the held image of the item it names, and publishes it.
    pub(crate) fn post_to_cache(
        &mut self,
        service: u16,
        handle: Option<Handle>,
        post: &PostMsg<'_>,
    ) -> Result<(), Nak> {
        let nested = (post.container == DataType::MSG).then(|| Msg::decode(post.body)).transpose();
        let nested = nested.map_err(|_| UNREADABLE)?;
        let (inner, is_final) = (nested.as_ref(), |state: rwf::State<'_>| state.stream.is_final());
        if inner.and_then(Msg::state).copied().is_some_and(is_final) && !may(post, PostRights::DELETE) {
            return Err(NO_DELETION);
        }
        // The lock of the post guards what is in it.
        let perm_data = inner.and_then(Msg::perm_data).or(post.perm_data);
        if perm_data.is_some() && !may(post, PostRights::MODIFY_PERMISSIONS) {
            return Err(NO_LOCK);
        }
        let handle = self.posted_to(service, handle, post, nested.as_ref())?;
        if let Some(image) = self.items[handle].image() {
            self.published.images.touch(image);
        } else {
            hub_items::fault!("{handle:?} has no image, and is published");
        }
        let (post_user_info, domain) = (Some(post.post_user_info), Domain(self.items[handle].domain()));
        match nested {
            None => {
                let (container, body) = (post.container, post.body);
                let update = UpdateMsg { container, post_user_info, perm_data, body, ..UpdateMsg::new(domain, 0) };
                self.posted_update(handle, &update)
            }
            Some(Msg::Update(update)) => {
                self.posted_update(handle, &UpdateMsg { domain, post_user_info, perm_data, ..update })
            }
            Some(Msg::Refresh(refresh)) => {
                let kept = self.kept_lock(handle, post, &refresh);
                let perm_data = perm_data.or(kept.as_deref());
                self.posted_refresh(handle, &RefreshMsg { domain, post_user_info, perm_data, ..refresh })
            }
            Some(Msg::Status(status)) => {
                self.posted_status(handle, &StatusMsg { domain, post_user_info, perm_data, ..status })
            }
            Some(_) => Err((NakCode::INVALID_CONTENT, "Only refresh, update and status can be posted")),
        }
    }

    /// A refresh says anew what the item demands. One without permission data opens the item to everyone, which takes the right to change
    /// permission data, said in so many words: else the item demands what it did.
    fn kept_lock(&self, handle: Handle, post: &PostMsg<'_>, refresh: &RefreshMsg<'_>) -> Option<Box<[u8]>> {
        let opens = post.post_user_rights.is_some_and(|_| may(post, PostRights::MODIFY_PERMISSIONS));
        let first = refresh.part_num.is_none_or(|part| part == 0);
        let Some(slot) = self.items[handle].image() else {
            hub_items::fault!("{handle:?} is published, and has no image");
            return None;
        };
        self.published.images.get(slot).item_perm_data().filter(|_| first && !opens).map(Into::into)
    }

    /// The published item that a post is for.
    fn posted_to(
        &mut self,
        service: u16,
        handle: Option<Handle>,
        post: &PostMsg<'_>,
        nested: Option<&Msg<'_>>,
    ) -> Result<Handle, Nak> {
        let nested_key = nested.and_then(Msg::key).copied().filter(|key| key.name.is_some());
        let handle = match (handle, nested_key.or(post.key)) {
            (Some(handle), _) => Some(handle),
            (None, Some(key)) => {
                let domain = nested.map_or(post.domain, Msg::domain);
                let create = matches!(nested, Some(Msg::Refresh(_)));
                let may_create = may(post, PostRights::CREATE);
                let known = self.posted_item(service, domain, &key, create && may_create);
                if known.is_none() && create && !may_create {
                    return Err(NO_CREATION);
                }
                known
            }
            (None, None) => {
                return Err((NakCode::INVALID_CONTENT, "An off-stream post needs a key that names the item"));
            }
        };
        let is_published = |item: &Item| item.service() == service && item.is_cached();
        handle
            .filter(|&handle| self.items.get(handle).is_some_and(is_published))
            .ok_or((NakCode::SYMBOL_UNKNOWN, "Item is not published: post a refresh to create it"))
    }

    /// The item that an off-stream post names, in the service's first quality.
    fn posted_item(&mut self, service: u16, domain: Domain, key: &MsgKey<'_>, create: bool) -> Option<Handle> {
        let qos = self.providers[service].qos.first().copied().unwrap_or(Qos::REALTIME_TICK);
        self.key.clear();
        ItemKey::new(domain, key, Some(qos)).write(&mut self.key);
        if create { self.find_or_publish(service) } else { self.items.find(service, &self.key) }
    }

    /// The bytes of a posted message, as they are published.
    fn posted_bytes(&mut self, encode: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<Vec<u8>, Nak> {
        let written = self.composer.write(&mut self.counters, encode);
        written
            .map(<[u8]>::to_vec)
            .ok_or((NakCode::INVALID_CONTENT, "The message in the post is too long to be published"))
    }

    fn posted_update(&mut self, handle: Handle, update: &UpdateMsg<'_>) -> Result<(), Nak> {
        let bytes = self.posted_bytes(|w| update.encode(w))?;
        let Some(bytes) = self.passing_post(handle, bytes) else { return Ok(()) };
        self.take_update(handle, &UpdateMsg::decode(&bytes).map_err(|_| UNREADABLE)?);
        if self.items[handle].has_interest() {
            self.relay_published(handle, &bytes);
        }
        Ok(())
    }

    fn posted_refresh(&mut self, handle: Handle, refresh: &RefreshMsg<'_>) -> Result<(), Nak> {
        let bytes = self.posted_bytes(|w| refresh.encode(w))?;
        if refresh.state.stream.is_final() {
            self.published_final(handle, &refresh.state, None);
        } else if let Some(bytes) = self.passing_post(handle, bytes) {
            self.take_refresh(handle, &RefreshMsg::decode(&bytes).map_err(|_| UNREADABLE)?, &bytes);
        }
        Ok(())
    }

    fn posted_status(&mut self, handle: Handle, status: &StatusMsg<'_>) -> Result<(), Nak> {
        let bytes = self.posted_bytes(|w| status.encode(w))?;
        match status.state.filter(|state| state.stream.is_final()) {
            Some(state) => self.published_final(handle, &state, Some(&bytes)),
            None => self.publish_open_status(handle, GroupId::NONE, status, &bytes),
        }
        Ok(())
    }
}
