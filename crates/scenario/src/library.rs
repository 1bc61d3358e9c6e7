//! The scenarios that ship.

/// A scenario that ships: its name and its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// Name, for `quoteway scenario run NAME`.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// All of them, by name.
        pub const SHIPPED: &[Shipped] =
            &[$(Shipped { name: $name, text: include_str!(concat!("../library/", $name, ".toml")) }),*];
    };
}

shipped![
    "connection-flaps",
    "connection-reset",
    "dictionary-refused",
    "dictionary-unanswered",
    "frame-cut",
    "group-merged",
    "group-suspect",
    "image-clear-cache",
    "image-cut",
    "image-flood",
    "image-parts",
    "image-unsolicited",
    "item-closed",
    "item-closed-recover",
    "item-recovered-often",
    "item-reopen-storm",
    "item-suspect",
    "item-suspect-reported",
    "login-closed",
    "login-refused",
    "login-suspect",
    "login-unanswered",
    "open-window",
    "pings",
    "post-acks-unnumbered",
    "post-refused",
    "post-unanswered",
    "server-away",
    "server-deaf",
    "server-does-not-ping",
    "server-hangs",
    "server-late",
    "server-mute",
    "server-restarts",
    "server-slow",
    "service-deleted",
    "service-down",
    "service-flaps",
    "service-not-accepting",
    "service-renumbered",
    "token-expires",
    "update-malformed",
    "updates-many",
    "updates-missing",
    "updates-reordered",
    "updates-repeated",
    "values-change",
];

/// The scenario of a name.
pub fn shipped(name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|shipped| shipped.name == name)
}
