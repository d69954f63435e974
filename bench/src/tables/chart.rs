//! Charts of the report: lines as SVG, without a script and without a font of their own.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::text::number;
use super::{Axes, Series};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// Steps of the grid, at most.
const STEPS_MAX: f64 = 5.0;

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

/// One drawing: all lines of one chart. Writing to a string cannot fail.
pub(super) fn lines(series: &[&Series], subjects: &[String], axes: Axes) -> String {
    let points = || series.iter().flat_map(|one| one.points.iter());
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let step_y = step(top);
    let top = (top / step_y).ceil().max(1.0) * step_y;
    let end = points().map(|(x, _)| *x).fold(0.0, f64::max).max(1.0);
    let at_x = |x: f64| LEFT + x / end * (WIDTH - LEFT - RIGHT);
    let at_y = |y: f64| HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by {}\">",
        axes.y, axes.x
    );
    let digits = if step_y < 1.0 { 2 } else { 0 };
    let mut y = 0.0;
    while y <= top + step_y / 2.0 {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\"/>\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            WIDTH - RIGHT,
            at_y(y),
            LEFT - 8.0,
            at_y(y) + 4.0,
            number(y, digits)
        );
        y += step_y;
    }
    let step_x = step(end);
    let mut x = 0.0;
    while x <= end {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            at_x(x),
            HEIGHT - BOTTOM + 18.0,
            number(x, if step_x < 1.0 { 1 } else { 0 })
        );
        x += step_x;
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        axes.x
    );
    // Ours is drawn last, above the others.
    let mut order: Vec<&&Series> = series.iter().collect();
    order.sort_by_key(|one| one.subject.starts_with("inrush"));
    for one in order {
        let class = class(&one.subject, subjects);
        let path: Vec<String> = one
            .points
            .iter()
            .map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y)))
            .collect();
        let _ = write!(
            svg,
            "<polyline class=\"{class}\" points=\"{}\"/>",
            path.join(" ")
        );
        if one.points.len() <= 12 {
            for (x, y) in &one.points {
                let _ = write!(
                    svg,
                    "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                    at_x(*x),
                    at_y(*y)
                );
            }
        }
    }
    svg.push_str("</svg>");
    svg
}

/// The charts that `series` are of, in order.
pub(super) fn names(series: &[Series]) -> Vec<&str> {
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
            let series = Series {
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
