//! Which series belongs to which item.

use super::page;
use super::series::Series;
use super::template::SizeError;
use anyhow::anyhow;
use feed::datafile::DataFile;
use rwf::msg::{Domain, Msg, RefreshFlags};
use std::collections::HashMap;

/// The series, and which of them belongs to which item.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    series: Vec<Series>,
    named: HashMap<(Domain, Box<str>), u32>,
    /// For every other name of a domain.
    others: Vec<(Domain, u32)>,
    /// Where the data comes from, for refusals.
    origin: String,
    /// Begin again after the last update.
    pub cycle: bool,
}

impl Catalogue {
    /// The reference series for every name.
    ///
    /// # Errors
    /// There is no update of that size.
    pub fn reference(size: usize, stamp_all: bool) -> Result<Self, SizeError> {
        let mut catalogue = Self { origin: "the reference updates".to_owned(), cycle: true, ..Self::default() };
        catalogue.add_reference(size, stamp_all)?;
        Ok(catalogue)
    }

    /// Pages for every name: see `page.rs`.
    pub fn pages(stamp_all: bool) -> Self {
        let mut catalogue = Self { origin: "pages".to_owned(), cycle: true, ..Self::default() };
        let number = catalogue.add(page::series(stamp_all));
        catalogue.others.push((Domain::MARKET_PRICE, number));
        catalogue
    }

    /// What a data file holds. Items that are not in it are like `template`, an item of the file; without one they are
    /// refused, or with `keep` like the first item of their domain, or the reference.
    ///
    /// # Errors
    /// A text for the user: the template item is not in the file, or there is no update of that size.
    pub fn of_file(
        file: &DataFile,
        origin: &str,
        template: Option<&str>,
        keep: bool,
        size: usize,
        stamp_all: bool,
    ) -> anyhow::Result<Self> {
        let mut catalogue = Self { origin: origin.to_owned(), ..Self::default() };
        for (index, item) in file.items.iter().enumerate() {
            let Some(series) = series_of(file, index, item.domain, stamp_all) else { continue };
            let number = catalogue.add(series);
            let is_known = catalogue.others.iter().any(|(domain, _)| *domain == item.domain);
            match &item.name {
                Some(name) => {
                    catalogue.named.insert((item.domain, name.as_str().into()), number);
                    if template == Some(name) || (template.is_none() && keep && !is_known) {
                        catalogue.others.push((item.domain, number));
                    }
                }
                None if !is_known => catalogue.others.push((item.domain, number)),
                None => {}
            }
        }
        if let Some(template) = template.filter(|_| catalogue.others.is_empty()) {
            return Err(anyhow!("{origin} has no item {template:?}; -q names the item that others are like"));
        }
        if keep {
            catalogue.add_reference(size, stamp_all)?;
        }
        Ok(catalogue)
    }

    fn add_reference(&mut self, size: usize, stamp_all: bool) -> Result<(), SizeError> {
        for domain in [Domain::MARKET_PRICE, Domain::MARKET_BY_ORDER, Domain::MARKET_BY_PRICE] {
            if self.others.iter().any(|(known, _)| *known == domain) {
                continue;
            }
            let series = match domain {
                Domain::MARKET_PRICE => Series::reference(size, stamp_all)?,
                _ => Series::reference_book(domain, stamp_all),
            };
            let number = self.add(series);
            self.others.push((domain, number));
        }
        Ok(())
    }

    fn add(&mut self, series: Series) -> u32 {
        self.series.push(series);
        self.series.len() as u32 - 1
    }

    /// All series; [`Self::find`] gives indices into them.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Domains of which there are items.
    pub fn domains(&self) -> Vec<Domain> {
        let mut domains: Vec<Domain> = self.series.iter().map(|s| s.domain).collect();
        domains.sort_by_key(|d| d.0);
        domains.dedup();
        domains
    }

    /// The series of an item; why there is none otherwise.
    ///
    /// # Errors
    /// The text of the refusal.
    pub fn find(&self, domain: Domain, name: &str) -> anyhow::Result<u32> {
        if !self.named.is_empty()
            && let Some(&series) = self.named.get(&(domain, Box::from(name)))
        {
            return Ok(series);
        }
        let other = self.others.iter().find(|(known, _)| *known == domain);
        other
            .map(|(_, series)| *series)
            .ok_or_else(|| anyhow!("{name:?} of domain {} is not in {}; -K answers every item", domain.0, self.origin))
    }
}

/// The first whole image of an item in a file, and its updates; `None` when it has neither.
fn series_of(file: &DataFile, item: usize, domain: Domain, stamp_all: bool) -> Option<Series> {
    let mut parts = Vec::new();
    let (mut container, mut is_complete) = (None, false);
    let mut updates = Vec::new();
    for event in file.events_of(item) {
        match Msg::decode(&event.message) {
            Ok(Msg::Refresh(refresh)) if !is_complete => {
                container = Some(refresh.container);
                parts.push(refresh.body.to_vec());
                is_complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
            }
            Ok(Msg::Update(update)) => {
                container = container.or(Some(update.container));
                updates.push(event.message.clone());
            }
            _ => {}
        }
    }
    Some(Series::new(domain, container?, parts, &updates, stamp_all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::stamp;
    use rwf::dictionary::Dictionary;

    #[test]
    fn every_reference_update_can_carry_a_stamp() {
        let catalogue = Catalogue::reference(74, false).unwrap();
        assert_eq!(catalogue.domains().len(), 3);
        for series in catalogue.series() {
            for template in series.stamped.iter().map(|t| t.as_ref().expect("a stamp")) {
                let bytes = template.clone().stamped_at(7_000).bytes().to_vec();
                assert_eq!(stamp::find(&bytes), Some(7_000));
                assert!(Msg::decode(&bytes).is_ok());
            }
            assert!(series.plain.iter().all(|t| stamp::find(t.bytes()).is_none()));
        }
    }

    const FILE: &str = r#"
        {"Type":"Refresh","ID":5,"Key":{"Name":"GOOG.O"},"Fields":{"BID":1}}
        {"Type":"Update","ID":5,"Fields":{"BID":2}}
        {"Type":"Refresh","ID":6,"Key":{"Name":"IBM.N"},"Fields":{"BID":7}}
        {"Type":"Update","ID":6,"Fields":{"ASK":8}}"#;

    #[test]
    fn items_of_a_file_are_found_and_others_are_like_the_template() {
        let file = DataFile::parse(FILE, &Dictionary::builtin()).unwrap();
        let of = |template, keep| Catalogue::of_file(&file, "f.xml", template, keep, 74, false);
        let strict = of(None, false).unwrap();
        assert_eq!(strict.find(Domain::MARKET_PRICE, "IBM.N").unwrap(), 1);
        let refusal = strict.find(Domain::MARKET_PRICE, "A").unwrap_err().to_string();
        assert!(refusal.contains("f.xml") && refusal.contains("-K"), "{refusal}");
        assert_eq!(of(Some("IBM.N"), false).unwrap().find(Domain::MARKET_PRICE, "A").unwrap(), 1);
        assert!(of(Some("IBM.N"), false).unwrap().find(Domain::MARKET_BY_ORDER, "A").is_err());
        assert!(of(Some("NO.N"), false).unwrap_err().to_string().contains("NO.N"));
        let kept = of(None, true).unwrap();
        assert_eq!(kept.find(Domain::MARKET_PRICE, "A").unwrap(), 0);
        assert!(kept.find(Domain::MARKET_BY_ORDER, "A").is_ok(), "the reference book");
    }
}
