//! How far a peer has come: what a session may keep for it before it is known.

/// The standing of a peer, as the owner of its session gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The peer has not logged in: little is kept for it.
    Stranger,
    /// The peer has logged in: the bounds of the configuration hold.
    Known,
    /// Nothing more is taken from it.
    Over,
}
