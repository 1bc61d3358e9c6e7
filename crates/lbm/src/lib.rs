//! Topic messaging.
#![forbid(unsafe_code)]
