//! Which items are cached: by service, domain and name.

/// A name of an item, or many: patterns are written alike wherever an administrator writes them.
pub use names::Pattern as NamePattern;
use rwf::image::Schema;
use rwf::msg::Domain;
use rwf::page::PageSize;
use std::collections::{BTreeMap, BTreeSet};

/// Which items of which services are cached. The default caches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheRules {
    /// The rules of a service, by its name.
    pub services: BTreeMap<String, ServiceRule>,
    /// The rules of all other services.
    pub others: ServiceRule,
    /// Most items cached at a time (`maxCacheSize`); 0 for any number.
    pub max_items: usize,
}

/// Which items of a service are cached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceRule {
    /// Any at all (`enableCache`).
    pub enabled: bool,
    /// Of these domains (`domainsCached`, `domainsNotCached`).
    pub domains: Domains,
    /// But not these items (`nonCachingItemList`).
    pub not_items: Vec<NamePattern>,
}

impl CacheRules {
    /// Everything of every service, any number of items.
    pub fn everything() -> Self {
        Self { others: ServiceRule { enabled: true, ..ServiceRule::default() }, ..Self::default() }
    }

    /// True if items of some service may be cached.
    pub fn is_on(&self) -> bool {
        self.others.enabled || self.services.values().any(|rule| rule.enabled)
    }

    /// True if an item is to be cached. `name` is empty for an item without one.
    pub fn covers(&self, service: &str, domain: Domain, name: &[u8]) -> bool {
        let rule = self.services.get(service).unwrap_or(&self.others);
        rule.enabled && rule.domains.has(domain) && !rule.not_items.iter().any(|pattern| pattern.matches(name))
    }
}

/// How large the ANSI pages of services are: nothing on the wire says that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageSizes {
    /// By the service's name.
    pub services: BTreeMap<String, PageSize>,
    /// Of all other services.
    pub others: PageSize,
}

impl PageSizes {
    /// The size of a service's pages.
    pub fn of(&self, service: &str) -> PageSize {
        self.services.get(service).copied().unwrap_or(self.others)
    }

    /// What refreshes of a service are read with where no dictionary is needed.
    pub fn schema(&self, service: &str) -> Schema<'static> {
        Schema { page_size: self.of(service), ..Schema::NONE }
    }
}

/// Some services, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ServiceSet {
    /// No service.
    #[default]
    None,
    /// Every service.
    All,
    /// The services of these names.
    Named(BTreeSet<String>),
}

impl ServiceSet {
    /// True if a service is one of them.
    pub fn has(&self, service: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => names.contains(service),
        }
    }
}

/// What of the images of non-interactive services outlives the process, and when they expire: a *record* is an item of such a service with
/// its image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordRules {
    /// Services whose records are kept outside: `SourceDistributor::take_record_changes` gives
    /// them out.
    pub kept: ServiceSet,
    /// Services whose records expire.
    pub expiring: ServiceSet,
    /// Nanoseconds without a refresh or an update after which a record of theirs ends; 0 for ever.
    pub max_age: u64,
    /// Records of each of them; beyond it the one that was published longest ago ends. 0 for any number.
    pub max_number: u32,
}

impl RecordRules {
    /// Whether records of any service are looked at.
    pub fn is_on(&self) -> bool {
        self.kept != ServiceSet::None || self.expiring != ServiceSet::None
    }
}

/// A set of domains; all of them by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domains([u64; 4]);

impl Default for Domains {
    fn default() -> Self {
        Self::ALL
    }
}

impl Domains {
    /// Every domain.
    pub const ALL: Self = Self([u64::MAX; 4]);
    /// No domain.
    pub const NONE: Self = Self([0; 4]);

    /// The set with this domain.
    #[must_use]
    pub const fn with(mut self, domain: Domain) -> Self {
        self.0[domain.0 as usize / 64] |= 1 << (domain.0 % 64);
        self
    }

    /// The set without this domain.
    #[must_use]
    pub const fn without(mut self, domain: Domain) -> Self {
        self.0[domain.0 as usize / 64] &= !(1 << (domain.0 % 64));
        self
    }

    /// The domains that are in this set and not in the other.
    #[must_use]
    pub const fn except(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a & !e, b & !f, c & !g, d & !h])
    }

    /// True if a domain is in the set.
    pub const fn has(self, domain: Domain) -> bool {
        self.0[domain.0 as usize / 64] & 1 << (domain.0 % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheRules, Domains, NamePattern, ServiceRule};
    use rwf::msg::Domain;

    #[test]
    fn a_service_that_is_named_has_its_own_rule() {
        assert!(!CacheRules::default().is_on());
        assert!(!CacheRules::default().covers("FEED", Domain::MARKET_PRICE, b"IBM"));
        assert!(CacheRules::everything().covers("FEED", Domain::MARKET_BY_ORDER, b""));
        let mut rules = CacheRules::default();
        let rule = ServiceRule {
            enabled: true,
            domains: Domains::ALL.without(Domain::MARKET_BY_ORDER),
            not_items: vec![NamePattern::new("X*")],
        };
        rules.services.insert("FEED".to_owned(), rule);
        assert!(rules.is_on());
        assert!(rules.covers("FEED", Domain::MARKET_PRICE, b"IBM"));
        assert!(!rules.covers("FEED", Domain::MARKET_BY_ORDER, b"IBM"));
        assert!(!rules.covers("FEED", Domain::MARKET_PRICE, b"XAU="));
        assert!(!rules.covers("OTHER", Domain::MARKET_PRICE, b"IBM"));
        assert!(Domains::NONE.with(Domain(200)).has(Domain(200)));
        assert!(!Domains::NONE.with(Domain(200)).has(Domain(201)));
    }
}
