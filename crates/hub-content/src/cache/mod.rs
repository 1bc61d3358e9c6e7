//! The cache: held images of items that others publish, and which items are held.
//!
//! * [`rules`]: which items of which services are cached;
//! * `images`: the images, by item number, bounded, with what each is worth.
//!
//! Whoever has a cache tells it every part of an image (`images::Cache::refresh`), every update and every state, in the order in which
//! the watchers get them. Then an image that is given out stands before the next update, and behind the last one.

pub mod images;
pub mod rules;
