//! Posts to published items: they change the held image, and are published, as if the provider had sent them.

use crate::SourceDistributor;
use crate::ids::{GroupId, Handle};
use crate::item::ItemKey;
use crate::items::Item;
use rwf::msg::{Domain, Msg, MsgKey, NakCode, PostMsg, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Qos};

/// A refused post: code and text.
type Nak = (NakCode, &'static str);

const UNREADABLE: Nak = (NakCode::INVALID_CONTENT, "The message in the post is malformed");

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
        let handle = self.posted_to(service, handle, post, nested.as_ref())?;
        self.published.images.touch(self.items[handle].image().expect("a published item has an image"));
        let post_user_info = Some(post.post_user_info);
        match nested {
            None => {
                let (container, body) = (post.container, post.body);
                self.posted_update(
                    handle,
                    &UpdateMsg { container, post_user_info, body, ..UpdateMsg::new(post.domain, 0) },
                )
            }
            Some(Msg::Update(update)) => self.posted_update(handle, &UpdateMsg { post_user_info, ..update }),
            Some(Msg::Refresh(refresh)) => self.posted_refresh(handle, &RefreshMsg { post_user_info, ..refresh }),
            Some(Msg::Status(status)) => self.posted_status(handle, &StatusMsg { post_user_info, ..status }),
            Some(_) => Err((NakCode::INVALID_CONTENT, "Only refresh, update and status can be posted")),
        }
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
                self.posted_item(service, domain, &key, matches!(nested, Some(Msg::Refresh(_))))
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
        let qos = self.services[service].qos.first().copied().unwrap_or(Qos::REALTIME_TICK);
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
