//! Who may see what, by seed. `QUOTEWAY_SEED=n` runs one.

use sim::permissions::{Counts, run};

#[test]
fn nothing_denied_leaves_a_p2ps_and_nobody_else_is_disturbed() {
    let alone = std::env::var("QUOTEWAY_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let count = std::env::var("QUOTEWAY_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let seeds = alone.map_or(1..1 + count, |seed| seed..seed + 1);
    let mut all = Counts::default();
    for seed in seeds {
        let counts = std::panic::catch_unwind(|| run(seed));
        let counts = counts.unwrap_or_else(|_| panic!("QUOTEWAY_SEED={seed} cargo test -p sim --test all permissions"));
        all.delivered += counts.delivered;
        all.denied += counts.denied;
        all.logins_ended += counts.logins_ended;
        all.kept += counts.kept;
    }
    if alone.is_none() {
        let least = [all.delivered, all.denied, all.logins_ended, all.kept];
        assert!(least.iter().all(|counted| *counted > 2 * count), "something happens: {all:?}");
    }
}
