//! Charts of the report: lines as SVG, without a script and without a font of their own.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::text::number;
use super::{Axes, ChartSeries, Points};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// Steps of the grid, at most.
const STEPS_MAX: f64 = 5.0;

/// Points of a line that have a dot, at most.
const DOTS_MAX: usize = 12;

/// The class of a subject's colour: ours has its own, the others in the order in which they come.
pub(super) fn class(subject: &str, subjects: &[String]) -> String {
    if subject.starts_with("inrush") {
        let ours = subjects.iter().filter(|name| name.starts_with("inrush"));
        let at = ours.take_while(|name| *name != subject).count();
        return format!("us{at}");
    }
    let others = subjects.iter().filter(|name| !name.starts_with("inrush"));
    let at = others.take_while(|name| *name != subject).count();
    format!("them{}", at % 4)
}

/// A round number that goes into `span` a few times.
fn step(span: f64) -> f64 {
    if span <= 0.0 {
        return 1.0;
    }
    let rough = span / STEPS_MAX;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let fits = steps.iter().find(|step| **step * power >= rough);
    fits.unwrap_or(&10.0) * power
}

/// Ranges of both axes, from zero to `end` and `top`, and their grid steps.
struct Frame {
    end: f64,
    top: f64,
    step_x: f64,
    step_y: f64,
}

impl Frame {
    fn of(series: &[&ChartSeries]) -> Self {
        let points = || series.iter().flat_map(|one| one.points.iter());
        let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let step_y = step(highest);
        let end = points().map(|(x, _)| *x).fold(0.0, f64::max).max(1.0);
        Self {
            end,
            top: (highest / step_y).ceil().max(1.0) * step_y,
            step_x: step(end),
            step_y,
        }
    }

    fn x(&self, x: f64) -> f64 {
        LEFT + x / self.end * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.top * (HEIGHT - TOP - BOTTOM)
    }

    /// The grid with its numbers, and what the horizontal axis is.
    fn draw(&self, svg: &mut String, axes: Axes) {
        let right = WIDTH - RIGHT;
        for n in 0..=(self.top / self.step_y).round() as u32 {
            let value = f64::from(n) * self.step_y;
            let (at, beside) = (self.y(value), LEFT - 8.0);
            let text = number(value, if self.step_y < 1.0 { 2 } else { 0 });
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{beside}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                at + 4.0
            );
        }
        let mut label = |at: f64, below: f64, text: &str| {
            let y = HEIGHT - BOTTOM + below;
            let _ = write!(
                svg,
                "<text x=\"{at:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>"
            );
        };
        for n in 0..=(self.end / self.step_x).floor() as u32 {
            let value = f64::from(n) * self.step_x;
            let digits = if self.step_x < 1.0 { 1 } else { 0 };
            label(self.x(value), 18.0, &number(value, digits));
        }
        label((LEFT + right) / 2.0, BOTTOM - 6.0, axes.x);
    }
}

/// One drawing: all lines of one chart. Writing to a string cannot fail.
pub(super) fn lines(series: &[&ChartSeries], subjects: &[String], axes: Axes) -> String {
    let frame = Frame::of(series);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by {}\">",
        axes.y, axes.x
    );
    frame.draw(&mut svg, axes);
    // Ours is drawn last, above the others.
    let mut order: Vec<&&ChartSeries> = series.iter().collect();
    order.sort_by_key(|one| one.subject.starts_with("inrush"));
    for one in order {
        let class = class(&one.subject, subjects);
        let points = one.points.iter().map(|(x, y)| (frame.x(*x), frame.y(*y)));
        let points: Points = points.collect();
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let path = path.join(" ");
        let _ = write!(svg, "<polyline class=\"{class}\" points=\"{path}\"/>");
        for (x, y) in points.iter().filter(|_| points.len() <= DOTS_MAX) {
            let _ = write!(
                svg,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// The charts that `series` are of, in order.
pub(super) fn names(series: &[ChartSeries]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let names = series.iter().map(|one| one.chart.as_str());
    names.filter(|name| seen.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_a_few_round_steps() {
        for (span, expected) in [
            (1.0, 0.2),
            (7.0, 2.0),
            (100.0, 20.0),
            (400_000.0, 100_000.0),
        ] {
            assert!((step(span) - expected).abs() < expected * 1e-9, "{span}");
        }
        assert!((step(0.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn each_point_lies_within_the_drawing_also_where_all_are_zero() {
        let axes = Axes { x: "x", y: "y" };
        for points in [vec![(0.0, 0.0), (5.0, 0.0)], vec![(0.0, 3.0), (9.0, 1e6)]] {
            let series = ChartSeries {
                chart: String::new(),
                subject: "inrush".to_owned(),
                points,
            };
            let svg = lines(&[&series], &["inrush".to_owned()], axes);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("polyline class=\"us0\""));
        }
    }

    #[test]
    fn subjects_keep_their_colours() {
        let all = ["inrush, a", "inrush, b", "rsyslog"].map(str::to_owned);
        assert_eq!(class("inrush, b", &all), "us1");
        assert_eq!(class("rsyslog", &all), "them0");
    }
}
