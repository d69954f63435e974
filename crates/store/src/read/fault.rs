//! Faults of reading: a damaged file, or a store that does not answer.

use std::any::Any;
use std::fmt;
use std::io;

use object_store::Error as StoreError;
use parquet::errors::ParquetError;

/// Characters of a message that are kept: a hostile file chooses what its errors say.
const MESSAGE_CHARS_MAX: usize = 200;

/// Reason for which something could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The file is not what was written, or not there: it is to be set aside.
    Damaged(String),
    /// The store does not answer just now: another try may succeed.
    Unreachable(String),
}

impl ReadError {
    pub(crate) fn damaged(message: impl fmt::Display) -> Self {
        Self::Damaged(short(&message.to_string()))
    }

    /// A panic inside of a decoder.
    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Self::damaged(format!("the decoder panicked: {text}"))
    }

    /// An error of the local disk. A disk that cannot read is damage; a process without
    /// descriptors or memory is not.
    pub(crate) fn local(error: &io::Error) -> Self {
        use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
        const EIO: i32 = 5;
        let damaged = matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
            || error.raw_os_error() == Some(EIO);
        if damaged {
            Self::damaged(error)
        } else {
            Self::Unreachable(short(&error.to_string()))
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(why) => write!(f, "damaged: {why}"),
            Self::Unreachable(why) => write!(f, "the store does not answer: {why}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { .. } => Self::damaged("it is not there"),
            other => Self::Unreachable(short(&other.to_string())),
        }
    }
}

impl From<ParquetError> for ReadError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(inner) => match inner.downcast::<Self>() {
                Ok(fault) => *fault,
                Err(other) => Self::damaged(other),
            },
            other => Self::damaged(other),
        }
    }
}

impl From<ReadError> for ParquetError {
    fn from(fault: ReadError) -> Self {
        Self::External(Box::new(fault))
    }
}

/// One line of bounded length.
fn short(message: &str) -> String {
    let plain = |c: char| {
        if inrush_event::is_unprintable(c) {
            ' '
        } else {
            c
        }
    };
    message.chars().take(MESSAGE_CHARS_MAX).map(plain).collect()
}
