//! Parameters and sections of parameters, and the macro that declares them.
//!
//! One declaration makes the struct that the program reads, the table that `quoteway config` prints and the look-up that
//! a file is checked against, so that they cannot disagree.

use super::value::Raw;

/// One parameter of a section, as people and files see it.
pub struct Param<S> {
    /// The parameter's name, type, default and meaning.
    pub info: Info,
    /// Sets it.
    pub set: fn(&mut S, &Raw<'_>) -> Result<(), String>,
    /// Shows its value as it would stand in a TOML file.
    pub show: fn(&S) -> String,
}

/// A parameter without its value.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// The key within its section.
    pub key: &'static str,
    /// The parameter's name in `rmds.cnf`, or "" where RMDS has none.
    pub rmds: &'static str,
    /// The levels between the component and the parameter in `rmds.cnf`, such as `server*ipc*transmissionBus`; mostly none.
    pub scope: &'static str,
    /// The factor for a number in `rmds.cnf`, because the units differ.
    pub factor: i64,
    /// The form of a value.
    pub kind: &'static str,
    /// The default as it would stand in a TOML file.
    pub default: fn() -> String,
    /// The effect, with its unit.
    pub meaning: &'static str,
}

/// A group of parameters with a name of its own in the file.
pub trait Section: Default + Clone + PartialEq + std::fmt::Debug + 'static {
    /// The table's name in the TOML file.
    const NAME: &'static str;
    /// The component's name in `rmds.cnf`.
    const RMDS: &'static str;
    /// The purpose of the section.
    const ABOUT: &'static str;
    /// The section's parameters, in the order in which they are shown.
    fn params() -> &'static [Param<Self>];
}

/// Any section, for what goes over all of them.
pub trait AnySection {
    /// The table's name in the TOML file.
    fn name(&self) -> &'static str;
    /// The component's name in `rmds.cnf`.
    fn rmds(&self) -> &'static str;
    /// The purpose of the section.
    fn about(&self) -> &'static str;
    /// The section's parameters.
    fn infos(&self) -> Vec<&'static Info>;
    /// Sets the parameter of this index.
    ///
    /// # Errors
    /// A sentence that says what was expected and what stands there.
    fn set(&mut self, index: usize, raw: &Raw<'_>) -> Result<(), String>;
    /// The value of the parameter of this index, as it would stand in a TOML file.
    fn show(&self, index: usize) -> String;
}

impl<S: Section> AnySection for S {
    fn name(&self) -> &'static str {
        S::NAME
    }
    fn rmds(&self) -> &'static str {
        S::RMDS
    }
    fn about(&self) -> &'static str {
        S::ABOUT.trim()
    }
    fn infos(&self) -> Vec<&'static Info> {
        S::params().iter().map(|p| &p.info).collect()
    }
    fn set(&mut self, index: usize, raw: &Raw<'_>) -> Result<(), String> {
        (S::params()[index].set)(self, raw)
    }
    fn show(&self, index: usize) -> String {
        (S::params()[index].show)(self)
    }
}

/// Declares a section: `key: type = default, "rmdsName", "Meaning.";` a line. Between the RMDS name and the meaning may
/// stand `in "scope*levels"` and `times 1000` (the factor from RMDS's unit to ours).
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident = $table:literal, $rmds:literal;
        $($key:ident: $ty:ty = $default:expr, $rmds_key:literal $(in $scope:literal)? $(times $factor:literal)?, $meaning:literal;)*
    ) => {
        $(#[doc = $about])+
        #[allow(clippy::doc_markdown, reason = "the same text is printed for people, who see no markup")]
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = $meaning] pub $key: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl $crate::Section for $name {
            const NAME: &'static str = $table;
            const RMDS: &'static str = $rmds;
            const ABOUT: &'static str = concat!($($about),+);
            fn params() -> &'static [$crate::Param<Self>] {
                &[$($crate::Param {
                    info: $crate::Info {
                        key: stringify!($key),
                        rmds: $rmds_key,
                        scope: concat!("" $(, $scope)?),
                        factor: 1 $(* $factor)?,
                        kind: <$ty as $crate::Parameter>::KIND,
                        default: || <$ty as $crate::Parameter>::show(&$default),
                        meaning: $meaning,
                    },
                    set: |s, raw| { s.$key = $crate::Parameter::read(raw)?; Ok(()) },
                    show: |s| $crate::Parameter::show(&s.$key),
                },)*]
            }
        }
    };
}

pub(super) use section;
