//! Posts of applications, and what becomes of them: an update, an image or a state of the item.

use rwf::msg::{Domain, Msg, PostMsg, PostUserInfo, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Qos, State};

/// A post that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Domain of the item.
    pub domain: Domain,
    /// Name of the item.
    pub name: String,
    /// The message to publish.
    pub what: Posted,
    /// The type of the payload.
    pub container: DataType,
    /// The payload.
    pub body: Vec<u8>,
    /// The posting user; goes out with what is published.
    pub user: PostUserInfo,
}

/// The subject of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// A change of data: a payload alone, or an update message.
    Update(UpdateType),
    /// A whole image: a refresh message.
    Image,
    /// A whole status message.
    Status(Vec<u8>),
}

impl Post {
    /// What a post message asks for; `name` is the item's when the post has no key of its own. `None` when it makes no sense.
    pub fn of(post: &PostMsg<'_>, name: Option<String>) -> Option<Self> {
        let keyed = post.key.as_ref().filter(|key| key.name.is_some()).map(|key| key.name_lossy().into_owned());
        let name = keyed.or(name).filter(|name| !name.is_empty())?;
        let (domain, user) = (post.domain, post.post_user_info);
        let whole = |what, container, body: &[u8]| Self { domain, name, what, container, body: body.to_vec(), user };
        if post.container != DataType::MSG {
            return Some(whole(Posted::Update(UpdateType::UNSPECIFIED), post.container, post.body));
        }
        match Msg::decode(post.body) {
            Ok(Msg::Update(update)) => Some(whole(Posted::Update(update.update_type), update.container, update.body)),
            Ok(Msg::Refresh(refresh)) => Some(whole(Posted::Image, refresh.container, refresh.body)),
            Ok(Msg::Status(_)) => Some(whole(Posted::Status(post.body.to_vec()), DataType::NO_DATA, &[])),
            _ => None,
        }
    }

    /// Writes what the watchers of the item get.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn write(&self, sequence: u32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let post_user_info = Some(self.user);
        match &self.what {
            Posted::Update(update_type) => UpdateMsg {
                container: self.container,
                update_type: *update_type,
                seq_num: Some(sequence),
                post_user_info,
                body: &self.body,
                ..UpdateMsg::new(self.domain, 0)
            }
            .encode(w),
            Posted::Image => RefreshMsg {
                container: self.container,
                flags: RefreshFlags::REFRESH_COMPLETE.with(RefreshFlags::CLEAR_CACHE),
                seq_num: Some(sequence),
                state: State::OPEN_OK,
                qos: Some(Qos::REALTIME_TICK),
                post_user_info,
                body: &self.body,
                ..RefreshMsg::new(self.domain, 0)
            }
            .encode(w),
            Posted::Status(message) => match Msg::decode(message) {
                Ok(Msg::Status(status)) => {
                    StatusMsg { domain: self.domain, stream_id: 0, key: None, post_user_info, ..status }.encode(w)
                }
                _ => Ok(()),
            },
        }
    }

    /// Bytes that are enough for [`Self::write`].
    pub fn room(&self) -> usize {
        let status = if let Posted::Status(message) = &self.what { message.len() } else { 0 };
        self.body.len() + status + 256
    }
}
