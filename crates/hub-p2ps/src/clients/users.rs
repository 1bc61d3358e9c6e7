//! Users' totals over all connections: mounts and items, and how near the items are to their limit.
//!
//! A login looks its user up by name, once; whatever its client opens and closes after that finds the user by number.

use crate::ids::UserId;
use hub_items::load_marks::LoadState;
use std::collections::BTreeMap;

/// The totals of one user over all connections. One without mounts is nobody: the place is free.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) mounts: u32,
    pub(crate) items: u32,
    /// How near the items are to their limit.
    pub(crate) load: LoadState,
}

/// Users that are logged in. Clients choose the names, so they are found by comparison and not by hash.
#[derive(Debug, Default)]
pub(crate) struct Users {
    by_name: BTreeMap<String, UserId>,
    usages: Vec<Usage>,
    /// Numbers of users that have left.
    free: Vec<UserId>,
}

impl Users {
    /// The totals of a user who is logged in.
    pub(crate) fn usage(&self, user: UserId) -> Usage {
        let usage = self.usages.get(user.0 as usize).copied().unwrap_or_default();
        debug_assert!(usage.mounts > 0, "{user:?} is not logged in");
        usage
    }

    /// The totals of a user who is logged in, to be changed.
    pub(crate) fn usage_mut(&mut self, user: UserId) -> Option<&mut Usage> {
        let usage = self.usages.get_mut(user.0 as usize);
        debug_assert!(usage.as_ref().is_some_and(|usage| usage.mounts > 0), "{user:?} is not logged in");
        usage
    }

    /// How many logins a name has.
    pub(crate) fn mounts(&self, name: &str) -> u32 {
        self.by_name.get(name).map_or(0, |&user| self.usage(user).mounts)
    }

    /// How near each user is to the limit.
    pub(crate) fn states(&self) -> impl Iterator<Item = LoadState> {
        self.by_name.values().map(|&user| self.usage(user).load)
    }

    /// One login more of a name; tells the user's number.
    pub(crate) fn mount(&mut self, name: &str) -> UserId {
        let user = self.by_name.get(name).copied().unwrap_or_else(|| self.insert(name));
        self.usages[user.0 as usize].mounts += 1;
        user
    }

    fn insert(&mut self, name: &str) -> UserId {
        let user = self.free.pop().unwrap_or_else(|| {
            self.usages.push(Usage::default());
            UserId(self.usages.len() as u32 - 1)
        });
        debug_assert_eq!(self.usages[user.0 as usize].mounts, 0, "{user:?} is somebody else's number");
        self.by_name.insert(name.to_owned(), user);
        user
    }

    /// One login less of a name. The user's items are closed before the last of them.
    pub(crate) fn unmount(&mut self, name: &str, user: UserId) {
        debug_assert_eq!(self.by_name.get(name), Some(&user), "a name and its number");
        let Some(usage) = self.usage_mut(user) else {
            hub_items::fault!("a login of a user that is not there: {user:?}");
            return;
        };
        usage.mounts = usage.mounts.saturating_sub(1);
        if usage.mounts == 0 {
            debug_assert_eq!((usage.items, usage.load), (0, LoadState::Normal), "{user:?} leaves items behind");
            *usage = Usage::default();
            self.by_name.remove(name);
            self.free.push(user);
        }
    }

    /// One item more or less of a user who is logged in.
    pub(crate) fn count_item(&mut self, user: UserId, change: i32) {
        if let Some(usage) = self.usage_mut(user) {
            debug_assert!(change >= 0 || usage.items > 0, "{user:?} closes more than is open");
            usage.items = usage.items.saturating_add_signed(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Users;

    #[test]
    fn a_user_has_one_number_for_as_long_as_a_login_lasts() {
        let mut users = Users::default();
        let ann = users.mount("ann");
        let bob = users.mount("bob");
        assert_eq!(users.mount("ann"), ann);
        assert_ne!(ann, bob);
        users.count_item(ann, 1);
        assert_eq!((users.usage(ann).items, users.usage(bob).items), (1, 0));
        users.count_item(ann, -1);
        users.unmount("ann", ann);
        assert_eq!((users.mounts("ann"), users.mounts("bob"), users.mounts("eve")), (1, 1, 0));
        users.unmount("ann", ann);
        assert_eq!(users.mounts("ann"), 0);
        let eve = users.mount("eve");
        assert_eq!(eve, ann, "the number is used again");
        assert_eq!((users.usage(eve).mounts, users.usage(eve).items), (1, 0));
        assert_eq!(users.states().count(), 2);
    }
}
