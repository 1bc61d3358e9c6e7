//! Charts as inline SVG: lines over a rate, bars, histograms, a run over its time. No scripts, no fonts from elsewhere.

use std::fmt::Write as _;

/// Size of a chart in units of its view box; it scales with the page.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
/// Room around the plot: top, right (for the names at the ends of the lines), bottom, left.
const ROOM: (f64, f64, f64, f64) = (14.0, 268.0, 44.0, 66.0);
/// A line of more points is a curve, and its points are not marked.
const MARKS_MAX: usize = 25;
/// Letters of a bar's name that have room in front of it.
const NAME_MAX: usize = 54;
/// Least distance of two names.
const NAME_GAP: f64 = 14.0;

/// A series of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Written at its end.
    pub name: String,
    /// CSS colour.
    pub colour: &'static str,
    /// SVG dashes; empty is solid. Series differ by more than colour, for print.
    pub dashes: &'static str,
    /// x and y, by x.
    pub points: Vec<(f64, f64)>,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances, from 0.
    Linear,
    /// Equal ratios.
    Logarithmic,
}

/// An axis: its name, its division, how a tick is written.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Written along it, with the unit.
    pub name: &'static str,
    /// The axis' division.
    pub scale: Scale,
    /// A value as text.
    pub text: fn(f64) -> String,
}

/// A mapping from values to a range of the page.
#[derive(Clone, Copy, Debug)]
struct Map {
    from: (f64, f64),
    to: (f64, f64),
    scale: Scale,
}

impl Map {
    /// A mapping that holds all values with some air.
    fn of(values: impl Iterator<Item = f64> + Clone, scale: Scale, to: (f64, f64)) -> Option<Self> {
        let sound = values.filter(|v| v.is_finite() && (scale == Scale::Linear || *v > 0.0));
        let (low, high) = (sound.clone().fold(f64::MAX, f64::min), sound.fold(f64::MIN, f64::max));
        if low > high {
            return None;
        }
        let from = match scale {
            Scale::Linear => (0.0, if high > 0.0 { high * 1.06 } else { 1.0 }),
            Scale::Logarithmic => {
                let air = (high / low).powf(0.04).max(1.15);
                (low / air, high * air)
            }
        };
        Some(Self { from, to, scale })
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from.0) / (self.from.1 - self.from.0),
            Scale::Logarithmic => (value / self.from.0).ln() / (self.from.1 / self.from.0).ln(),
        };
        self.to.0 + share * (self.to.1 - self.to.0)
    }

    /// Round values, some five to ten of them.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.from;
        match self.scale {
            Scale::Linear => {
                let step = round_up((high - low) / 7.0);
                (0..=12).map(|n| f64::from(n) * step).filter(|v| *v >= low && *v <= high).collect()
            }
            Scale::Logarithmic => {
                let decades = (high / low).log10();
                let steps: &[f64] = if decades > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let first = low.log10().floor() as i32;
                let all = (first..=first + 12).flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)));
                all.filter(|v| *v >= low && *v <= high).collect()
            }
        }
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1e-12).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|v| *v >= value * 0.999).unwrap_or(value)
}

/// Text that may stand in HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn begin(title: &str, height: f64) -> String {
    format!(
        "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">",
        escape(title)
    )
}

const END: &str = "</svg></figure>\n";

/// Frame, grid, ticks and names of both axes.
fn axes(out: &mut String, (x_axis, x): (Axis, &Map), (y_axis, y): (Axis, &Map)) {
    let (left, right, top, bottom) = (x.to.0, x.to.1, y.to.1, y.to.0);
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{left:.1} {at:.1}H{right:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 7.0,
            at + 4.0,
            (y_axis.text)(tick)
        );
    }
    for tick in x.ticks() {
        let at = x.at(tick);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {top:.1}V{bottom:.1}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            (x_axis.text)(tick)
        );
    }
    let _ = write!(
        out,
        "<path class=\"axis\" d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"name\" transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(left, right),
        bottom + 36.0,
        escape(x_axis.name),
        f64::midpoint(top, bottom),
        escape(y_axis.name)
    );
}

/// Lines with a mark at each point and the name at the end. Empty without points.
pub fn lines(title: &str, x_axis: Axis, y_axis: Axis, series: &[Line]) -> String {
    let points = || series.iter().flat_map(|s| &s.points);
    let x = Map::of(points().map(|p| p.0), x_axis.scale, (ROOM.3, WIDTH - ROOM.1));
    let y = Map::of(points().map(|p| p.1), y_axis.scale, (HEIGHT - ROOM.2, ROOM.0));
    let (Some(x), Some(y)) = (x, y) else { return String::new() };
    let mut out = begin(title, HEIGHT);
    axes(&mut out, (x_axis, &x), (y_axis, &y));
    let mut names = Vec::new();
    for line in series.iter().filter(|s| !s.points.is_empty()) {
        let shown: Vec<(f64, f64)> = line.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        let path: Vec<String> = shown.iter().map(|p| format!("{:.1} {:.1}", p.0, p.1)).collect();
        let _ = write!(
            out,
            "<path fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke-dasharray=\"{}\" d=\"M{}\"/>",
            line.colour,
            line.dashes,
            path.join("L")
        );
        let is_curve = shown.len() > MARKS_MAX;
        for (at, value) in shown.iter().zip(&line.points).filter(|_| !is_curve) {
            let _ = write!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\" fill=\"{}\"><title>{}: {} at {}</title></circle>",
                at.0,
                at.1,
                line.colour,
                escape(&line.name),
                (y_axis.text)(value.1),
                (x_axis.text)(value.0)
            );
        }
        if let Some(last) = shown.last() {
            names.push((line, *last, last.1));
        }
    }
    write_names(&mut out, names, WIDTH - ROOM.1);
    // On a phone the names right of the plot are beyond the edge.
    let legend: Vec<String> = series
        .iter()
        .filter(|line| !line.points.is_empty())
        .map(|line| format!("<span style=\"color:{}\">{}</span>", line.colour, escape(&line.name)))
        .collect();
    out + &END.replace("</figure>", &format!("<p class=\"legend\">{}</p></figure>", legend.join(" · ")))
}

/// The names right of the plot, moved apart where lines end close together, each with a thin leader to its line.
fn write_names(out: &mut String, mut names: Vec<(&Line, (f64, f64), f64)>, right: f64) {
    names.sort_by(|a, b| a.2.total_cmp(&b.2));
    let top = ROOM.0 + 2.0;
    for n in 0..names.len() {
        let above = if n == 0 { top } else { names[n - 1].2 + NAME_GAP };
        names[n].2 = names[n].2.max(above);
    }
    let mut below = HEIGHT - ROOM.2 + 8.0;
    for name in names.iter_mut().rev() {
        name.2 = name.2.min(below);
        below = name.2 - NAME_GAP;
    }
    for (line, end, at) in names {
        let _ = write!(
            out,
            "<path class=\"leader\" stroke=\"{0}\" d=\"M{1:.1} {2:.1}L{3:.1} {4:.1}\"/><text class=\"series\" x=\"{5:.1}\" y=\"{6:.1}\" fill=\"{0}\">{7}</text>",
            line.colour,
            end.0 + 4.0,
            end.1,
            right + 12.0,
            at,
            right + 15.0,
            at + 4.0,
            escape(&line.name)
        );
    }
}

/// A bar of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// In front of it.
    pub name: String,
    /// CSS colour.
    pub colour: &'static str,
    /// The bar's length.
    pub value: f64,
    /// Least and greatest of several runs.
    pub range: Option<(f64, f64)>,
    /// Published by somebody, not measured here: drawn as an outline.
    pub is_published: bool,
}

/// Horizontal bars from 0, one below the other; the title says what outlines are, where there are some: rates, with all their
/// digits. Empty without bars.
pub fn bars(title: &str, text: fn(f64) -> String, all: &[Bar]) -> String {
    let (left, right, step) = (340.0, WIDTH - 90.0, 26.0);
    let longest = |b: &Bar| b.range.map_or(b.value, |r| r.1.max(b.value));
    let Some(x) = Map::of(all.iter().map(longest), Scale::Linear, (left, right)) else { return String::new() };
    let height = all.len() as f64 * step + 16.0;
    let outlined = if all.iter().any(|b| b.is_published) { " (outlined: published, other machines)" } else { "" };
    let mut out = begin(&format!("{title}{outlined}"), height);
    for (n, bar) in all.iter().enumerate() {
        let top = 6.0 + n as f64 * step;
        let (fill, stroke) = if bar.is_published { ("none", bar.colour) } else { (bar.colour, "none") };
        let end = x.at(bar.value);
        let rows = name_lines(&bar.name);
        for (row, text) in rows.iter().enumerate() {
            let at = top + 13.0 + (row as f64 - (rows.len() - 1) as f64 / 2.0) * 11.5;
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                escape(text)
            );
        }
        let _ = write!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"17\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.6\"/>",
            (end - left).max(1.0),
        );
        // A value below 0, which a difference may have, is written where its bar would begin.
        let mut label = end.max(left);
        if let Some((low, high)) = bar.range.filter(|(low, high)| high > low) {
            let (low, high, middle) = (x.at(low), x.at(high), top + 8.5);
            label = label.max(high);
            let _ = write!(
                out,
                "<path class=\"range\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {0:.1}V{1:.1}M{high:.1} {0:.1}V{1:.1}\"/>",
                middle - 4.0,
                middle + 4.0
            );
        }
        let _ = write!(
            out,
            "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            label + 6.0,
            top + 13.0,
            if bar.is_published { format!("{}/s", exact(bar.value)) } else { text(bar.value) }
        );
    }
    let _ = write!(out, "<path class=\"axis\" d=\"M{left:.1} 2V{:.1}\"/>", height - 6.0);
    out + END
}

/// A bar's name in one line, or in two where it is longer than the room before the bar.
fn name_lines(name: &str) -> Vec<&str> {
    if name.len() <= NAME_MAX {
        return vec![name];
    }
    let cut = name.char_indices().take_while(|(at, _)| *at <= NAME_MAX).filter(|(_, c)| *c == ' ').last();
    cut.map_or_else(|| vec![name], |(at, _)| vec![&name[..at], &name[at + 1..]])
}

/// A histogram: samples by bucket of so many units.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// In the legend.
    pub name: String,
    /// CSS colour.
    pub colour: &'static str,
    /// SVG dashes of its outline.
    pub dashes: &'static str,
    /// Lower end of a bucket, and its share of all samples.
    pub shares: Vec<(f64, f64)>,
    /// Share of the samples that lie right of the plot.
    pub beyond: f64,
}

/// Histograms over each other as outlines of steps; the axis of shares is linear. Empty without samples.
pub fn histograms(title: &str, x_axis: Axis, width: f64, all: &[Histogram]) -> String {
    let points = || all.iter().flat_map(|h| &h.shares);
    let y_axis = Axis { name: "share of the messages", scale: Scale::Linear, text: percent };
    let x = Map::of(points().map(|p| p.0 + width), Scale::Linear, (ROOM.3, WIDTH - ROOM.1));
    let y = Map::of(points().map(|p| p.1), Scale::Linear, (HEIGHT - ROOM.2, ROOM.0));
    let (Some(x), Some(y)) = (x, y) else { return String::new() };
    let mut out = begin(title, HEIGHT);
    axes(&mut out, (x_axis, &x), (y_axis, &y));
    for (n, histogram) in all.iter().enumerate() {
        let mut path = format!("M{:.1} {:.1}", x.at(0.0), y.at(0.0));
        let mut end = 0.0;
        for &(from, share) in &histogram.shares {
            if from > end + width * 0.01 {
                let _ = write!(path, "V{:.1}H{:.1}", y.at(0.0), x.at(from));
            }
            let _ = write!(path, "V{:.1}H{:.1}", y.at(share), x.at(from + width));
            end = from + width;
        }
        let _ = write!(path, "V{:.1}", y.at(0.0));
        let at = ROOM.0 + 8.0 + n as f64 * 30.0;
        let right = WIDTH - ROOM.1 + 15.0;
        let beyond =
            if histogram.beyond > 0.0 { format!("{} beyond", percent(histogram.beyond)) } else { String::new() };
        let _ = write!(
            out,
            "<path d=\"{path}\" fill=\"{0}\" fill-opacity=\"0.10\" stroke=\"{0}\" stroke-width=\"1.6\" stroke-dasharray=\"{1}\"/>\
             <text class=\"series\" x=\"{right:.1}\" y=\"{at:.1}\" fill=\"{0}\">{2}</text><text class=\"tick\" x=\"{right:.1}\" y=\"{3:.1}\">{beyond}</text>",
            histogram.colour,
            histogram.dashes,
            escape(&histogram.name),
            at + 13.0
        );
    }
    out + END
}

/// A share with as many digits as matter.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        p if p >= 9.95 => format!("{p:.0} %"),
        p if p >= 0.095 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}

/// A run over its time: a value by window, the part that was discarded shaded. Empty without windows.
pub fn timeline(title: &str, y_axis: Axis, until_s: f64, points: &[(f64, f64)], colour: &'static str) -> String {
    let x_axis = Axis { name: "seconds since the first message", scale: Scale::Linear, text: short };
    let height = 200.0;
    let x = Map::of(points.iter().map(|p| p.0), Scale::Linear, (ROOM.3, WIDTH - 20.0));
    let y = Map::of(points.iter().map(|p| p.1), y_axis.scale, (height - ROOM.2, ROOM.0));
    let (Some(x), Some(y)) = (x, y) else { return String::new() };
    let mut out = begin(title, height);
    if until_s > 0.0 {
        let (left, right) = (x.at(0.0), x.at(until_s));
        let _ = write!(
            out,
            "<rect class=\"discarded\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">discarded</text>",
            y.to.1,
            right - left,
            y.to.0 - y.to.1,
            left + 4.0,
            y.to.1 + 12.0
        );
    }
    axes(&mut out, (x_axis, &x), (y_axis, &y));
    let path: Vec<String> = points.iter().map(|p| format!("{:.1} {:.1}", x.at(p.0), y.at(p.1))).collect();
    let _ = write!(out, "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" d=\"M{}\"/>", path.join("L"));
    out + END
}

/// A number without needless digits: `0.25`, `1.5`, `12`, `40k`, `1.2M`.
pub fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// A published rate, with all its digits: `11.35M`, `25.7k`.
pub fn exact(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{}M", value / 1e6),
        v if v >= 1e3 => format!("{}k", value / 1e3),
        _ => format!("{value}"),
    }
}

/// Microseconds as people write them: `85 us`, `1.2 ms`, `2 s`.
pub fn duration(us: f64) -> String {
    let (value, unit) = match us.abs() {
        v if v >= 1e6 => (us / 1e6, "s"),
        v if v >= 1e3 => (us / 1e3, "ms"),
        _ => (us, "µs"),
    };
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_rate_keeps_its_digits() {
        let all = [11_350_000.0, 25_700.0, 800.0, 1_310_000.0].map(exact);
        assert_eq!(all, ["11.35M", "25.7k", "800", "1.31M"]);
    }

    const RATE: Axis = Axis { name: "updates a second", scale: Scale::Logarithmic, text: short };
    const TIME: Axis = Axis { name: "mean latency", scale: Scale::Logarithmic, text: duration };

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.to_owned(), colour: "#123456", dashes: "", points: points.to_vec() }
    }

    #[test]
    fn a_line_goes_where_its_values_are() {
        let chart = lines("T <1>", RATE, TIME, &[line("a", &[(1e3, 10.0), (1e5, 1_000.0)])]);
        // Both axes have two decades and 4 % of air: the same share from each corner.
        let air = 1.0 / 27.0;
        let at = |from: f64, to: f64, share: f64| from + (to - from) * share;
        let (left, right) = (at(66.0, 592.0, air), at(66.0, 592.0, 1.0 - air));
        let (low, high) = (at(286.0, 14.0, air), at(286.0, 14.0, 1.0 - air));
        assert!(chart.contains(&format!("d=\"M{left:.1} {low:.1}L{right:.1} {high:.1}\"")), "{chart}");
        assert!(chart.contains("T &lt;1&gt;") && chart.contains(">100 µs<") && chart.contains(">10k<"));
        assert_eq!(lines("T", RATE, TIME, &[line("a", &[])]), "");
    }

    #[test]
    fn names_do_not_lie_on_each_other() {
        let ends: Vec<Line> =
            (0..6).map(|n| line(&format!("n{n}"), &[(1.0, 100.0), (10.0, 100.0 + f64::from(n))])).collect();
        let chart = lines("T", RATE, TIME, &ends);
        let mut at: Vec<f64> = chart
            .split("class=\"series\"")
            .skip(1)
            .map(|t| t.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        at.sort_by(f64::total_cmp);
        assert_eq!(at.len(), 6);
        assert!(at.windows(2).all(|w| w[1] - w[0] >= NAME_GAP - 0.11), "{at:?}");
        assert!(at.iter().all(|y| (0.0..HEIGHT).contains(y)));
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value, is_published| Bar { name: "b".to_owned(), colour: "red", value, range: None, is_published };
        let chart = bars("T", short, &[bar(100.0, false), bar(50.0, true)]);
        let whole = 430.0 / 1.06;
        assert!(chart.contains(&format!("width=\"{whole:.1}\" height=\"17\" fill=\"red\"")), "{chart}");
        assert!(chart.contains(&format!("width=\"{:.1}\" height=\"17\" fill=\"none\" stroke=\"red\"", whole / 2.0)));
    }

    #[test]
    fn a_bars_name_stays_within_the_chart() {
        let name = "RMDS 6.3, RHEL 5.2, 10 GigE, MTU 9000, 24 cores (our Producer 50/50 is inferred)";
        let lines = name_lines(name);
        assert_eq!(lines, ["RMDS 6.3, RHEL 5.2, 10 GigE, MTU 9000, 24 cores (our", "Producer 50/50 is inferred)"]);
        assert_eq!(name_lines("Quoteway, held"), ["Quoteway, held"]);
        let long = "x".repeat(90);
        assert_eq!(name_lines(&long), [long.as_str()]);
        let bar = Bar { name: name.to_owned(), colour: "red", value: 1.0, range: None, is_published: true };
        let chart = bars("T", short, &[bar]);
        assert_eq!(chart.matches("class=\"tick\"").count(), 2, "{chart}");
        let below = |value| Bar { name: "b".to_owned(), colour: "red", value, range: None, is_published: false };
        assert!(bars("T", short, &[below(-50.0), below(100.0)]).contains("class=\"value\" x=\"346.0\""));
    }

    #[test]
    fn numbers_are_written_as_people_do() {
        let rates: Vec<String> = [0.25, 12.0, 1_500.0, 604_960.0, 1_650_000.0].map(short).into();
        assert_eq!(rates, ["0.25", "12", "1.5k", "605k", "1.65M"]);
        let times: Vec<String> = [0.0, 8.25, 85.0, 999.0, 1_234.0, 45_000.0, 2e6].map(duration).into();
        assert_eq!(times, ["0 µs", "8.25 µs", "85 µs", "999 µs", "1.23 ms", "45 ms", "2 s"]);
        assert_eq!([0.0, 0.0005, 0.011, 0.5].map(percent), ["0", "0.05 %", "1.1 %", "50 %"]);
    }

    #[test]
    fn a_histogram_falls_to_zero_where_a_bucket_is_missing() {
        let shares = vec![(10.0, 0.5), (40.0, 0.5)];
        let one = Histogram { name: "h".to_owned(), colour: "red", dashes: "", shares, beyond: 0.01 };
        let chart = histograms("T", Axis { scale: Scale::Linear, ..TIME }, 10.0, &[one]);
        let zero = HEIGHT - ROOM.2;
        let path = chart.split("<path d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches(&format!("V{zero:.1}")).count(), 3, "{path}");
        assert!(chart.contains("1.0 % beyond"));
    }
}
