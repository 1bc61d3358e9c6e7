//! The names of numbers in JSON: those of the constants, in camel case, with a few of their own.

use std::io::Write;

use crate::container::{FilterAction, MapAction, VectorAction};
use crate::msg::{Domain, MsgClass, NakCode, UpdateType};
use crate::{DataState, DataType, Rate, StateCode, StreamState, Timeliness};

/// A number with a name in JSON.
pub(super) trait Named: Copy + 'static {
    /// All values that have a name.
    const ALL: &'static [Self];
    /// Names that are not the camel case of the constant's.
    const ODD: &'static [(&'static str, &'static str)] = &[];

    fn constant(self) -> Option<&'static str>;

    /// Writes the name and says so; writes nothing if there is none.
    fn write_name(self, out: &mut Vec<u8>) -> bool {
        let Some(constant) = self.constant() else { return false };
        match Self::ODD.iter().find(|(odd, _)| *odd == constant) {
            Some((_, name)) => out.extend_from_slice(name.as_bytes()),
            None => out.extend(camel(constant)),
        }
        true
    }

    fn from_json_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| {
            let Some(constant) = value.constant() else { return false };
            match Self::ODD.iter().find(|(odd, _)| *odd == constant) {
                Some((_, odd_name)) => *odd_name == name,
                None => camel(constant).eq(name.bytes()),
            }
        })
    }
}

/// `MARKET_BY_PRICE` as `MarketByPrice`.
fn camel(constant: &'static str) -> impl Iterator<Item = u8> {
    let mut first = true;
    constant.bytes().filter_map(move |byte| {
        let was_first = std::mem::replace(&mut first, byte == b'_');
        (byte != b'_').then_some(if was_first { byte } else { byte.to_ascii_lowercase() })
    })
}

macro_rules! named {
    ($($name:ident $([$($odd:literal = $json:literal),* $(,)?])?),* $(,)?) => {
        $(impl Named for $name {
            const ALL: &'static [Self] = Self::ALL;
            $(const ODD: &'static [(&'static str, &'static str)] = &[$(($odd, $json)),*];)?

            fn constant(self) -> Option<&'static str> {
                self.name()
            }
        })*
    };
}

named! {
    MsgClass,
    Domain ["REPLAYHEADLINE" = "ReplayHeadline", "REPLAYSTORY" = "ReplayStory"],
    UpdateType,
    NakCode,
    StreamState,
    DataState,
    StateCode [
        "DACS_MAX_LOGINS_REACHED" = "MaxLoginsReached",
        "DACS_USER_ACCESS_TO_APP_DENIED" = "UserAccessToAppDenied",
    ],
    Timeliness,
    Rate,
    MapAction,
    VectorAction,
    FilterAction,
    DataType [
        "UINT" = "UInt",
        "UINT_1" = "UInt1",
        "UINT_2" = "UInt2",
        "UINT_4" = "UInt4",
        "UINT_8" = "UInt8",
        "REAL_4RB" = "Real4RB",
        "REAL_8RB" = "Real8RB",
        "DATETIME" = "DateTime",
        "DATETIME_7" = "DateTime7",
        "DATETIME_9" = "DateTime9",
        "DATETIME_11" = "DateTime11",
        "DATETIME_12" = "DateTime12",
    ],
}

/// Writes the name in quotes, or the number if it has none.
pub(super) fn name_or_number<T: Named>(value: T, number: impl std::fmt::Display, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(b'"');
    if value.write_name(out) {
        out.push(b'"');
    } else {
        out.truncate(start);
        let _ = write!(out, "{number}");
    }
}

/// Members that hold a container, by its type; the first name of a type is the one that is written.
const CONTAINERS: [(&str, DataType); 13] = [
    ("Fields", DataType::FIELD_LIST),
    ("Elements", DataType::ELEMENT_LIST),
    ("FilterList", DataType::FILTER_LIST),
    ("Vector", DataType::VECTOR),
    ("Map", DataType::MAP),
    ("Series", DataType::SERIES),
    ("Message", DataType::MSG),
    ("Opaque", DataType::OPAQUE),
    ("Xml", DataType::XML),
    ("Json", DataType::JSON),
    ("AnsiPage", DataType::ANSI_PAGE),
    ("FieldList", DataType::FIELD_LIST),
    ("ElementList", DataType::ELEMENT_LIST),
];

/// The member that holds a container of this type; `None` for no data and unknown types.
pub(super) fn container_member(data_type: DataType) -> Option<&'static str> {
    CONTAINERS.iter().find(|(_, known)| *known == data_type).map(|(name, _)| *name)
}

/// The type of container that a member holds, if it is one.
pub(super) fn member_container(name: &str) -> Option<DataType> {
    CONTAINERS.iter().find(|(known, _)| *known == name).map(|(_, data_type)| *data_type)
}

/// Name types of a key: in the login domain users, elsewhere instruments.
const INSTRUMENT_NAMES: [(u8, &str); 3] = [(0, "Unspecified"), (1, "Ric"), (2, "Contributor")];
const USER_NAMES: [(u8, &str); 5] = [(1, "Name"), (2, "EmailAddress"), (3, "Token"), (4, "Cookie"), (5, "AuthnToken")];

pub(super) fn name_type(domain: Domain, name_type: u8) -> Option<&'static str> {
    let names = if domain == Domain::LOGIN { &USER_NAMES[..] } else { &INSTRUMENT_NAMES[..] };
    names.iter().find(|(value, _)| *value == name_type).map(|(_, name)| *name)
}

pub(super) fn name_type_from_name(name: &str) -> Option<u8> {
    INSTRUMENT_NAMES.iter().chain(&USER_NAMES).find(|(_, known)| *known == name).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back() {
        fn check<T: Named + PartialEq + std::fmt::Debug>() {
            for value in T::ALL {
                let mut name = Vec::new();
                assert!(value.write_name(&mut name));
                let name = String::from_utf8(name).unwrap();
                assert_eq!(T::from_json_name(&name), Some(*value), "{name}");
            }
        }
        check::<MsgClass>();
        check::<Domain>();
        check::<StateCode>();
        check::<DataType>();
        check::<NakCode>();
        assert_eq!(Domain::from_json_name("MARKET_PRICE"), None);
    }
}
