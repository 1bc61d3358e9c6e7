//! The administrative domain models that transport, hub and tools share: login, directory, dictionary, item states, the
//! payloads of requests (batches, views, symbol-list behaviours), and the links of chains.
//!
//! The models own their content: they are built and read a few times per connection, never per update. Each knows the
//! messages of its domain, decodes them and encodes them byte for byte as the SDK's `ValueAdd` layer does.

pub mod chain;
pub mod dictionary;
pub mod directory;
mod elements;
pub mod login;
pub mod post;
mod read;
pub mod request;
pub mod state;
