//! Wire format.
#![forbid(unsafe_code)]
