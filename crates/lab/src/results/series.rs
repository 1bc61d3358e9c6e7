//! Figures that others have published, as series beside ours.

/// Stands behind the name of every published figure of Producer 50/50.
pub const INFERRED: &str = " (our Producer 50/50 is inferred)";

/// A published series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// How it is called.
    pub label: String,
    /// The report, as the files name it.
    pub report: String,
    /// Where it stands in the report: table and page.
    pub place: String,
    /// Of a throughput: system and test, as its table calls them.
    pub of: (String, String),
    /// Latency at rates; empty for a throughput.
    pub points: Vec<Point>,
    /// Highest rate published, deliveries a second; the highest of the points where there are some.
    pub highest: f64,
}

/// Latency at a rate, as published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Updates a second.
    pub rate: f64,
    /// Mean, in microseconds.
    pub mean_us: f64,
    /// Standard deviation.
    pub stddev_us: f64,
    /// Longest.
    pub max_us: f64,
    /// Shortest, where it is published.
    pub min_us: Option<f64>,
    /// How many updates were sampled, where it is published.
    pub samples: Option<f64>,
}

impl Series {
    /// The table that it stands in, as the files name it.
    pub fn table(&self) -> &str {
        let place = self.place.strip_prefix("table ").unwrap_or(&self.place);
        place.split(',').next().unwrap_or(place)
    }

    /// The point of a rate.
    pub fn at(&self, rate: f64) -> Option<&Point> {
        self.points.iter().find(|p| (p.rate - rate).abs() < 0.5)
    }
}

impl Point {
    /// The point's figures by the names of ours, as far as they are published.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [Some(self.mean_us), Some(self.stddev_us), Some(self.max_us), self.min_us, self.samples];
        let names = ["mean_us", "stddev_us", "max_us", "min_us", "samples"];
        names.into_iter().zip(all).filter_map(|(name, value)| Some((name, value?)))
    }
}
