//! Texts with `${…}`.

use crate::PackError;
use crate::pack::EventPart;

/// A text, or pieces of one that differ from event to event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextTemplate {
    /// The same for every event.
    Fixed(String),
    /// Put together for each event.
    Pieces(Vec<TemplatePiece>),
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    /// As it stands.
    Literal(String),
    /// A part of the event, or the default if that is absent or empty.
    Part {
        /// Part of the event.
        part: EventPart,
        /// Filters of the part, in order.
        filters: Vec<TemplateFilter>,
        /// Pieces that stand in.
        default: Vec<TemplatePiece>,
    },
}

/// Filter of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateFilter {
    /// ASCII lower case.
    Lower,
    /// ASCII upper case.
    Upper,
    /// Blanks at both ends go.
    Trim,
    /// Of a path, what stands behind its last `/`; what does not begin with one stays.
    Basename,
    /// Blanks become `_`.
    Snake,
    /// `\r\n`, written out, becomes the end of a line.
    Crlf,
    /// Values of structured data get the quotes that they lack.
    Quoted,
}

impl TextTemplate {
    /// Reads a text; `option` looks an option of the configuration up.
    ///
    /// # Errors
    /// A `${` without its `}`, or a filter that does not exist.
    pub fn parse(text: &str, option: &dyn Fn(&str) -> String) -> Result<Self, PackError> {
        let pieces = pieces(text, option)?;
        match pieces.as_slice() {
            [] => Ok(Self::Fixed(String::new())),
            [TemplatePiece::Literal(literal)] => Ok(Self::Fixed(literal.clone())),
            _ => Ok(Self::Pieces(pieces)),
        }
    }

    /// True if it differs from event to event.
    pub fn is_dynamic(&self) -> bool {
        matches!(self, Self::Pieces(_))
    }

    /// True if it follows from the program alone.
    pub(crate) fn is_of_program(&self) -> bool {
        fn all(pieces: &[TemplatePiece]) -> bool {
            pieces.iter().all(|piece| match piece {
                TemplatePiece::Literal(_) => true,
                TemplatePiece::Part { part, default, .. } => {
                    *part == EventPart::Program && all(default)
                }
            })
        }
        match self {
            Self::Fixed(_) => true,
            Self::Pieces(pieces) => all(pieces),
        }
    }

    /// The part that it is wherever that is not empty, if it is nothing else.
    pub(crate) fn as_part(&self) -> Option<&EventPart> {
        match self {
            Self::Pieces(pieces) => match pieces.as_slice() {
                [TemplatePiece::Part { part, filters, .. }] if filters.is_empty() => Some(part),
                _ => None,
            },
            Self::Fixed(_) => None,
        }
    }
}

fn pieces(text: &str, option: &dyn Fn(&str) -> String) -> Result<Vec<TemplatePiece>, PackError> {
    let mut out = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        literal.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            literal.push('$');
            rest = after;
        } else if let Some(body) = rest.strip_prefix('{') {
            let end = closing(body)
                .ok_or_else(|| PackError::new(format!("`${{{body}` has no `}}` at its end")))?;
            let piece = part(&body[..end], option)?;
            rest = &body[end + 1..];
            match piece {
                TemplatePiece::Literal(text) => literal.push_str(&text),
                piece => {
                    if !literal.is_empty() {
                        out.push(TemplatePiece::Literal(std::mem::take(&mut literal)));
                    }
                    out.push(piece);
                }
            }
        } else {
            literal.push('$');
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        out.push(TemplatePiece::Literal(literal));
    }
    Ok(out)
}

/// Offset of the brace that closes the one opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn part(body: &str, option: &dyn Fn(&str) -> String) -> Result<TemplatePiece, PackError> {
    let (body, default) = body.split_once(":-").unwrap_or((body, ""));
    let default = pieces(default, option)?;
    let mut words = body.split('|').map(str::trim);
    let name = words.next().unwrap_or_default();
    if name.is_empty() {
        return Err(PackError::new("`${}` names nothing"));
    }
    let mut filters = Vec::new();
    for word in words {
        filters.push(match word {
            "lower" => TemplateFilter::Lower,
            "upper" => TemplateFilter::Upper,
            "trim" => TemplateFilter::Trim,
            "basename" => TemplateFilter::Basename,
            "snake" => TemplateFilter::Snake,
            "crlf" => TemplateFilter::Crlf,
            "quoted" => TemplateFilter::Quoted,
            other => {
                let known = "lower, upper, trim, basename, snake, crlf and quoted";
                let words = format!("there is no filter `{other}`; there are {known}");
                return Err(PackError::new(words));
            }
        });
    }
    if let Some(name) = name.strip_prefix("option.") {
        let value = option(name);
        if let ([], [TemplatePiece::Literal(default)]) = (value.as_bytes(), default.as_slice()) {
            return Ok(TemplatePiece::Literal(default.clone()));
        }
        return Ok(TemplatePiece::Literal(value));
    }
    Ok(TemplatePiece::Part {
        part: EventPart::named(name),
        filters,
        default,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TextTemplate, PackError> {
        TextTemplate::parse(text, &|name| {
            if name == "set" {
                "v".into()
            } else {
                String::new()
            }
        })
    }

    #[test]
    fn texts_are_cut_into_pieces() {
        assert_eq!(
            parse("a$$b$c").ok(),
            Some(TextTemplate::Fixed("a$b$c".into()))
        );
        assert_eq!(
            parse("x${option.set}y${option.no:-z}").ok(),
            Some(TextTemplate::Fixed("xvyz".into()))
        );
        let Ok(TextTemplate::Pieces(pieces)) = parse("p:${program|lower:-${host}}") else {
            panic!("it is dynamic");
        };
        assert_eq!(pieces[0], TemplatePiece::Literal("p:".into()));
        let TemplatePiece::Part {
            part,
            filters,
            default,
        } = &pieces[1]
        else {
            panic!("a part");
        };
        assert_eq!(
            (part, filters.as_slice()),
            (&EventPart::Program, &[TemplateFilter::Lower][..])
        );
        assert_eq!(default.len(), 1);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("${a", "no `}`"),
            ("${a|loud}", "no filter `loud`"),
            ("${}", "names nothing"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
