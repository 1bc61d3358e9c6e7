//! The highest rate that is held, by halving.

use measure::process::Fault;

/// Probes at most; one that fails is tried once more, since a neighbour's burst looks the same.
pub(super) const STEPS: u32 = 7;
/// Probes of a quick run.
pub(super) const QUICK_STEPS: u32 = 3;
/// The search ends when the rate is known to this share of the ceiling.
const FINE: f64 = 0.03;

/// The highest rate up to `top` for which `held` says yes; `None` if there was none.
///
/// # Errors
/// Those of `held`.
pub(super) fn highest(
    top: f64,
    steps: u32,
    mut held: impl FnMut(f64) -> Result<bool, Fault>,
) -> Result<Option<f64>, Fault> {
    let (mut low, mut high, mut probe) = (0.0, top, top * 0.8);
    for _ in 0..steps {
        if held(probe)? || held(probe)? {
            low = probe;
        } else {
            high = probe;
        }
        if high - low < top * FINE {
            break;
        }
        probe = f64::midpoint(low, high);
    }
    Ok((low > 0.0).then_some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_or_there_is_none() {
        let found = highest(1e6, STEPS, |rate| Ok(rate <= 430_000.0)).expect("a search").expect("a rate");
        assert!((400_000.0..=430_000.0).contains(&found), "{found}");
        assert_eq!(highest(1e6, STEPS, |_| Ok(false)), Ok(None));
        let mut first = true;
        let flaky = |_| Ok(!std::mem::take(&mut first));
        assert!(highest(1e6, STEPS, flaky).expect("a search").is_some_and(|rate| rate > 900_000.0));
        assert_eq!(highest(1e6, STEPS, |_| Err(Fault::Stopped)), Err(Fault::Stopped));
    }
}
