//! Statistics of a few runs: medians, spreads, ratios of pairs, and whether something grows.

/// Several measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; the mean of the middle two when their number is even.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// How many.
    pub count: usize,
}

impl Spread {
    /// Of these values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        Some(Self { median: middle(&sorted), low, high, count: sorted.len() })
    }
}

/// The median; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(0.0, |s| s.median)
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// The ratios of measurements that were taken as pairs, in order. What has no partner, or one of zero, is left out.
pub fn ratios(numerators: &[f64], denominators: &[f64]) -> Vec<f64> {
    let pairs = numerators.iter().zip(denominators);
    pairs.filter(|(_, d)| **d != 0.0).map(|(n, d)| n / d).filter(|r| r.is_finite()).collect()
}

/// The slope of a series by Theil and Sen, the median of the slopes of all pairs: up to 29 % of the points may be
/// arbitrarily wrong. 0 with fewer than two points.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::new();
    for (i, (x0, y0)) in points.iter().enumerate() {
        for (x1, y1) in &points[i + 1..] {
            if x1 > x0 {
                slopes.push((y1 - y0) / (x1 - x0));
            }
        }
    }
    median(&slopes)
}

/// The greatest of each `length` consecutive values: what a window of that length would have shown at its worst.
pub fn window_maxima(values: &[f64], length: usize) -> Vec<f64> {
    values.windows(length.max(1)).map(|w| w.iter().copied().fold(f64::MIN, f64::max)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0, count: 3 }));
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert_eq!(Spread::of(&[f64::NAN, 5.0]).map(|s| s.count), Some(1));
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        assert_eq!(ratios(&[2.0, 9.0, 5.0], &[1.0, 3.0]), [2.0, 3.0]);
        assert_eq!(ratios(&[2.0, 9.0], &[0.0, 3.0]), [3.0]);
    }

    #[test]
    fn a_slope_forgives_outliers_and_sees_growth() {
        let flat: Vec<(f64, f64)> = (0..12).map(|i| (f64::from(i), if i % 5 == 0 { 9_000.0 } else { 40.0 })).collect();
        assert!(slope(&flat).abs() < 1e-9);
        let growing: Vec<(f64, f64)> = (0..12).map(|i| (f64::from(i) / 4.0, 100.0 + f64::from(i) * 500.0)).collect();
        assert!((slope(&growing) - 2_000.0).abs() < 1e-6);
        assert!(slope(&[(1.0, 5.0)]).abs() < 1e-12);
    }

    #[test]
    fn windows_show_their_worst() {
        assert_eq!(window_maxima(&[1.0, 5.0, 2.0, 3.0], 2), [5.0, 5.0, 3.0]);
        assert_eq!(window_maxima(&[1.0], 2), [0.0; 0]);
    }
}
