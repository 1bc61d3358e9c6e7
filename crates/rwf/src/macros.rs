//! Open enumerations and flag sets: numbers of the wire with names, that keep what they have no name for.

/// A number with named values. Unknown values stay representable; matching is by the constants.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident: $repr:ty { $($(#[$doc:meta])* $value:ident = $number:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$doc])* pub const $value: Self = Self($number);)*

            /// All values that have a name.
            pub const ALL: &'static [Self] = &[$(Self($number)),*];

            /// The name of the constant, if the value has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(v if v == $number => Some(stringify!($value)),)*
                    _ => None,
                }
            }

            /// The value with the name of a constant.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($value) => Some(Self::$value),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            /// The name, or the number if there is none.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => std::fmt::Display::fmt(&self.0, f),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// A set of flag bits. Bits without a name are kept.
macro_rules! flag_set {
    ($(#[$meta:meta])* $name:ident: $repr:ty { $($(#[$doc:meta])* $flag:ident = $bits:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $repr);

        impl $name {
            /// No bit set.
            pub const NONE: Self = Self(0);
            $($(#[$doc])* pub const $flag: Self = Self($bits);)*

            /// The flags that have a name, with it, from the lowest bit up.
            pub const NAMES: &'static [(Self, &'static str)] = &[$((Self($bits), stringify!($flag))),*];

            /// True if all bits of `other` are set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits of both, this one and `other`.
            #[inline]
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The bits of this one without those of `other`.
            #[inline]
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Sets or clears the bits of `other`.
            #[inline]
            pub const fn set(&mut self, other: Self, on: bool) {
                *self = if on { self.with(other) } else { self.without(other) };
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            #[inline]
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl std::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, other: Self) {
                *self = self.with(other);
            }
        }

        impl std::fmt::Display for $name {
            /// Names joined by `|`; bits without a name in hexadecimal; `0` for none.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut left = self.0;
                let mut separator = "";
                for &(flag, name) in Self::NAMES {
                    if left & flag.0 != 0 {
                        write!(f, "{separator}{name}")?;
                        separator = "|";
                        left &= !flag.0;
                    }
                }
                if left != 0 || separator.is_empty() {
                    if left == 0 { f.write_str("0")?; } else { write!(f, "{separator}{left:#x}")?; }
                }
                Ok(())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub(crate) use {flag_set, open_enum};
