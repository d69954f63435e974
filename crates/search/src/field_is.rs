//! `field_is(fields, key, pattern, …)`: true if one of the values of a key is as one of the
//! patterns of `LIKE` says, whatever its case; `NULL` where a row has no such key.
//!
//! `fields[key]` is the first value of a key. A sender may give a parameter of structured data
//! several times (RFC 5424 section 6.3.3), and all of its values are kept.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, MapArray, StringArray};
use datafusion::arrow::compute::kernels::comparison::ilike;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function for a session.
pub(crate) fn field_is() -> ScalarUDF {
    ScalarUDF::new_from_impl(FieldIs {
        signature: Signature::variadic_any(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldIs {
    signature: Signature,
}

impl ScalarUDFImpl for FieldIs {
    fn name(&self) -> &str {
        "field_is"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [fields, key, patterns @ ..] = args.args.as_slice() else {
            return Err(unfit());
        };
        let key = text(key)?;
        let patterns = patterns.iter().map(|one| Ok(ValuePattern::new(text(one)?)));
        let patterns: Vec<ValuePattern> = patterns.collect::<Result<_>>()?;
        let fields = fields.to_array(args.number_rows)?;
        let maps = fields.as_map_opt().ok_or_else(unfit)?;
        Ok(ColumnarValue::Array(Arc::new(matched(
            maps, &key, &patterns,
        )?)))
    }
}

fn unfit() -> DataFusionError {
    DataFusionError::Plan("field_is takes a map, and a key and patterns as texts".to_owned())
}

fn text(value: &ColumnarValue) -> Result<String> {
    let scalar = match value {
        ColumnarValue::Scalar(scalar) => scalar.try_as_str().flatten(),
        ColumnarValue::Array(_) => None,
    };
    scalar.map(str::to_owned).ok_or_else(unfit)
}

/// Values that are looked for.
enum ValuePattern {
    /// A whole value, in small letters.
    Whole(String),
    /// A pattern of `LIKE`.
    Like(String),
}

impl ValuePattern {
    fn new(like: String) -> Self {
        let mut whole = String::new();
        let mut chars = like.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' | '_' => return Self::Like(like),
                '\\' => whole.extend(chars.next()),
                c => whole.push(c),
            }
        }
        Self::Whole(whole.to_lowercase())
    }

    /// True for each text that is as it says.
    fn of(&self, texts: &StringArray) -> Result<BooleanArray> {
        match self {
            Self::Whole(whole) => Ok(texts
                .iter()
                .map(|text| text.map(|text| is_whole(text, whole)))
                .collect()),
            Self::Like(like) => Ok(ilike(texts, &StringArray::new_scalar(like))?),
        }
    }
}

fn is_whole(text: &str, lower: &str) -> bool {
    match text.is_ascii() {
        true => text.eq_ignore_ascii_case(lower),
        false => text.to_lowercase() == lower,
    }
}

/// For each row, true if a value of the key is as one of the patterns says.
fn matched(maps: &MapArray, key: &str, patterns: &[ValuePattern]) -> Result<BooleanArray> {
    let keys = maps.keys().as_string_opt::<i32>().ok_or_else(unfit)?;
    let values = maps.values().as_string_opt::<i32>().ok_or_else(unfit)?;
    let (mut rows, mut texts) = (Vec::new(), Vec::new());
    for (row, ends) in maps.value_offsets().windows(2).enumerate() {
        if maps.is_null(row) {
            continue;
        }
        for at in ends[0] as usize..ends[1] as usize {
            if keys.value(at) == key && values.is_valid(at) {
                rows.push(row);
                texts.push(values.value(at));
            }
        }
    }
    let texts = StringArray::from(texts);
    let mut found = vec![None; maps.len()];
    for &row in &rows {
        found[row] = Some(false);
    }
    for pattern in patterns {
        for (&row, is) in rows.iter().zip(pattern.of(&texts)?.iter()) {
            if is == Some(true) {
                found[row] = Some(true);
            }
        }
    }
    Ok(BooleanArray::from(found))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::array::{MapBuilder, StringBuilder};

    use super::*;

    fn check(maps: &MapArray, key: &str, patterns: &[&str], wanted: &[Option<bool>]) {
        let patterns = patterns.iter().map(|one| ValuePattern::new((*one).into()));
        let found = matched(maps, key, &patterns.collect::<Vec<_>>()).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{key}");
    }

    #[test]
    fn every_value_of_a_key_is_compared() {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        for row in [
            &[("ip", "192.0.2.1"), ("x", "b"), ("ip", "192.0.2.129")][..],
            &[("ip", "192.0.2.129")],
            &[],
            &[("ip", "a"), ("ip", "MÜLLER"), ("ip", "c%")],
        ] {
            for (key, value) in row {
                maps.keys().append_value(key);
                maps.values().append_value(value);
            }
            maps.append(!row.is_empty()).unwrap();
        }
        let maps = maps.finish();
        let (yes, no) = (Some(true), Some(false));
        for (key, patterns, wanted) in [
            ("ip", &["192.0.2.129"][..], [yes, yes, None, no]),
            ("ip", &["192.0.2.1"], [yes, no, None, no]),
            ("ip", &["192.0.2.2", "192.0.2.1"], [yes, no, None, no]),
            ("ip", &["192.%"], [yes, yes, None, no]),
            ("ip", &["%.129"], [yes, yes, None, no]),
            ("ip", &["müller"], [no, no, None, yes]),
            ("ip", &["mü%"], [no, no, None, yes]),
            ("ip", &["C\\%"], [no, no, None, yes]),
            ("ip", &["c"], [no, no, None, no]),
            ("ip", &["_"], [no, no, None, yes]),
            ("x", &["B"], [yes, None, None, None]),
            ("y", &["%"], [None; 4]),
        ] {
            check(&maps, key, patterns, &wanted);
        }
        check(&maps.slice(3, 1), "ip", &["c\\%"], &[yes]);
    }
}
