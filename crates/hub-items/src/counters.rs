//! Counters as data: a struct of counters is declared once, by [`counters!`](crate::counters!), with what each counts as its
//! comment. The struct's table (name, kind, unit, help) and its values in the table's order follow from that, so that a
//! counter cannot be missing from status, log or metrics.

/// One counter of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The field's name, as `updates_in`; unique in its table.
    pub name: &'static str,
    /// Whether the value only grows.
    pub kind: Kind,
    /// The unit of the value.
    pub unit: Unit,
    /// The counter's meaning: one sentence, for clients.
    pub help: &'static str,
}

/// How a value moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A total since the start: it never falls.
    Total,
    /// The present value.
    Gauge,
}

/// What a value is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Things or events, which the counter's name says.
    Count,
    /// Bytes; the counter's name ends with `bytes`.
    Bytes,
}

/// A struct of counters.
pub trait Counted {
    /// Each counter, in the order of the fields.
    const TABLE: &'static [Counter];

    /// The values, in the order of [`Counted::TABLE`].
    fn values(&self) -> Vec<u64>;
}

/// Declares a struct of counters, with its [`Counted`] and with `Default` at 0. The comment of a field is its help: plain words.
///
/// ```
/// use hub_items::counters::{Counted as _, Kind};
///
/// hub_items::counters! {
///     /// What a port counts.
///     pub struct Port {
///         /// Clients that have connected.
///         pub connected: u64,
///         /// Clients that are connected.
///         pub clients: u64 as Gauge,
///         /// Bytes that it has sent.
///         pub sent_bytes: u64 in Bytes,
///     }
/// }
/// let port = Port { connected: 3, clients: 1, ..Port::default() };
/// assert_eq!(port.values(), [3, 1, 0]);
/// assert_eq!((Port::TABLE[1].name, Port::TABLE[1].kind), ("clients", Kind::Gauge));
/// assert_eq!(Port::TABLE[0].help, "Clients that have connected.");
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$outer:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                $field_vis:vis $field:ident: u64 $(as $kind:ident)? $(in $unit:ident)?
            ),* $(,)?
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $vis struct $name {
            $( $(#[doc = $help])+ $field_vis $field: u64, )*
        }

        impl $crate::counters::Counted for $name {
            const TABLE: &'static [$crate::counters::Counter] = &[$(
                $crate::counters::Counter {
                    name: stringify!($field),
                    // The first of the two is taken: what the field says, or else the usual.
                    kind: [$($crate::counters::Kind::$kind,)? $crate::counters::Kind::Total][0],
                    unit: [$($crate::counters::Unit::$unit,)? $crate::counters::Unit::Count][0],
                    help: concat!($($help),+).trim_ascii(),
                },
            )*];

            fn values(&self) -> Vec<u64> {
                vec![$(self.$field),*]
            }
        }
    };
}
