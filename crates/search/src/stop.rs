//! Reasons for a search to stop before its end.

use datafusion::error::DataFusionError;
use inrush_store::read::ReadError;
use inrush_store::reply::{SearchError, StopReason};

/// Reason for a search to stop before its end.
#[derive(Debug)]
pub(crate) enum SearchStop {
    /// A bound was reached, or nobody listens.
    Bound(StopReason),
    /// It cannot be answered.
    Failed(SearchError),
}

impl SearchStop {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(SearchError {
            message: message.into(),
            ..SearchError::default()
        })
    }
}

impl From<DataFusionError> for SearchStop {
    fn from(error: DataFusionError) -> Self {
        if let DataFusionError::ResourcesExhausted(_) = error.find_root() {
            return Self::Bound(StopReason::Memory);
        }
        // What follows the first line is DataFusion's own backtrace, or a request to report it.
        let message = error.strip_backtrace();
        let message = message.lines().next().unwrap_or("no reason is known");
        Self::failed(in_our_words(message))
    }
}

/// Beginnings of DataFusion's texts by which it means itself: mostly it has planned something that
/// one of its functions then cannot do.
const ITS_OWN: [&str; 4] = [
    "Internal error: ",
    "Arrow error: ",
    "External error: ",
    "Optimizer rule '",
];

/// Puts a text of DataFusion into words for whoever wrote the statement.
fn in_our_words(message: &str) -> String {
    let mut reason = message;
    let mut own = false;
    // One may be wrapped in another.
    while let Some(rest) = ITS_OWN.iter().find_map(|begin| reason.strip_prefix(begin)) {
        own = true;
        reason = rest;
    }
    if let Some((before, rest)) = reason.split_once("Internal error: ") {
        own = true;
        reason = if rest.is_empty() { before } else { rest };
    }
    if !own {
        return message.to_owned();
    }
    let reason = reason.trim_end_matches(['.', ' ']);
    let reason = reason.split(". This issue was likely caused").next();
    let reason = reason.unwrap_or(message);
    format!(
        "this statement cannot be run: {reason}; look at the kinds of the values \
         (`DESCRIBE events`, `arrow_typeof(x)`), or write it in another way"
    )
}

impl From<ReadError> for SearchStop {
    fn from(fault: ReadError) -> Self {
        Self::failed(fault.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::in_our_words;

    #[test]
    fn what_datafusion_says_of_itself_is_said_of_the_statement() {
        for text in [
            "Internal error: Function 'abs' failed. This issue was likely caused by a bug in x",
            "Optimizer rule 'simplify' failed caused by Internal error: Function 'abs' failed.",
            "External error: Internal error: Function 'abs' failed",
        ] {
            let said = in_our_words(text);
            assert!(said.starts_with("this statement cannot be run: Function 'abs' failed; "));
            assert!(!said.contains("Internal error"), "{said}");
        }
        let plain = "Schema error: No field named x";
        assert_eq!(in_our_words(plain), plain);
    }
}
