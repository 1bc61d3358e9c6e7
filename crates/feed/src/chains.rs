//! Chains: records whose fields name the members of an index, an exchange page or a row of futures, fourteen a record.
//!
//! A chain is asked for by its first record, `0#NAME`; each record names the one before and behind it (`PREV_LR`, `NEXT_LR`), so a
//! program that follows the links has all members (RDM usage guide, market price domain; `LINK_1` to `LINK_14`).

use super::fields::{self as fid, append_fields};
use super::session::Nanos;
use super::{Event, InstrumentId, MarketSource, Model};
use rwf::Primitive;
use std::collections::HashMap;

/// Members of one record.
const LINKS: usize = 14;
/// Members of a chain that nobody has listed.
const DRAWN: usize = 20;
/// Delivery months of a row of futures.
const MONTHS: usize = 12;

/// Chains whose members people know.
const LISTED: &[(&str, &[&str])] = &[
    (
        ".DJI",
        &[
            "AAPL.O", "AMGN.O", "AMZN.O", "AXP.N", "BA.N", "CAT.N", "CRM.N", "CSCO.O", "CVX.N", "DIS.N", "GS.N",
            "HD.N", "HON.O", "IBM.N", "JNJ.N", "JPM.N", "KO.N", "MCD.N", "MMM.N", "MRK.N", "MSFT.O", "NKE.N", "NVDA.O",
            "PG.N", "SHW.N", "TRV.N", "UNH.N", "V.N", "VZ.N", "WMT.N",
        ],
    ),
    ("FX=", &["EUR=", "GBP=", "JPY=", "CHF=", "CAD=", "AUD=", "NZD=", "CNY=", "HKD=", "SEK=", "NOK="]),
];

/// A market of chains: the image of each record is made from its name, and nothing changes.
#[derive(Debug, Default)]
pub struct Chains {
    records: Vec<Record>,
    by_name: HashMap<Box<str>, InstrumentId>,
}

#[derive(Debug)]
struct Record {
    /// The number behind the first `#`.
    chain: String,
    /// 0 for the first record.
    number: usize,
}

impl Record {
    /// The record that a name asks for, if it is one's: `0#NAME` to `F#NAME`.
    fn of(name: &str) -> Option<Self> {
        let (number, chain) = name.split_once('#')?;
        let mut digits = number.chars();
        let (number, None) = (digits.next()?.to_digit(16)? as usize, digits.next()) else { return None };
        let is_ordinary = !chain.is_empty() && name.len() <= 21 && chain.bytes().all(|byte| byte.is_ascii_graphic());
        let record = Self { chain: chain.to_owned(), number };
        (is_ordinary && number < members(chain).len().div_ceil(LINKS)).then_some(record)
    }

    fn name(&self, number: usize) -> String {
        format!("{number:X}#{}", self.chain)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let members = members(&self.chain);
        let links = &members[self.number * LINKS..];
        let is_last = links.len() <= LINKS;
        let links = &links[..links.len().min(LINKS)];
        let before = self.number.checked_sub(1).map(|before| self.name(before)).unwrap_or_default();
        let behind = if is_last { String::new() } else { self.name(self.number + 1) };
        append_fields(out, |fields| {
            let mut ascii = |id, text: &str| fields.value(id, &Primitive::Ascii(text.as_bytes()));
            ascii(fid::PREV_LR, &before);
            ascii(fid::NEXT_LR, &behind);
            for at in 0..LINKS {
                ascii(fid::LINK_1 + at as i16, links.get(at).map_or("", String::as_str));
            }
            fields.uint(fid::REF_COUNT, links.len() as u64);
            fields.text(fid::DSPLY_NAME, &self.chain.chars().take(16).collect::<String>());
        });
    }
}

/// The members of a chain: those listed; of a name that ends with a colon its futures by month; else drawn ones, on the same exchange.
fn members(chain: &str) -> Vec<String> {
    if let Some((_, listed)) = LISTED.iter().find(|(name, _)| *name == chain) {
        return listed.iter().map(|&name| name.to_owned()).collect();
    }
    if let Some(root) = chain.strip_suffix(':') {
        return (1..=MONTHS).map(|month| format!("{root}c{month}")).collect();
    }
    let (root, exchange) = match chain.trim_start_matches('.').split_once('.') {
        Some((root, exchange)) => (root, format!(".{exchange}")),
        None => (chain.trim_start_matches('.'), ".N".to_owned()),
    };
    let root: String = root.chars().filter(char::is_ascii_alphanumeric).take(6).collect();
    (1..=DRAWN).map(|n| format!("{root}{n}{exchange}")).collect()
}

impl MarketSource for Chains {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let record = Record::of(name)?;
        let id = InstrumentId(self.records.len() as u32);
        self.records.push(record);
        self.by_name.insert(name.into(), id);
        Some(id)
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        model == Model::Price
    }

    fn image(&mut self, id: InstrumentId, _: Model, _: usize, out: &mut Vec<u8>) -> bool {
        self.records[id.0 as usize].write(out);
        false
    }

    fn watch(&mut self, _: InstrumentId, _: Model, _: bool) {}

    fn due(&self) -> Option<Nanos> {
        None
    }

    fn symbols(&self) -> Vec<String> {
        LISTED.iter().map(|(name, _)| format!("0#{name}")).collect()
    }

    fn advance(&mut self, _: Nanos, _: usize, _: &mut dyn FnMut(Event<'_>)) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::{DataType, FieldList, SetScope};

    /// The texts of a record's fields: before, behind, links.
    fn read(chains: &mut Chains, name: &str) -> Option<(String, String, Vec<String>)> {
        let id = chains.find(name)?;
        let mut body = Vec::new();
        assert!(!chains.image(id, Model::Price, 0, &mut body));
        let list = FieldList::decode(&body, &SetScope::NONE).unwrap();
        let text = |wanted: i16| {
            let entry = list.entries().map(Result::unwrap).find(|entry| entry.fid == wanted).expect("a field");
            entry.value(DataType::ASCII_STRING).unwrap().to_string()
        };
        let links = (0..LINKS as i16).map(|at| text(fid::LINK_1 + at)).filter(|link| !link.is_empty()).collect();
        Some((text(fid::PREV_LR), text(fid::NEXT_LR), links))
    }

    #[test]
    fn who_follows_the_links_has_every_member_once() {
        let mut chains = Chains::default();
        for (first, count) in [("0#.DJI", 30), ("0#FX=", 11), ("0#CL:", 12), ("0#ABC.L", 20), ("0#.STOXX", 20)] {
            let (mut name, mut previous, mut all) = (first.to_owned(), String::new(), Vec::new());
            while !name.is_empty() {
                let (before, behind, links) = read(&mut chains, &name).unwrap_or_else(|| panic!("{name} is not there"));
                assert_eq!(before, previous);
                assert!(links.iter().all(|link| link.len() <= 14 && !link.contains('#')), "{links:?}");
                all.extend(links);
                previous = std::mem::replace(&mut name, behind);
            }
            assert_eq!(all.len(), count, "{first}: {all:?}");
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count, "{first}: {all:?}");
        }
        assert_eq!(read(&mut chains, "0#CL:").unwrap().2[..2], ["CLc1", "CLc2"]);
        assert_eq!(read(&mut chains, "1#ABC.L").unwrap().2[0], "ABC15.L");
    }

    #[test]
    fn other_names_are_no_chains() {
        let mut chains = Chains::default();
        for name in ["IBM.N", "0#", "10#X.N", "G#X.N", "3#.DJI", "#X.N", "0#X Y", "0#A.VERY.LONG.NAME.THAT.IS.NONE"] {
            assert_eq!(chains.find(name), None, "{name}");
        }
        let id = chains.find("0#.DJI").unwrap();
        assert_eq!(chains.find("0#.DJI"), Some(id));
        assert!(chains.offers(id, Model::Price) && !chains.offers(id, Model::ByPrice) && chains.due().is_none());
    }
}
