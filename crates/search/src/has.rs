//! `has(text, needle)`: whether a text contains another, whatever the case.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, StringViewArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use inrush_query::text::Needle;

/// The name that SQL calls it by.
pub(crate) const HAS: &str = "has";

/// The function for a session.
pub(crate) fn has() -> ScalarUDF {
    ScalarUDF::new_from_impl(Has {
        signature: Signature::string(2, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Has {
    signature: Signature,
}

impl ScalarUDFImpl for Has {
    fn name(&self) -> &str {
        HAS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [text, needle] = ColumnarValue::take_two(args.args)?;
        let texts = views(&text, rows)?;
        let found = match &needle {
            ColumnarValue::Scalar(needle) => match needle.try_as_str().flatten() {
                Some(needle) => with_one(&texts, needle),
                None => BooleanArray::new_null(rows),
            },
            ColumnarValue::Array(_) => with_each(&texts, &views(&needle, rows)?),
        };
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

trait TakeTwo: Sized {
    fn take_two(args: Vec<Self>) -> Result<[Self; 2]>;
}

impl TakeTwo for ColumnarValue {
    fn take_two(args: Vec<Self>) -> Result<[Self; 2]> {
        args.try_into().map_err(|args: Vec<Self>| {
            let count = args.len();
            datafusion::error::DataFusionError::Plan(format!(
                "has takes a text and a needle, and was given {count} arguments"
            ))
        })
    }
}

/// Texts of any kind as views.
fn views(value: &ColumnarValue, rows: usize) -> Result<StringViewArray> {
    let array = value.to_array(rows)?;
    match array.as_string_view_opt() {
        Some(views) => Ok(views.clone()),
        None => Ok(cast(&array, &DataType::Utf8View)?.as_string_view().clone()),
    }
}

fn with_one(texts: &StringViewArray, needle: &str) -> BooleanArray {
    let needle = Needle::new(needle);
    let mut scratch = String::new();
    let found = BooleanBuffer::collect_bool(texts.len(), |row| {
        texts.is_valid(row) && needle.is_in(texts.value(row), &mut scratch)
    });
    BooleanArray::new(found, texts.nulls().cloned())
}

fn with_each(texts: &StringViewArray, needles: &StringViewArray) -> BooleanArray {
    let mut scratch = String::new();
    let has = |(text, needle): (Option<&str>, Option<&str>)| {
        Some(Needle::new(needle?).is_in(text?, &mut scratch))
    };
    texts.iter().zip(needles).map(has).collect()
}
