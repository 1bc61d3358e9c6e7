//! What is said of single services, over what is said of all.

use super::{Config, Providers, SessionId, SourceDistributor};
use crate::ids::StreamId;
use crate::items::Item;
use rwf::msg::Msg;
use rwf::{State, StateCode, StreamState, peek};

/// Declares the values that one service may have of its own: what is said, and what counts.
macro_rules! by_service {
    ($($key:ident: $ty:ty;)+) => {
        /// Values of one service; where one is `None`, that of the [`Config`] counts, which has the same name and says what it is.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct ServiceConfig {
            $(
                #[doc = concat!("[`Config::", stringify!($key), "`] of this service.")]
                pub $key: Option<$ty>,
            )+
            /// Posts to this service that may wait for their acks, within [`Config::max_pending_posts`] of all.
            pub max_pending_posts: Option<usize>,
        }

        /// The values that count for a service.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct ServiceRules {
            $(pub(crate) $key: $ty,)+
        }

        impl ServiceRules {
            fn new(config: &Config, own: Option<&ServiceConfig>) -> Self {
                Self { $($key: own.and_then(|own| own.$key).unwrap_or(config.$key),)+ }
            }
        }
    };
}

by_service! {
    age_unwatched: u64;
    failback: u64;
    restart: u64;
    request_timeout: u64;
    retry_max_interval: u64;
    retry_limit: u32;
    recover_on_close: bool;
    poll_refused: bool;
    max_load: u32;
    counts_unwatched: bool;
    recognition: u64;
    stale_recovery_retry: u64;
    post_timeout: u64;
    post_flush: u64;
    preemption_retry: u64;
    point_to_point: bool;
    forward_priority: bool;
}

impl ServiceRules {
    /// Whether an item is asked for again though its provider has closed it for good, and does not deny it to those who watch: one that they
    /// have had, or one that the provider did not have, in case that it will.
    pub(crate) fn recovers(&self, item: &Item, state: &State<'_>) -> bool {
        let is_closed = state.stream == StreamState::CLOSED && state.code != StateCode::NOT_ENTITLED;
        let is_wanted = if item.is_answered() { self.recover_on_close } else { self.poll_refused };
        is_wanted && is_closed && !item.is_private() && !item.is_snapshot()
    }
}

impl Providers {
    /// What is said of a service alone.
    pub(crate) fn said_of<'c>(&self, config: &'c Config, service: u16) -> Option<&'c ServiceConfig> {
        // Most sites say nothing of single services.
        if config.services.is_empty() {
            return None;
        }
        self.service(service).and_then(|known| config.services.get(&known.name))
    }

    /// The values that count for a service.
    pub(crate) fn rules(&self, config: &Config, service: u16) -> ServiceRules {
        ServiceRules::new(config, self.said_of(config, service))
    }
}

impl SourceDistributor {
    /// The service that a message of a provider is of, by its stream, or by its key where the stream is new.
    pub fn service_of_message(&self, id: SessionId, msg: &[u8]) -> Option<&str> {
        let session = self.providers.get(id)?;
        let stream = session.streams.get(StreamId(peek::header(msg).ok()?.stream_id));
        let known = stream.handle().or(stream.mirror()).and_then(|handle| self.items.get(handle));
        let service = match known {
            Some(item) => item.service(),
            None => session.offer_by_id(Msg::decode(msg).ok()?.key()?.service_id?)?.service,
        };
        self.providers.service(service).map(|service| service.name.as_str())
    }
}
