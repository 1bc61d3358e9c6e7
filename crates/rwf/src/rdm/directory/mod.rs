//! The source directory: which services there are, what they offer and how they are.
//!
//! The payload is a map of services by id, each a filter list of parts. [`Service`] is one such entry; a provider's first
//! [`Refresh`] adds all, an [`Update`] adds, changes or deletes some. What a server knows of a service is the sum of the
//! entries it was sent: [`Service::apply`].

mod message;
mod service;

pub use message::{ConsumerStatus, Refresh, Request, ServiceStatus, Status, Update, encode_close, services};
pub use service::{Action, Data, Group, Info, Link, Load, Part, Service, ServiceState};

/// Bits of the filter of a directory key, one for each part of a service (ETA `Directory.ServiceFilterFlags`).
pub mod filter {
    /// Name, capabilities, dictionaries, qualities of service.
    pub const INFO: u32 = 0x01;
    /// Up or down, accepting requests or not.
    pub const STATE: u32 = 0x02;
    /// Transient states and mergers of item groups.
    pub const GROUP: u32 = 0x04;
    /// Limits and load.
    pub const LOAD: u32 = 0x08;
    /// Data for all users of the service.
    pub const DATA: u32 = 0x10;
    /// Upstream sources.
    pub const LINK: u32 = 0x20;
    /// Sequenced multicast; not modelled.
    pub const SEQUENCED_MULTICAST: u32 = 0x40;
    /// All parts that are modelled.
    pub const ALL: u32 = 0x3F;
}
