//! Compiler and evaluator of CEL expressions: a text becomes a [`Program`] that all workers share.
//!
//! # What it guarantees
//! * Compilation rejects bad syntax, unknown variables, and most type errors by a sample event.
//! * A literal pattern of `matches` is compiled once and matches in time linear in the text.
//!   The pattern of `regex.replace` is always a literal.
//! * A panic of the parser is a [`CompileError`], since the parser runs on a thread of its own.
//!
//! # States
//! A [`Program`] is immutable after [`Program::compile`]; each evaluation opens its own scope.
//!
//! # Limits
//! An expression has at most `EXPRESSION_BYTES_MAX` bytes, `OPERATORS_MAX` operators and brackets,
//! `DEPTH_MAX` nested brackets and `LEVELS_MAX` tree levels. The parser's stack has
//! `PARSER_STACK_BYTES`.

use std::fmt;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, LiteralValue};
use cel::extractors::This;
use cel::parser::{Expression, Parser};
use cel::{Context, Env, ExecutionError, extensions};
use inrush_event::{Anomalies, EventNames, Record, SourceInfo, Span, Timestamp};
use regex::Regex;

use crate::pattern::RegexPool;
use crate::replacement::{RegexReplacement, is_regex_library};
use crate::view::{EventView, OF_CLASS, VARIABLES};

/// Bytes of an expression, at most.
const EXPRESSION_BYTES_MAX: usize = 16 * 1024;

/// Brackets within brackets, at most: the parser goes down with each.
const DEPTH_MAX: usize = 32;

/// Operators and brackets, at most: the parser may go down with each.
const OPERATORS_MAX: usize = 256;

/// Parts within parts, at most: whoever runs an expression goes down with each.
const LEVELS_MAX: usize = 48;

/// Bytes of stack for the parser, which takes some 40 KiB for a bracket in a debug build.
const PARSER_STACK_BYTES: usize = 16 * 1024 * 1024;

/// Kind of value that an expression is to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultKind {
    /// True or false.
    Condition,
    /// A text or a number.
    Value,
}

/// Value that an expression gave.
#[derive(Clone, PartialEq, Debug)]
pub enum CelValue {
    /// True or false.
    Bool(bool),
    /// A text, or a number as one.
    Text(String),
}

/// An expression that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{words}")]
pub struct CompileError {
    /// The problem and the remedy.
    pub words: String,
}

/// Error of an expression on an event.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct EvaluationError(String);

/// A compiled expression; shared by all workers.
pub struct Program {
    written: String,
    expression: Expression,
    context: Context<'static, 'static>,
    kind: ResultKind,
    of_class: bool,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.written).finish()
    }
}

fn error(words: impl Into<String>) -> CompileError {
    CompileError {
        words: words.into(),
    }
}

impl Program {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is none, names what an event does not have, or gives something else than `kind`.
    pub fn compile(written: &str, kind: ResultKind) -> Result<Self, CompileError> {
        if written.len() > EXPRESSION_BYTES_MAX {
            let words = format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes");
            return Err(error(words));
        }
        let mut expression = parse(written)?;
        let mut env = Env::stdlib();
        env.add_extension(extensions::strings)
            .map_err(|clash| error(clash.to_string()))?;
        let mut context = Context::with_env(Arc::new(env));
        patterns(&mut expression, &mut context, &mut 0)?;
        let mut variables = Vec::new();
        free(&expression, &mut Vec::new(), &mut variables);
        if let Some(unknown) = variables.iter().find(|name| !is_known(name)) {
            return Err(unknown_variable(unknown));
        }
        let of_class = variables
            .iter()
            .all(|name| OF_CLASS.contains(&name.as_str()));
        let program = Self {
            written: written.to_owned(),
            expression,
            context,
            kind,
            of_class,
        };
        program.try_out()?;
        Ok(program)
    }

    /// As it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// True if it gives the same for all events of a class that have nothing of their own.
    pub fn is_of_class(&self) -> bool {
        self.of_class
    }

    /// True if the condition holds for an event.
    ///
    /// # Errors
    /// The expression asked for what the event does not have, or its types do not fit.
    pub fn holds(&self, event: &EventView<'_>) -> Result<bool, EvaluationError> {
        match self.value(event)? {
            CelValue::Bool(holds) => Ok(holds),
            CelValue::Text(text) => Err(EvaluationError(format!(
                "gives {text:?}, not true or false"
            ))),
        }
    }

    /// The value for an event.
    ///
    /// # Errors
    /// The expression asked for what the event does not have, or its types do not fit.
    pub fn value(&self, event: &EventView<'_>) -> Result<CelValue, EvaluationError> {
        self.run(event)
            .map_err(|failed| EvaluationError(failed.to_string()))
    }

    fn run(&self, event: &EventView<'_>) -> Result<CelValue, ExecutionError> {
        let mut context = self.context.new_inner_scope();
        context.set_variable_resolver(event);
        let value = context.resolve(&self.expression)?;
        let text = match value {
            cel::Value::Bool(holds) => return Ok(CelValue::Bool(holds)),
            cel::Value::String(text) => text.as_ref().clone(),
            cel::Value::Int(number) => number.to_string(),
            cel::Value::UInt(number) => number.to_string(),
            cel::Value::Float(number) => number.to_string(),
            cel::Value::Null => String::new(),
            other => {
                return Err(ExecutionError::UnexpectedType {
                    got: other.type_of().to_string(),
                    want: "a text or a number".to_owned(),
                });
            }
        };
        Ok(CelValue::Text(text))
    }

    /// Tries the expression on a plain event: what does not fit there fits nowhere, unless it is a
    /// field that only some events have.
    fn try_out(&self) -> Result<(), CompileError> {
        let raw = b"<13>May  6 07:08:09 host program[1]: message";
        let mut record = Record::unparsed(
            Span::new(0, raw.len()),
            Timestamp(1_714_979_289_000_000_000),
            0,
            Anomalies::NONE,
        );
        record.pri = 13;
        record.message = Span::new(37, raw.len());
        let source = SourceInfo {
            name: "source".to_owned(),
            index: "main".to_owned(),
            sourcetype: "syslog".to_owned(),
        };
        let event = EventView {
            arena: raw,
            record: &record,
            names: EventNames::default(),
            class: None,
            source: &source,
            sender: None,
            client: None,
        };
        match (self.run(&event), self.kind) {
            (Ok(CelValue::Text(_)), ResultKind::Condition) => Err(error(
                "gives no true or false; compare, as in `severity <= 3`",
            )),
            (Err(ExecutionError::NoSuchKey(_)), _) | (Ok(_), _) => Ok(()),
            (Err(ExecutionError::UndeclaredReference(name)), _) => {
                Err(error(format!("there is no `{name}` in CEL")))
            }
            // What comes out of a text may be anything.
            (Err(ExecutionError::FunctionError { .. }), _) => Ok(()),
            (Err(ExecutionError::IndexOutOfBounds(_)), _) => Ok(()),
            (Err(failed), _) => Err(error(failed.to_string())),
        }
    }
}

/// Parses an expression that is not too deep for it.
fn parse(written: &str) -> Result<Expression, CompileError> {
    let (mut depth, mut deepest, mut operators) = (0_usize, 0, 0);
    let mut quote = None;
    let mut chars = written.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => operators += usize::from(char.is_ascii_punctuation() && char != '_'),
        }
        deepest = deepest.max(depth);
        operators += usize::from(quote.is_none() && depth > 0 && matches!(char, '(' | '[' | '{'));
    }
    if deepest > DEPTH_MAX || operators > OPERATORS_MAX {
        return Err(error(format!(
            "an expression has at most {OPERATORS_MAX} operators and {DEPTH_MAX} brackets within \
             brackets; make two of it"
        )));
    }
    let parsing = std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().name("cel-parser".into());
        let parser = parser.stack_size(PARSER_STACK_BYTES);
        let thread = parser.spawn_scoped(scope, || {
            let parsed = Parser::new().parse(written);
            parsed.map_err(|errors| syntax(&errors)).and_then(shallow)
        });
        thread.map(std::thread::ScopedJoinHandle::join)
    });
    match parsing {
        Ok(Ok(parsed)) => parsed,
        Ok(Err(_)) => Err(error("is no expression; write for example `severity <= 3`")),
        Err(failed) => Err(error(format!("no thread for the parser: {failed}"))),
    }
}

fn is_known(name: &str) -> bool {
    VARIABLES.iter().any(|(known, _)| *known == name)
}

fn unknown_variable(name: &str) -> CompileError {
    let names = || VARIABLES.iter().map(|(known, _)| *known);
    let near = names().find(|known| {
        known.eq_ignore_ascii_case(name) || known.starts_with(name) || name.starts_with(known)
    });
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    error(format!(
        "an event has no `{name}`; {remedy} A text stands in quotes: \"{name}\""
    ))
}

fn syntax(errors: &cel::ParseErrors) -> CompileError {
    let first = errors.errors.first();
    let words = first.map_or_else(
        || "is no expression".to_owned(),
        |first| {
            let message = first.msg.lines().next().unwrap_or_default();
            format!("is no expression: {message} (character {})", first.pos.1)
        },
    );
    error(format!("{words}; write for example `severity <= 3`"))
}

/// The expression, if it has few enough levels.
fn shallow(mut expression: Expression) -> Result<Expression, CompileError> {
    fn levels(at: &mut Expression) -> usize {
        1 + parts(at).into_iter().map(levels).max().unwrap_or(0)
    }
    if levels(&mut expression) > LEVELS_MAX {
        return Err(error(format!(
            "an expression has at most {LEVELS_MAX} levels; make two of it, or ask for several \
             texts at once: `index in [\"a\", \"b\"]`"
        )));
    }
    Ok(expression)
}

/// The names that an expression takes from outside.
fn free(at: &Expression, bound: &mut Vec<String>, out: &mut Vec<String>) {
    let mut at = at.clone();
    if let Expr::Ident(name) = &at.expr
        && !bound.contains(name)
    {
        out.push(name.clone());
    }
    let before = bound.len();
    if let Expr::Comprehension(all) = &at.expr {
        bound.extend([all.iter_var.clone(), all.accu_var.clone()]);
        bound.extend(all.iter_var2.clone());
    }
    parts(&mut at)
        .into_iter()
        .for_each(|part| free(part, bound, out));
    bound.truncate(before);
}

/// Sub-expressions directly below an expression.
fn parts(at: &mut Expression) -> Vec<&mut Expression> {
    match &mut at.expr {
        Expr::Call(call) => {
            let target = call.target.as_deref_mut();
            target.into_iter().chain(&mut call.args).collect()
        }
        Expr::Comprehension(all) => vec![
            &mut all.iter_range,
            &mut all.accu_init,
            &mut all.loop_cond,
            &mut all.loop_step,
            &mut all.result,
        ],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut();
            let parts = entries.flat_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
                EntryExpr::StructField(field) => vec![&mut field.value],
            });
            parts.collect()
        }
        Expr::Struct(made) => {
            let entries = made.entries.iter_mut();
            let parts = entries.flat_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
                EntryExpr::StructField(field) => vec![&mut field.value],
            });
            parts.collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

/// Compiles the patterns of `matches` and `regex.replace` once: the language would do so for each
/// event.
fn patterns(
    at: &mut Expression,
    context: &mut Context<'static, 'static>,
    count: &mut usize,
) -> Result<(), CompileError> {
    if let Expr::Call(call) = &mut at.expr
        && call.func_name == "replace"
        && call.target.as_deref().is_some_and(is_regex_library)
    {
        let replace = RegexReplacement::of(call).map_err(error)?;
        call.target = None;
        call.args.remove(1);
        call.func_name = format!("regex_replace_{count}");
        *count += 1;
        let run = move |text: Arc<String>, by: Arc<String>| {
            let replaced = replace.run(&text, &by);
            replaced.map(|text| cel::Value::String(Arc::new(text)))
        };
        context
            .add_function(&call.func_name, run)
            .map_err(|clash| error(clash.to_string()))?;
    }
    if let Expr::Call(call) = &mut at.expr
        && call.func_name == "matches"
        && call.target.is_some()
        && let [argument] = call.args.as_slice()
        && let Expr::Literal(LiteralValue::String(pattern)) = &argument.expr
    {
        let regex = Regex::new(pattern.inner())
            .map_err(|bad| error(format!("the pattern of `matches` cannot be used: {bad}")))?;
        call.func_name = format!("matches_{count}");
        call.args.clear();
        *count += 1;
        let pattern = RegexPool::new(&regex);
        let matches = move |This(text): This<Arc<String>>| pattern.here().is_match(&text);
        context
            .add_function(&call.func_name, matches)
            .map_err(|clash| error(clash.to_string()))?;
    }
    parts(at)
        .into_iter()
        .try_for_each(|one| patterns(one, context, count))
}

#[cfg(test)]
mod tests {
    use inrush_event::{ClassInfo, Extra, ExtraKey, Format};

    use super::*;

    fn refused(written: &str, kind: ResultKind) -> String {
        match Program::compile(written, kind) {
            Ok(_) => panic!("`{written}` was taken"),
            Err(refused) => refused.to_string(),
        }
    }

    /// What an expression gives for an event of a firewall.
    fn given(written: &str) -> Result<CelValue, EvaluationError> {
        let raw = br#"<166>1 2024-05-06T07:08:09Z fw1 asa 7 302013 [x@1 a="1" b="q\"q"][y c="2"] Built it"#;
        let at = |text: &str| {
            let whole = String::from_utf8_lossy(raw);
            let start = whole.find(text).expect(text);
            Span::new(start, start + text.len())
        };
        let mut arena = raw.to_vec();
        let start = arena.len();
        Extra::push(ExtraKey::Fields, br#","zone":"dmz","n":7"#, &mut arena);
        let mut record = Record::unparsed(
            Span::new(0, start),
            Timestamp(5_000_000_000),
            0,
            Anomalies::NONE,
        );
        record.pri = 166;
        record.format = Format::Rfc5424;
        (record.host, record.app, record.proc_id) = (at("fw1"), at("asa"), at("7 30"));
        record.proc_id.len = 1;
        record.message = at("Built it");
        record.sdata = at(r#"[x@1 a="1" b="q\"q"][y c="2"]"#);
        record.extra = Span::new(start, arena.len());
        let class = ClassInfo {
            rules: "cisco_asa".to_owned(),
            fields: vec![
                ("zone".to_owned(), "lan".to_owned()),
                ("k".to_owned(), "v".to_owned()),
            ],
            ..ClassInfo::default()
        };
        let names = EventNames {
            index: b"netfw",
            sourcetype: b"cisco:asa",
            ..EventNames::default()
        };
        let source = SourceInfo {
            name: "default".to_owned(),
            index: "main".to_owned(),
            sourcetype: "syslog".to_owned(),
        };
        let view = EventView {
            arena: &arena,
            record: &record,
            names,
            class: Some(&class),
            source: &source,
            sender: Some([192, 0, 2, 9].into()),
            client: Some("relay.example.com"),
        };
        Program::compile(written, ResultKind::Value)
            .expect(written)
            .value(&view)
    }

    #[track_caller]
    fn gives(written: &str, wanted: &str) {
        let found = match given(written).expect(written) {
            CelValue::Bool(holds) => holds.to_string(),
            CelValue::Text(text) => text,
        };
        assert_eq!(found, wanted, "{written}");
    }

    #[test]
    fn every_part_of_an_event_can_be_asked_for() {
        gives(
            r#"sourcetype == "cisco:asa" && severity == 6 && facility == 20"#,
            "true",
        );
        gives(
            r#"index in ["netops", "netfw"] && rule == "cisco_asa""#,
            "true",
        );
        gives("host + '/' + program + '/' + pid", "fw1/asa/7");
        gives(
            "sender + ' ' + listener + ' ' + format",
            "192.0.2.9 default rfc5424",
        );
        gives(
            r#"message.matches("^B[a-z]+ it$") && !raw.matches("nothing")"#,
            "true",
        );
        gives(
            r#"["a", "b"].exists(x, message.matches(x + "it")) || message.contains("ilt")"#,
            "true",
        );
        gives("fields.zone + fields.k + fields.n", "dmzv7");
        gives(r#"sdata["x@1.b"] + sdata["y.c"]"#, "q\"q2");
        gives("has(fields.zone) && !has(fields.other)", "true");
        gives("size > 80 && received == 5.0 && time == 5.0", "true");
        gives("severity + 1", "7");
        gives("message.upperAscii()", "BUILT IT");
        gives("regex.replace(message, '[aeiou]', '*')", "B**lt *t");
        gives(
            r"regex.replace(message, '([A-Za-z]+) ([a-z]+)', '\\2 \\1')",
            "it Built",
        );
        gives("regex.replace(raw, '^.*$', message)", "Built it");
        gives(r"regex.replace(message, 'x*', '\\\\') != message", "true");
    }

    #[test]
    fn what_an_event_does_not_have_is_an_error_of_that_event() {
        assert!(given("fields.absent").is_err());
        assert!(given("message.matches('x' + '(')").is_err());
    }

    #[test]
    fn an_expression_that_cannot_be_used_says_why() {
        let unknown = refused(r#"sourcetypes == "x""#, ResultKind::Condition);
        assert!(unknown.contains("did you mean `sourcetype`?"), "{unknown}");
        let bare = refused("netops", ResultKind::Value);
        assert!(
            bare.contains("A text stands in quotes: \"netops\""),
            "{bare}"
        );
        let type_of_it = refused("severity", ResultKind::Condition);
        assert!(type_of_it.contains("no true or false"), "{type_of_it}");
        let types = refused(r#"severity > "6""#, ResultKind::Condition);
        assert!(types.contains("no matching overload"), "{types}");
        let syntax = refused("severity >", ResultKind::Condition);
        assert!(syntax.contains("is no expression"), "{syntax}");
        let pattern = refused(r#"message.matches("(")"#, ResultKind::Condition);
        assert!(pattern.contains("the pattern of `matches`"), "{pattern}");
        for (written, why) in [
            (
                "regex.replace(message, '(', '')",
                "the pattern of `regex.replace`",
            ),
            ("regex.replace(message, host, '')", "a text in quotes"),
            ("regex.replace(message, 'a')", "three texts"),
            (r"regex.replace(message, '(a)', '\\2')", "has 1 group"),
            (r"regex.replace(message, 'a', '\\x')", "a backslash"),
            ("regex.extract(message, 'a')", "regex"),
        ] {
            let refused = refused(written, ResultKind::Value);
            assert!(refused.contains(why), "{written}: {refused}");
        }
        let call = refused("shout(message)", ResultKind::Value);
        assert!(call.contains("shout"), "{call}");
        let brackets = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
        assert!(refused(&brackets(500), ResultKind::Value).contains("at most"));
        assert!(Program::compile(&brackets(DEPTH_MAX), ResultKind::Value).is_ok());
        for chain in [
            "!",
            "-",
            "1+",
            "1?1:",
            "true||",
            "[1].map(x,x)==",
            "fields.a.",
        ] {
            let long = format!("{}1", chain.repeat(500));
            assert!(
                refused(&long, ResultKind::Value).contains("at most"),
                "{chain}"
            );
            let most = OPERATORS_MAX / chain.chars().filter(|c| !c.is_alphanumeric()).count();
            // Whether it is sound does not matter: it ends.
            drop(Program::compile(
                &format!("{}1", chain.repeat(most)),
                ResultKind::Value,
            ));
        }
        let long = format!("'{}'", "x".repeat(EXPRESSION_BYTES_MAX));
        assert!(refused(&long, ResultKind::Value).contains("at most"));
    }

    #[test]
    fn what_depends_on_the_class_alone_is_known() {
        let of_class = |written| {
            let program = Program::compile(written, ResultKind::Condition).expect(written);
            program.is_of_class()
        };
        assert!(of_class(r#"index == "a" || vendor == "b""#));
        assert!(!of_class(r#"index == "a" && severity < 3"#));
    }
}
