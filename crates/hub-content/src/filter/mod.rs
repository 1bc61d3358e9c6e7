//! What of a service's data goes on: fields that pass, and kinds of updates that do not.
//!
//! * [`rules`]: what an administrator says of each service;
//! * [`bodies`]: what is left of a message's body, under a filter as under a view.
//!
//! A Source Distributor filters what its providers send, once for all (`distributor::filtered`): images that are held or cached there
//! are without the fields. At a P2PS a filter is a part of the view through which every watcher of the service sees its item
//! (`p2ps::items::view_spec`): what is cached there is whole.

pub mod rules;

pub use rwf::passing as bodies;
