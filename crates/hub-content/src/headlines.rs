//! News headlines whose permission code (PE) is in a field of each, as in the records of older feeds, and not in its permission data.
//!
//! A headline item (`N2_UBMS`) has no state: each update is another headline, and who may see one says nothing of the next. So a headline
//! gets the lock that its field says, for itself alone, and is no part of any image; and an image that has the headline of its moment in
//! it goes on without.

use crate::cache::rules::NamePattern;
use crate::encode;
use crate::filter::rules::field_of;
use permissions::lock::{Lock, Operator};
use rwf::DataType;
use rwf::msg::{MsgClass, RefreshMsg, UpdateFlags, UpdateMsg};

/// A field list without fields.
const NO_FIELDS: &[u8] = &[0];
/// A lock that nobody satisfies.
const UNREADABLE: &[u8] = &[0];

/// What of a service are headlines, and where their permission codes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadlineRule {
    /// The field that has the permission code, an unsigned number.
    pub fid: i16,
    /// The number of the service in locks.
    pub lock_service: u16,
    /// Names of the items that are headlines.
    pub names: Vec<NamePattern>,
}

impl HeadlineRule {
    /// Whether an item of this name has headlines.
    pub fn is_about(&self, name: &[u8]) -> bool {
        self.names.iter().any(|pattern| pattern.matches(name))
    }

    /// Writes to `out` what goes on instead of a message of a headline item. False if that is the message itself: it has no permission
    /// code in its field, or permission data that goes before it.
    pub fn rewrite(&self, class: MsgClass, msg: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let room = msg.len() + 64;
        match class {
            MsgClass::UPDATE => {
                let Ok(update) = UpdateMsg::decode(msg) else { return false };
                let Some(code) = field_of(update.container, update.body, self.fid) else { return false };
                if update.perm_data.is_some() {
                    return false;
                }
                let lock = self.lock(code);
                let lock = lock.as_deref().unwrap_or(UNREADABLE);
                let flags = update.flags | UpdateFlags::DO_NOT_CACHE;
                let headline = UpdateMsg { perm_data: Some(lock), flags, ..update };
                encode::append(out, room, |w| headline.encode(w)).is_ok()
            }
            MsgClass::REFRESH => {
                let Ok(refresh) = RefreshMsg::decode(msg) else { return false };
                if field_of(refresh.container, refresh.body, self.fid).is_none() {
                    return false;
                }
                let bare = RefreshMsg { container: DataType::FIELD_LIST, body: NO_FIELDS, ..refresh };
                encode::append(out, room, |w| bare.encode(w)).is_ok()
            }
            _ => false,
        }
    }

    /// The lock of a permission code. A blank is none that anybody has.
    fn lock(&self, code: &[u8]) -> Option<Vec<u8>> {
        let code = rwf::primitive::uint(code).ok().filter(|_| !code.is_empty())?;
        Lock::of(self.lock_service, Operator::Or, &[u32::try_from(code).ok()?]).ok()?.encode().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::msg::{Domain, RefreshFlags};
    use rwf::{FieldListEncoder, wire::Writer};

    fn rule() -> HeadlineRule {
        HeadlineRule { fid: 1, lock_service: 257, names: vec![NamePattern::new("N2_*")] }
    }

    fn fields(fields: &[(i16, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        encode::append(&mut out, 1_000, |w| {
            let mut list = FieldListEncoder::begin(w)?;
            fields.iter().try_for_each(|&(fid, data)| list.raw(fid, data))?;
            list.finish()
        })
        .expect("written");
        out
    }

    fn written(write: impl FnMut(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
        let mut out = Vec::new();
        encode::append(&mut out, 1_000, write).expect("written");
        out
    }

    fn update(body: &[u8], perm_data: Option<&[u8]>) -> Vec<u8> {
        let update = UpdateMsg {
            container: DataType::FIELD_LIST,
            body,
            perm_data,
            seq_num: Some(7),
            ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
        };
        written(|w| update.encode(w))
    }

    #[test]
    fn a_headline_has_the_lock_of_its_field_and_is_part_of_no_image() {
        assert!(rule().is_about(b"N2_UBMS") && !rule().is_about(b"IBM.N"));
        let body = fields(&[(1, &[25, 170]), (352, b"Shares rise")]);
        let (msg, mut out) = (update(&body, None), Vec::new());
        assert!(rule().rewrite(MsgClass::UPDATE, &msg, &mut out));
        let headline = UpdateMsg::decode(&out).unwrap();
        let lock = Lock::decode(headline.perm_data.unwrap()).unwrap();
        assert_eq!(lock, Lock::of(257, Operator::Or, &[6_570]).unwrap());
        assert!(headline.flags.contains(UpdateFlags::DO_NOT_CACHE));
        assert_eq!((headline.body, headline.seq_num, headline.stream_id), (&body[..], Some(7), 5));
        for code in [&[][..], &[1, 0, 0, 0, 0], &[0; 9]] {
            assert!(rule().rewrite(MsgClass::UPDATE, &update(&fields(&[(1, code)]), None), &mut out));
            assert_eq!(UpdateMsg::decode(&out).unwrap().perm_data, Some(UNREADABLE), "{code:?}");
        }
    }

    #[test]
    fn what_has_no_code_or_a_lock_goes_on_as_it_is() {
        let mut out = Vec::new();
        let with = fields(&[(1, &[25, 170])]);
        assert!(!rule().rewrite(MsgClass::UPDATE, &update(&fields(&[(352, b"x")]), None), &mut out));
        assert!(!rule().rewrite(MsgClass::UPDATE, &update(&with, Some(&[3, 1, 1, 0x56, 0x25, 0xC0])), &mut out));
        assert!(
            !rule().rewrite(MsgClass::UPDATE, b"\x00", &mut out) && !rule().rewrite(MsgClass::STATUS, b"", &mut out)
        );
    }

    #[test]
    fn an_image_goes_on_without_the_headline_of_its_moment() {
        let body = fields(&[(1, &[25, 170]), (352, b"Shares rise")]);
        let refresh = RefreshMsg {
            container: DataType::FIELD_LIST,
            flags: RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE,
            body: &body,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 5)
        };
        let mut out = Vec::new();
        assert!(rule().rewrite(MsgClass::REFRESH, &written(|w| refresh.encode(w)), &mut out));
        let bare = RefreshMsg::decode(&out).unwrap();
        assert_eq!((bare.flags, bare.state, bare.body), (refresh.flags, refresh.state, NO_FIELDS));
        let list = rwf::FieldList::decode(bare.body, &rwf::SetScope::NONE).unwrap();
        assert_eq!(list.entries().count(), 0);
    }
}
