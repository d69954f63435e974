//! As much of an SQL engine as conditions need: reads `WHERE` with the parser that DataFusion has,
//! and says for one event whether it is true, false, or unknown.

use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    Select, SetExpr, Statement, Subscript, UnaryOperator, Value as Literal,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::naive::{Cell, Event, Wanted, whole};
use crate::query::EventColumn;
use crate::query::text::fold;

/// The levels that DataFusion lets the parser go down by default.
const LEVELS_MAX: usize = 50;

/// What an expression gives; `None` is `NULL`.
type Cells = Option<Datum>;

#[derive(Debug, Clone, PartialEq)]
enum Datum {
    Bool(bool),
    Number(f64),
    Text(String),
    Time(i64),
}

/// The one `SELECT` of the one table that the statement is.
pub(crate) fn select(sql: &str) -> Select {
    let parsed = Parser::new(&GenericDialect {})
        .with_recursion_limit(LEVELS_MAX)
        .try_with_sql(sql)
        .and_then(|mut parser| parser.parse_statements());
    let statements = parsed.unwrap_or_else(|error| panic!("{error}: {sql}"));
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("{statements:?}");
    };
    assert!(query.with.is_none() && query.locks.is_empty(), "{sql}");
    let SetExpr::Select(select) = query.body.as_ref() else {
        panic!("{sql}");
    };
    let tables: Vec<String> = select.from.iter().map(ToString::to_string).collect();
    assert_eq!(tables, ["\"events\""], "{sql}");
    assert!(select.into.is_none() && select.having.is_none(), "{sql}");
    select.as_ref().clone()
}

/// Whether the condition of a statement is true for the event.
pub(crate) fn finds(select: &Select, event: &Event) -> bool {
    let condition = select.selection.as_ref();
    condition.is_none_or(|condition| eval(condition, event) == Some(Datum::Bool(true)))
}

fn eval(expr: &Expr, event: &Event) -> Cells {
    match expr {
        Expr::Nested(inner) => eval(inner, event),
        Expr::Value(literal) => self::literal(&literal.value),
        Expr::Identifier(name) => column(&name.value, event),
        Expr::CompoundFieldAccess { root, access_chain } => field(root, access_chain, event),
        Expr::BinaryOp { left, op, right } => binary(left, op, right, event),
        Expr::UnaryOp { op, expr } => unary(*op, eval(expr, event)),
        Expr::IsNotTrue(inner) => Some(Datum::Bool(eval(inner, event) != Some(Datum::Bool(true)))),
        Expr::IsNull(inner) => Some(Datum::Bool(eval(inner, event).is_none())),
        Expr::IsNotNull(inner) => Some(Datum::Bool(eval(inner, event).is_some())),
        Expr::InList {
            expr,
            list,
            negated,
        } => {
            let value = eval(expr, event)?;
            let found = list
                .iter()
                .any(|item| eval(item, event).as_ref() == Some(&value));
            Some(Datum::Bool(found != *negated))
        }
        Expr::Like {
            negated,
            any: false,
            expr,
            pattern,
            escape_char: None,
        } => like(&eval(expr, event)?, &eval(pattern, event)?, true, *negated),
        Expr::ILike {
            negated,
            any: false,
            expr,
            pattern,
            escape_char: None,
        } => like(&eval(expr, event)?, &eval(pattern, event)?, false, *negated),
        Expr::Cast {
            kind: CastKind::TryCast,
            expr,
            data_type,
            ..
        } => {
            assert_eq!(data_type.to_string(), "DOUBLE");
            text(&eval(expr, event)?)
                .trim()
                .parse()
                .ok()
                .map(Datum::Number)
        }
        Expr::TypedString(typed) => {
            assert_eq!(typed.data_type.to_string(), "TIMESTAMP");
            let Some(Datum::Text(time)) = literal(&typed.value.value) else {
                panic!("{typed}");
            };
            let time: jiff::Timestamp = time.parse().unwrap();
            Some(Datum::Time(time.as_nanosecond().try_into().unwrap()))
        }
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &function.args else {
                panic!("{function}");
            };
            match function.name.to_string().as_str() {
                "field_is" => field_is(&list.args, event),
                name => call(name, &list.args, event),
            }
        }
        other => panic!("{other:?}"),
    }
}

fn literal(literal: &Literal) -> Cells {
    Some(match literal {
        Literal::Boolean(value) => Datum::Bool(*value),
        Literal::SingleQuotedString(text) => Datum::Text(text.clone()),
        Literal::Number(number, _) => Datum::Number(number.parse().unwrap()),
        other => panic!("{other:?}"),
    })
}

fn column(name: &str, event: &Event) -> Cells {
    let column = EventColumn::ALL
        .into_iter()
        .find(|column| column.name() == name);
    let column = column.unwrap_or_else(|| panic!("no column {name:?}"));
    event.columns.get(&column).map(|cell| match cell {
        Cell::Text(text) => Datum::Text(text.clone()),
        Cell::Code(code) => Datum::Number(f64::from(*code)),
        Cell::Time(ns) => Datum::Time(*ns),
    })
}

/// `"fields"['key']`.
fn field(root: &Expr, chain: &[AccessExpr], event: &Event) -> Cells {
    let Expr::Identifier(name) = root else {
        panic!("{root}");
    };
    assert_eq!(name.value, "fields");
    let [AccessExpr::Subscript(Subscript::Index { index })] = chain else {
        panic!("{chain:?}");
    };
    let key = eval(index, event)?;
    event.fields.get(text(&key)).cloned().map(Datum::Text)
}

/// `field_is(fields, key, pattern, …)`; an event of the model has one value for each key.
fn field_is(args: &[FunctionArg], event: &Event) -> Cells {
    let args: Vec<Datum> = args
        .iter()
        .skip(1)
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => eval(expr, event).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    let value = Datum::Text(event.fields.get(text(&args[0]))?.clone());
    let is = |pattern| like(&value, pattern, false, false) == Some(Datum::Bool(true));
    Some(Datum::Bool(args[1..].iter().any(is)))
}

fn binary(left: &Expr, op: &BinaryOperator, right: &Expr, event: &Event) -> Cells {
    let (left, right) = (eval(left, event), eval(right, event));
    match op {
        BinaryOperator::And => return both(left, right, false),
        BinaryOperator::Or => return both(left, right, true),
        _ => {}
    }
    let (left, right) = (left?, right?);
    let order = match (&left, &right) {
        (Datum::Number(one), Datum::Number(other)) => one.partial_cmp(other)?,
        (Datum::Text(one), Datum::Text(other)) => one.cmp(other),
        (Datum::Time(one), Datum::Time(other)) => one.cmp(other),
        other => panic!("{other:?}"),
    };
    Some(Datum::Bool(match op {
        BinaryOperator::Eq => order.is_eq(),
        BinaryOperator::NotEq => order.is_ne(),
        BinaryOperator::Lt => order.is_lt(),
        BinaryOperator::LtEq => order.is_le(),
        BinaryOperator::Gt => order.is_gt(),
        BinaryOperator::GtEq => order.is_ge(),
        other => panic!("{other:?}"),
    }))
}

/// `AND` and `OR` with unknowns; `decisive` is the value that decides by itself.
fn both(left: Cells, right: Cells, decisive: bool) -> Cells {
    let decides = Some(Datum::Bool(decisive));
    if left == decides || right == decides {
        return decides;
    }
    left.and(right).map(|_| Datum::Bool(!decisive))
}

fn unary(op: UnaryOperator, value: Cells) -> Cells {
    Some(match (op, value?) {
        (UnaryOperator::Not, Datum::Bool(value)) => Datum::Bool(!value),
        (UnaryOperator::Minus, Datum::Number(number)) => Datum::Number(-number),
        other => panic!("{other:?}"),
    })
}

fn like(value: &Datum, pattern: &Datum, exact: bool, negated: bool) -> Cells {
    let plain = |text: &str| match exact {
        true => text.to_owned(),
        false => text.to_lowercase(),
    };
    let pattern = plain(text(pattern));
    let mut wanted = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        wanted.push(match c {
            '%' => Wanted::Any,
            '_' => Wanted::One,
            '\\' => Wanted::Char(chars.next().unwrap()),
            c => Wanted::Char(c),
        });
    }
    let value: Vec<char> = plain(text(value)).chars().collect();
    Some(Datum::Bool(whole(&wanted, &value) != negated))
}

fn call(name: &str, args: &[FunctionArg], event: &Event) -> Cells {
    let args: Option<Vec<Datum>> = args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => eval(expr, event),
            other => panic!("{other:?}"),
        })
        .collect();
    let args = args?;
    Some(match (name, args.as_slice()) {
        ("has", [value, needle]) => Datum::Bool(fold(text(value)).contains(&fold(text(needle)))),
        ("lower", [value]) => Datum::Text(text(value).to_lowercase()),
        other => panic!("{other:?}"),
    })
}

fn text(value: &Datum) -> &str {
    match value {
        Datum::Text(text) => text,
        other => panic!("{other:?}"),
    }
}
