//! The report as one HTML file that needs nothing else.

use std::fmt::Write;

use super::text::{figure, number};
use super::{Better, FigureColumn, FigureRow, ProductTable, TableReport, chart};

const STYLE: &str = include_str!("page.css");

/// The text of an element, or of an attribute in double quotes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The whole page. Writing to a string cannot fail, here and below.
pub(super) fn render(report: &TableReport) -> String {
    let machine = &report.machine;
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>inrush bench</title><style>{STYLE}</style></head><body><main>\
         <h1>inrush bench</h1><p class=\"about\">{}, {} cores, {} GiB, Linux {}{}. {}. Each figure \
         is {} of {} s; {}.</p>",
        escaped(&machine.cpu),
        machine.cores,
        number(machine.memory_gib, 0),
        escaped(&machine.kernel),
        if machine.root {
            ", as root"
        } else {
            ", as an ordinary user"
        },
        escaped(&report.versions.join(", ")),
        match report.runs {
            1 => "of one run".to_owned(),
            n => format!("the median of {n} runs"),
        },
        report.seconds,
        escaped(&report.ended),
    );
    page.push_str(
        "<p class=\"about\">CPU is the user and system time of the receiving process alone, over \
         the events that it took. The sender runs on the same machine.</p>",
    );
    for table in &report.tables {
        section(&mut page, table);
    }
    page.push_str("</main></body></html>\n");
    page
}

fn section(page: &mut String, table: &ProductTable) {
    let mut subjects: Vec<String> = Vec::new();
    for row in &table.rows {
        if !subjects.contains(&row.subject) {
            subjects.push(row.subject.clone());
        }
    }
    let _ = write!(
        page,
        "<section id=\"{0}\"><h2>{1}</h2><p>{2}</p><p class=\"command\"><code>inrush bench {0}\
         </code></p>",
        table.name,
        escaped(table.shows),
        escaped(table.published)
    );
    for note in &table.notes {
        let _ = write!(page, "<p class=\"note\">{}</p>", escaped(note));
    }
    match table.axes.filter(|_| !table.lines.is_empty()) {
        Some(axes) => {
            legend(page, &subjects);
            page.push_str("<div class=\"charts\">");
            for name in chart::names(&table.lines) {
                let lines: Vec<_> = table.lines.iter().filter(|l| l.chart == name).collect();
                let _ = write!(
                    page,
                    "<figure><figcaption>{}: {}</figcaption>{}</figure>",
                    escaped(name),
                    escaped(axes.y),
                    chart::lines(&lines, &subjects, axes)
                );
            }
            page.push_str("</div>");
        }
        None => bars(page, table, &subjects),
    }
    figures(page, table);
    page.push_str("</section>");
}

fn legend(page: &mut String, subjects: &[String]) {
    page.push_str("<p class=\"legend\">");
    for subject in subjects {
        let class = chart::class(subject, subjects);
        let _ = write!(
            page,
            "<span><i class=\"{class}\"></i>{}</span>",
            escaped(subject)
        );
    }
    page.push_str("</p>");
}

/// Bars of the first column, by load.
fn bars(page: &mut String, table: &ProductTable, subjects: &[String]) {
    let Some(column) = table.columns.first() else {
        return;
    };
    let value = |row: &FigureRow| row.values.first().copied().flatten();
    let _ = write!(page, "<div class=\"bars\"><p>{}</p>", head(column));
    let mut load = "";
    for row in &table.rows {
        if row.load != load {
            load = &row.load;
            let _ = write!(page, "<h3>{}</h3>", escaped(load));
        }
        let beside = table.rows.iter().filter(|other| other.load == row.load);
        let most = beside.filter_map(value).fold(f64::MIN_POSITIVE, f64::max);
        let part = value(row).map_or(0.0, |value| value / most * 100.0);
        let _ = write!(
            page,
            "<div class=\"bar\"><span>{}</span><b><i class=\"{}\" style=\"width:{part:.1}%\"></i></b>\
             <em>{}</em></div>",
            escaped(&row.subject),
            chart::class(&row.subject, subjects),
            figure(row, 0, column)
        );
    }
    page.push_str("</div>");
}

fn head(column: &FigureColumn) -> String {
    let better = match column.better {
        Some(Better::Less) => " (less is better)",
        Some(Better::More) => " (more is better)",
        None => "",
    };
    format!("{}, {}{better}", escaped(column.name), escaped(column.unit))
}

fn figures(page: &mut String, table: &ProductTable) {
    page.push_str("<div class=\"wide\"><table><thead><tr><th></th>");
    for column in &table.columns {
        let (name, unit) = (escaped(column.name), escaped(column.unit));
        let _ = write!(page, "<th>{name}<br><small>{unit}</small></th>");
    }
    page.push_str("</tr></thead><tbody>");
    let mut load = "";
    for row in &table.rows {
        if row.load != load {
            load = &row.load;
            let columns = table.columns.len() + 1;
            let _ = write!(
                page,
                "<tr class=\"load\"><th colspan=\"{columns}\">{}</th></tr>",
                escaped(load)
            );
        }
        let _ = write!(page, "<tr><th>{}", escaped(&row.subject));
        if let Some(wrong) = &row.wrong {
            let _ = write!(
                page,
                "<br><small class=\"wrong\">{}</small>",
                escaped(wrong)
            );
        }
        page.push_str("</th>");
        for (at, column) in table.columns.iter().enumerate() {
            let _ = write!(page, "<td>{}</td>", figure(row, at, column));
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_subject_says_is_text_and_nothing_else() {
        assert_eq!(escaped(r#"<b a="1">&"#), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }
}
