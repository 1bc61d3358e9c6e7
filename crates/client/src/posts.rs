//! Posts that wait for their acknowledgement.

use crate::links::LinkId;
use crate::subscription::SubscriptionId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Who has posted.
pub(crate) type Poster = Option<(SubscriptionId, u32)>;

/// Posts by id, bounded, each with the time until which an answer is awaited.
#[derive(Debug)]
pub(crate) struct Posts {
    waiting: FxHashMap<u32, (u64, LinkId, Poster)>,
    by_deadline: BTreeSet<(u64, u32)>,
    next: u32,
    most: usize,
    timeout_ns: u64,
}

impl Posts {
    pub(crate) fn new(most: usize, timeout_ns: u64) -> Self {
        Self { waiting: FxHashMap::default(), by_deadline: BTreeSet::new(), next: 1, most, timeout_ns }
    }

    /// An id for a post that wants an answer; `None` if too many wait.
    pub(crate) fn begin(&mut self, now: u64, link: LinkId, poster: Poster) -> Option<u32> {
        if self.waiting.len() >= self.most {
            return None;
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1).max(1);
        let deadline = now.saturating_add(self.timeout_ns);
        self.waiting.insert(id, (deadline, link, poster));
        self.by_deadline.insert((deadline, id));
        Some(id)
    }

    /// An answer has come, or the post was not sent: it waits no more. Gives who posted; `None` if nothing waits under this id.
    pub(crate) fn end(&mut self, id: u32) -> Option<Poster> {
        let (deadline, _, poster) = self.waiting.remove(&id)?;
        self.by_deadline.remove(&(deadline, id));
        Some(poster)
    }

    /// The next post whose time is over.
    pub(crate) fn overdue(&mut self, now: u64) -> Option<(u32, Poster)> {
        let &(deadline, id) = self.by_deadline.first()?;
        if now < deadline {
            return None;
        }
        self.end(id).map(|poster| (id, poster))
    }

    /// Posts of a connection that is lost: it answers none. The oldest first.
    pub(crate) fn lost(&mut self, link: LinkId) -> Vec<(u32, Poster)> {
        let of_link = |id: &u32| self.waiting.get(id).is_some_and(|(_, at, _)| *at == link);
        let ids: Vec<u32> = self.by_deadline.iter().map(|(_, id)| *id).filter(of_link).collect();
        ids.into_iter().filter_map(|id| self.end(id).map(|poster| (id, poster))).collect()
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        self.by_deadline.first().map(|&(deadline, _)| deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_is_answered_once_or_overdue_and_the_bound_holds() {
        let mut posts = Posts::new(2, 10);
        let begin = |posts: &mut Posts, now| posts.begin(now, LinkId::FIRST, None);
        let (a, b) = (begin(&mut posts, 0).expect("room"), begin(&mut posts, 5).expect("room"));
        assert_eq!(begin(&mut posts, 5), None);
        assert_eq!((posts.end(a), posts.end(a)), (Some(None), None));
        assert_eq!((posts.overdue(14), posts.timeout()), (None, Some(15)));
        assert_eq!(posts.overdue(15), Some((b, None)));
        let (first, second) = (posts.begin(20, LinkId::FIRST, None), posts.begin(20, LinkId::new(1), None));
        assert_eq!(posts.lost(LinkId::new(1)), [(second.expect("room"), None)]);
        assert_eq!((posts.timeout(), posts.lost(LinkId::FIRST)), (Some(30), vec![(first.expect("room"), None)]));
        assert_eq!(posts.timeout(), None);
    }
}
