//! Chains: records of market prices that name members and the record that comes next (RDM usage guide, market price domain).
//!
//! A record has up to 14 members, `LINK_1` and on with `NEXT_LR`, or `LONGLINK1` and on with `LONGNEXTLR`, or `BR_LINK1` and on with `BR_NEXTLR`: the
//! length of the names decides which. The fields of the record before (`PREV_LR` and so on) name nothing that a reader from the front has not seen.

use crate::DecodeError;
use crate::container::{FieldList, SetScope};

/// First field of the members, and the field of the next record, by length of names.
const FIELDS: [(i16, i16); 3] = [(240, 238), (800, 815), (6_409, 6_424)];
/// Members that a record may name.
const MEMBERS: i16 = 14;

/// The part of a name in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// An item of the chain.
    Member,
    /// The record that comes next.
    Next,
}

/// A name in a record of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// The field that has it. In ascending order members are in that of the chain.
    pub fid: i16,
    /// The name of the member or record.
    pub role: Role,
    /// The name, without the blanks and zeros around it; never empty.
    pub name: &'a [u8],
}

/// The role of what a field names; `None` for a field that is no part of a chain.
pub fn role_of(fid: i16) -> Option<Role> {
    let is_member = |&(first, _): &(i16, i16)| (first..first + MEMBERS).contains(&fid);
    if FIELDS.iter().any(is_member) {
        return Some(Role::Member);
    }
    FIELDS.iter().any(|&(_, next)| next == fid).then_some(Role::Next)
}

/// The names in a field list, in its order. Blank links name nothing, and a list without links is the record of no chain: neither is a fault.
///
/// # Errors
/// Bytes that are no field list.
pub fn links(body: &[u8]) -> Result<Vec<Link<'_>>, DecodeError> {
    let mut found = Vec::new();
    for entry in FieldList::decode(body, &SetScope::NONE)?.entries() {
        let entry = entry?;
        let Some(role) = role_of(entry.fid) else { continue };
        let name = trimmed(entry.data);
        if !name.is_empty() {
            found.push(Link { fid: entry.fid, role, name });
        }
    }
    Ok(found)
}

/// A name without the blanks and zeros that fill its field.
fn trimmed(mut name: &[u8]) -> &[u8] {
    let is_filling = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    while let [first, rest @ ..] = name
        && is_filling(first)
    {
        name = rest;
    }
    while let [rest @ .., last] = name
        && is_filling(last)
    {
        name = rest;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::FieldListEncoder;
    use crate::wire::Writer;

    #[test]
    fn links_of_all_lengths_are_found_and_blank_ones_name_nothing() {
        let fields: [(i16, &[u8]); 9] = [
            (239, b"\x02"),
            (240, b"A"),
            (253, b" N.X \0"),
            (254, b"no link"),
            (241, b"  "),
            (238, b"1#X"),
            (813, b"B"),
            (815, b""),
            (6_422, b"C"),
        ];
        let mut buf = [0; 200];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        for (fid, data) in fields {
            list.raw(fid, data).unwrap();
        }
        list.finish().unwrap();
        let link = |fid, role, name| Link { fid, role, name };
        let expected = [
            link(240, Role::Member, &b"A"[..]),
            link(253, Role::Member, b"N.X"),
            link(238, Role::Next, b"1#X"),
            link(813, Role::Member, b"B"),
            link(6_422, Role::Member, b"C"),
        ];
        assert_eq!(links(w.written()).unwrap(), expected);
        assert_eq!(links(&[0]), Ok(Vec::new()), "a list without fields");
        assert!(links(b"\x08\x00\x02\x00\xf0\x01A").is_err(), "fields are missing");
        assert_eq!((role_of(237), role_of(814)), (None, None), "the record before");
    }
}
