//! Options of Marketfeed that single services have, by name and by the ids that a P2PS gives them.

use std::collections::BTreeMap;

use config::Config;
use hub::p2ps::P2ps;
use marketfeed::{Options, RtlRule};

use super::{options, price_style};

/// Options of services, over those of all.
#[derive(Debug, Default)]
pub(super) struct ServiceOptions {
    of_all: Options,
    /// Of those that have others.
    named: BTreeMap<String, Options>,
    /// By the P2PS's id of the service, and of which state of its services that holds.
    by_id: Vec<Options>,
    ids_of: (u64, usize),
}

impl ServiceOptions {
    pub(super) fn new(config: &Config) -> Self {
        let of_all = options(&config.p2ps);
        let of = |service: &config::Service| {
            let rtl = match service.seq_num_follows_marketfeed_rules {
                Some(true) => RtlRule::SequenceNumber,
                Some(false) => RtlRule::Counted,
                None => of_all.rtl,
            };
            Options {
                rtl,
                expands_enums: service.expanded_enum_fields.unwrap_or(of_all.expands_enums),
                prices: service.convert_to_idn_style.map_or(of_all.prices, price_style),
                keeps_templates: service.use_template_number.unwrap_or(of_all.keeps_templates),
            }
        };
        let own = config.services.iter().map(|(name, service)| (name.clone(), of(service)));
        let named = own.filter(|(_, options)| *options != of_all).collect();
        Self { of_all, named, ..Self::default() }
    }

    /// Takes over the services that a P2PS has now.
    pub(super) fn follow(&mut self, p2ps: &P2ps) {
        let ids_of = (p2ps.services_renamed(), p2ps.services_from(0).len());
        if self.named.is_empty() || self.ids_of == ids_of {
            return;
        }
        self.by_id.clear();
        for (id, name) in p2ps.services_from(0) {
            let slot = usize::from(id);
            if self.by_id.len() <= slot {
                self.by_id.resize(slot + 1, self.of_all);
            }
            self.by_id[slot] = self.of_name(name);
        }
        self.ids_of = ids_of;
    }

    /// The options of a service of the P2PS; `None` where all have the same.
    #[inline]
    pub(super) fn of_id(&self, service: u16) -> Option<Options> {
        if self.by_id.is_empty() { None } else { self.by_id.get(usize::from(service)).copied() }
    }

    /// No service has options of its own.
    pub(super) fn are_of_all(&self) -> bool {
        self.named.is_empty()
    }

    /// The options of a service.
    pub(super) fn of_name(&self, service: &str) -> Options {
        self.named.get(service).copied().unwrap_or(self.of_all)
    }
}

#[cfg(test)]
mod tests {
    use super::ServiceOptions;
    use config::Config;
    use marketfeed::{PriceStyle, RtlRule};

    #[test]
    fn a_service_has_the_options_that_it_says() {
        let text = "[p2ps]\nseq_num_follows_marketfeed_rules = true\n[service.A]\nexpanded_enum_fields = true\n[service.B]\nseq_num_follows_marketfeed_rules = false\n[service.C]\nretry_limit = 1\n[service.E]\nconvert_to_idn_style = false\nuse_template_number = true\n";
        let options = ServiceOptions::new(&Config::parse("test.toml", text).expect("a configuration"));
        let of = |name| (options.of_name(name).expands_enums, options.of_name(name).rtl);
        assert_eq!(of("A"), (true, RtlRule::SequenceNumber));
        assert_eq!(of("B"), (false, RtlRule::Counted));
        assert_eq!((of("C"), of("D")), ((false, RtlRule::SequenceNumber), (false, RtlRule::SequenceNumber)));
        assert_eq!((options.of_name("E").prices, options.of_name("E").keeps_templates), (PriceStyle::Plain, true));
        assert_eq!((options.of_name("D").prices, options.of_name("D").keeps_templates), (PriceStyle::Idn, false));
        assert!(!options.are_of_all() && ServiceOptions::new(&Config::default()).are_of_all());
    }
}
