//! Matching the quality of service that a request asks for to one that a service has.

use crate::item::KeyQos;
use rwf::{Qos, Rate, Timeliness};

/// Ranks of a quality, smaller is better. An unspecified part ranks as told.
fn ranks(qos: Qos, unspecified: i64) -> (i64, i64) {
    let rank = |kind: u8, info: u16| match kind {
        0 => unspecified,
        1 => 0,
        2 => 65_536 * 2,
        _ => 1 + i64::from(info),
    };
    (
        rank(qos.timeliness.0, qos.time_info),
        rank(qos.rate.0, if qos.rate == Rate::TIME_CONFLATED { qos.rate_info } else { 0 }),
    )
}

/// The best quality of `offered` that a request with these members may get: a range if there is a worst one, exactly
/// that one if there is none, any if none is asked for (ETA `Qos.isInRange`, RDM usage guide 4.3.1.1). A service that
/// offers none has real time, tick by tick.
pub(crate) fn matching(offered: &[Qos], best: Option<Qos>, worst: Option<Qos>) -> Option<Qos> {
    let default = [Qos::REALTIME_TICK];
    let offered = if offered.is_empty() { &default[..] } else { offered };
    let fits = |qos: &&Qos| in_range(**qos, best, worst);
    offered.iter().filter(fits).min_by_key(|qos| ranks(**qos, i64::MAX)).copied()
}

/// Whether a request for this quality alone may get one of `offered`.
pub(crate) fn is_offered(offered: &[Qos], wanted: Qos) -> bool {
    // Nearly always the very quality.
    offered.contains(&wanted) || matching(offered, Some(wanted), None).is_some()
}

fn in_range(qos: Qos, best: Option<Qos>, worst: Option<Qos>) -> bool {
    let Some(best) = best else { return true };
    if best.timeliness == Timeliness::UNSPECIFIED && best.rate == Rate::UNSPECIFIED && worst.is_none_or(unspecified) {
        return true;
    }
    let worst = match worst {
        Some(worst) => worst,
        // Without a worst one, a dynamic request accepts whatever is not better than it asked for.
        None if best.dynamic => Qos::new(Timeliness::UNSPECIFIED, Rate::UNSPECIFIED),
        None => best,
    };
    if KeyQos::from(worst) == KeyQos::from(best) {
        return KeyQos::from(qos) == KeyQos::from(best);
    }
    let (top, have, bottom) = (ranks(best, -1), ranks(qos, -1), ranks(worst, i64::MAX));
    top.0 <= have.0 && have.0 <= bottom.0 && top.1 <= have.1 && have.1 <= bottom.1
}

fn unspecified(qos: Qos) -> bool {
    qos.timeliness == Timeliness::UNSPECIFIED && qos.rate == Rate::UNSPECIFIED
}

#[cfg(test)]
mod tests {
    use super::matching;
    use rwf::{Qos, Rate, Timeliness};

    const LIVE: Qos = Qos::REALTIME_TICK;
    const CONFLATED: Qos = Qos::new(Timeliness::REALTIME, Rate::JIT_CONFLATED);

    fn delayed(seconds: u16) -> Qos {
        Qos { time_info: seconds, ..Qos::new(Timeliness::DELAYED, Rate::TICK_BY_TICK) }
    }

    #[test]
    fn a_quality_that_is_there_is_offered() {
        let all = [LIVE, CONFLATED, delayed(900), delayed(60)];
        let dynamic = Qos { dynamic: true, ..LIVE };
        for wanted in all.into_iter().chain([dynamic]) {
            for offered in [&all[..], &all[1..], &all[2..], &[], &[dynamic]] {
                let found = matching(offered, Some(wanted), None).is_some();
                assert_eq!(super::is_offered(offered, wanted), found, "{wanted:?} of {offered:?}");
            }
        }
    }

    #[test]
    fn nothing_asked_gives_the_best() {
        assert_eq!(matching(&[delayed(900), LIVE, CONFLATED], None, None), Some(LIVE));
        assert_eq!(matching(&[], None, None), Some(LIVE));
    }

    #[test]
    fn one_quality_is_exact() {
        assert_eq!(matching(&[LIVE], Some(LIVE), None), Some(LIVE));
        assert_eq!(matching(&[delayed(900)], Some(LIVE), None), None);
        assert_eq!(matching(&[LIVE], Some(delayed(900)), None), None);
        assert_eq!(matching(&[delayed(60), delayed(900)], Some(delayed(900)), None), Some(delayed(900)));
    }

    #[test]
    fn a_range_gives_the_best_in_it() {
        let worst = delayed(1000);
        assert_eq!(matching(&[delayed(900), delayed(60)], Some(LIVE), Some(worst)), Some(delayed(60)));
        assert_eq!(matching(&[delayed(1200)], Some(LIVE), Some(worst)), None);
        assert_eq!(matching(&[LIVE], Some(delayed(60)), Some(worst)), None);
    }

    #[test]
    fn an_unspecified_part_is_open() {
        let any_rate = Qos::new(Timeliness::REALTIME, Rate::UNSPECIFIED);
        assert_eq!(matching(&[CONFLATED], Some(any_rate), Some(any_rate)), None);
        let any = Qos::new(Timeliness::UNSPECIFIED, Rate::UNSPECIFIED);
        assert_eq!(matching(&[CONFLATED], Some(any), None), Some(CONFLATED));
        assert_eq!(matching(&[CONFLATED], Some(LIVE), Some(any)), Some(CONFLATED));
    }
}
