//! The services of a session that come through other sites. What is done about one that comes back, `cascade` says.

use rwf::rdm::directory::{Part, Service as Entry};
use std::collections::BTreeMap;

/// A service that came through more sites is not taken: it is more likely to go round than to be of use.
pub(super) const MAX_SITES: usize = 32;

/// A service of a provider that says through which sites it came.
#[derive(Debug)]
struct Linked {
    /// All that the provider has said of the service, as if it was new.
    entry: Entry,
    standing: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The service comes another way, and may be offered.
    Taken,
    /// The service has come through this site.
    ComesBack,
    /// The service came through this site before, and has not since this time.
    Clear { since: u64 },
}

/// The action about a service, by what its provider says of its way.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The service may be offered.
    Taken,
    /// The service may not be offered, as before.
    NotTaken,
    /// The service was taken, and has come through this site from now on.
    ComesBack {
        /// The service's name.
        service: String,
        /// The sites, the provider's own first.
        through: String,
    },
    /// The service comes another way from now on: it is taken when it has done so for long enough.
    Clears,
}

/// The services of a session that come through other sites, by the provider's ids.
#[derive(Debug, Default)]
pub(crate) struct LinkedServices(BTreeMap<u16, Linked>);

impl LinkedServices {
    /// The provider has these services, and no others.
    pub(super) fn retain(&mut self, named: impl Fn(u16) -> bool) {
        self.0.retain(|&id, _| named(id));
    }

    /// The sites that a service has come through; none if the provider does not say so.
    pub(super) fn path(&self, id: u16) -> Vec<String> {
        self.0.get(&id).map(|linked| path(&linked.entry).map(str::to_owned).collect()).unwrap_or_default()
    }

    /// The provider has a service no more. Whether it was one that may be offered.
    pub(super) fn remove(&mut self, id: u16) -> bool {
        self.0.remove(&id).is_none_or(|linked| linked.standing == Standing::Taken)
    }

    /// The provider says this of a service. False if it has not said before through which sites that came.
    pub(super) fn apply(&mut self, entry: &Entry) -> bool {
        let linked = self.0.get_mut(&entry.id);
        linked.map(|linked| linked.entry.apply(entry)).is_some()
    }

    /// The provider has said this of a service, and through which sites it came.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.0.insert(entry.id, Linked { entry, standing: Standing::Taken });
    }

    /// Whether a service comes back to this site, by what its provider has said of it.
    pub(super) fn judge(&mut self, now: u64, id: u16, site: &str) -> Way {
        let Some(linked) = self.0.get_mut(&id) else { return Way::Taken };
        let comes_back = path(&linked.entry).any(|link| link == site) || path(&linked.entry).count() > MAX_SITES;
        match (comes_back, linked.standing) {
            (true, Standing::Taken) => {
                linked.standing = Standing::ComesBack;
                let through = path(&linked.entry).collect::<Vec<_>>().join(" < ");
                Way::ComesBack { service: linked.entry.name().unwrap_or_default().to_owned(), through }
            }
            (true, _) => {
                linked.standing = Standing::ComesBack;
                Way::NotTaken
            }
            (false, Standing::ComesBack) => {
                linked.standing = Standing::Clear { since: now };
                Way::Clears
            }
            (false, Standing::Clear { .. }) => Way::NotTaken,
            (false, Standing::Taken) => Way::Taken,
        }
    }

    /// A service that has come another way for so long is taken from now on: what its provider has said of it. `None` if it has not.
    pub(super) fn take_when_clear(&mut self, now: u64, id: u16, clear_for: u64) -> Option<&Entry> {
        let linked = self.0.get_mut(&id)?;
        let is_clear = matches!(linked.standing, Standing::Clear { since } if now >= since.saturating_add(clear_for));
        is_clear.then(|| {
            linked.standing = Standing::Taken;
            &linked.entry
        })
    }
}

/// The sites that a service has come through.
fn path(entry: &Entry) -> impl Iterator<Item = &str> {
    let links = entry.links.as_ref().and_then(Part::value).into_iter().flatten();
    links.filter(|link| !crate::cascade::is_line(link)).map(|link| link.name.as_str())
}
