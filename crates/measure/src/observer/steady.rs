//! Where the steady state of a test begins: the rule of appendix I of report 1, made exact.
//!
//! There the first 35 to 50 seconds were discarded because only then the required rate was reached. Here a run is cut into
//! [`WINDOWS`] windows of equal length. What the second half of them shows is taken for the state that the test settles in: its median
//! of the windows' rates, and its median of the windows' median latencies with [`SPREAD`] times their median deviation
//! around it (at least [`BAND`] of the median, at least 5 us). The steady state begins with the first of [`IN_A_ROW`] windows in a row whose
//! rate is within [`RATE_BAND`] and whose median latency is within that spread. It never begins in the second half, and there is none
//! where the last quarter's median latency is above the quarter's before by more than [`GROWTH`] of it (a queue that grows):
//! then nothing is discarded and the report says so.

use crate::stats::median;

/// Windows of a run.
pub const WINDOWS: usize = 40;
/// Windows in a row that must agree.
pub const IN_A_ROW: usize = 3;
/// Share of the settled rate by which a window's may differ.
pub const RATE_BAND: f64 = 0.05;
/// Median deviations of the latency by which a window's median may differ.
pub const SPREAD: f64 = 3.0;
/// ... or this share of it, if that is more.
pub const BAND: f64 = 0.25;
/// Share of its latency by which the last quarter of a run may be above the one before.
pub const GROWTH: f64 = 0.5;
const BAND_US: f64 = 5.0;

/// The rule in numbers, for reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// [`WINDOWS`].
    pub windows: usize,
    /// [`IN_A_ROW`].
    pub in_a_row: usize,
    /// [`RATE_BAND`] in percent.
    pub rate_percent: f64,
    /// [`BAND`] in percent.
    pub latency_percent: f64,
}

/// The rule that [`begin`] follows.
pub const RULE: Rule =
    Rule { windows: WINDOWS, in_a_row: IN_A_ROW, rate_percent: 100.0 * RATE_BAND, latency_percent: 100.0 * BAND };

/// A window of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Window {
    /// The window's begin, in seconds since the first message was sent.
    pub at_s: f64,
    /// Messages sent a second.
    pub sent_per_s: f64,
    /// Messages received a second.
    pub received_per_s: f64,
    /// Median latency of the messages sent in it; 0 without any.
    pub median_us: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// Longest latency.
    pub max_us: f64,
}

/// The first window of the steady state; `None` if there is none.
pub fn begin(windows: &[Window]) -> Option<usize> {
    let half = windows.len() / 2;
    if half < IN_A_ROW {
        return None;
    }
    let settled = &windows[half..];
    let of = |what: fn(&Window) -> f64| settled.iter().map(what).collect::<Vec<_>>();
    let (rates, medians) = (of(|w| w.received_per_s), of(|w| w.median_us));
    let (rate, latency) = (median(&rates), median(&medians));
    let (third, fourth) = (median(&medians[..medians.len() / 2]), median(&medians[medians.len() / 2..]));
    if fourth - third > (GROWTH * third).max(BAND_US) {
        return None;
    }
    let deviations: Vec<f64> = medians.iter().map(|m| (m - latency).abs()).collect();
    let spread = (SPREAD * median(&deviations)).max(BAND * latency).max(BAND_US);
    let agrees =
        |w: &Window| (w.received_per_s - rate).abs() <= RATE_BAND * rate && (w.median_us - latency).abs() <= spread;
    (0..=half - IN_A_ROW).find(|&first| windows[first..first + IN_A_ROW].iter().all(agrees))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(latencies: impl IntoIterator<Item = (f64, f64)>) -> Vec<Window> {
        let made = latencies.into_iter().enumerate();
        made.map(|(n, (rate, us))| Window {
            at_s: n as f64,
            sent_per_s: rate,
            received_per_s: rate,
            median_us: us,
            ..Window::default()
        })
        .collect()
    }

    #[test]
    fn a_slow_start_is_found() {
        let start = (0..7).map(|n| (400.0 + 100.0 * f64::from(n), 900.0 - 100.0 * f64::from(n)));
        let settled = (0..33).map(|n| (1_000.0 + f64::from(n % 3), 200.0 + f64::from(n % 5)));
        // The window of rate 1,000 and 300 us is still out of the latency's band.
        assert_eq!(begin(&windows(start.chain(settled))), Some(7));
    }

    #[test]
    fn a_steady_run_loses_nothing_and_one_bad_window_is_forgiven() {
        let all = windows((0..40).map(|n| (1_000.0, if n == 25 { 9_000.0 } else { 50.0 })));
        assert_eq!(begin(&all), Some(0));
    }

    #[test]
    fn growth_and_short_runs_have_no_steady_state() {
        let growing = windows((0..40).map(|n| (1_000.0, 50.0 * f64::from(n * n))));
        assert_eq!(begin(&growing), None);
        assert_eq!(begin(&windows((0..5).map(|_| (1.0, 1.0)))), None);
        assert_eq!(begin(&[]), None);
    }
}
