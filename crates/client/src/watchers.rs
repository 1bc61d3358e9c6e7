//! The watchers of a stream.

use crate::delivery::Delivery;
use crate::subscription::SubscriptionId;
use rwf::msg::MsgClass;

/// Somebody who watches a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) subscription: SubscriptionId,
    pub(crate) item: u32,
    /// Joined while parts of a refresh were under way, or has gone on after a pause: nothing is given until an image is whole.
    pub(crate) is_late: bool,
    /// Updates are not given for now.
    pub(crate) is_paused: bool,
}

impl Watch {
    #[inline]
    pub(crate) const fn delivery<'m>(&self, class: MsgClass, is_final: bool, msg: &'m [u8]) -> Delivery<'m> {
        Delivery { subscription: self.subscription, item: self.item, class, is_final, msg }
    }

    /// Whether it is given updates.
    #[inline]
    pub(crate) const fn takes_updates(&self) -> bool {
        !self.is_late && !self.is_paused
    }
}

/// The watchers of a stream. Most streams have one, who lies in here, so that an update finds it without another look at memory.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    first: Option<Watch>,
    /// The others. INVARIANT: none without a first.
    more: Vec<Watch>,
}

impl Watchers {
    pub(crate) const fn of(first: Watch) -> Self {
        Self { first: Some(first), more: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Watch> {
        self.first.iter().chain(&self.more)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Watch> {
        self.first.iter_mut().chain(&mut self.more)
    }

    pub(crate) fn push(&mut self, watch: Watch) {
        match self.first {
            None => self.first = Some(watch),
            Some(_) => self.more.push(watch),
        }
    }

    /// Forgets one who leaves.
    pub(crate) fn remove(&mut self, subscription: SubscriptionId, item: u32) {
        let leaves = |watch: &Watch| (watch.subscription, watch.item) == (subscription, item);
        self.more.retain(|watch| !leaves(watch));
        if self.first.as_ref().is_some_and(leaves) {
            self.first = if self.more.is_empty() { None } else { Some(self.more.remove(0)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_stay_in_the_order_in_which_they_came() {
        let id = SubscriptionId::new(7);
        let watch = |item| Watch { subscription: id, item, is_late: false, is_paused: false };
        let items = |all: &Watchers| all.iter().map(|watch| watch.item).collect::<Vec<_>>();
        let mut all = Watchers::of(watch(1));
        for item in [2, 3, 4] {
            all.push(watch(item));
        }
        all.remove(id, 3);
        assert_eq!((items(&all), all.len()), (vec![1, 2, 4], 3));
        all.remove(id, 1);
        all.remove(SubscriptionId::new(8), 2);
        assert_eq!(items(&all), [2, 4]);
        all.iter_mut().for_each(|watch| watch.is_paused = true);
        assert!(all.iter().all(|watch| !watch.takes_updates()));
        all.remove(id, 2);
        all.remove(id, 4);
        assert!(all.is_empty() && items(&all).is_empty());
        all.push(watch(5));
        assert_eq!(items(&all), [5]);
    }
}
