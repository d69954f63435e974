//! Answers of an HTTP Event Collector: status, text and code, as Splunk gives them.

use std::io::Write;

/// Answer to a request. Codes and texts are those of Splunk's REST reference ("HTTP Event Collector
/// error codes") and of its Troubleshoot page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HecAnswer {
    /// All of it was taken.
    Success,
    /// The token is switched off.
    TokenDisabled,
    /// There is no token.
    TokenRequired,
    /// The `Authorization` field is none that is understood.
    InvalidAuthorization,
    /// Nobody knows the token.
    InvalidToken,
    /// The body is empty.
    NoData,
    /// An object is no event.
    InvalidFormat,
    /// The token may not write to the index.
    IncorrectIndex,
    /// A fault here; it may be taken already.
    InternalError,
    /// There is no room, and nothing was taken.
    Busy,
    /// The token is acknowledged, and the request has no channel.
    ChannelMissing,
    /// The channel is no GUID.
    InvalidChannel,
    /// An object has no `event`.
    EventRequired,
    /// The `event` of an object is empty.
    EventBlank,
    /// The token is not acknowledged.
    AckDisabled,
    /// `fields` cannot be indexed.
    InvalidFields,
    /// The token may not come in the query.
    QueryTokenDisabled,
    /// Health: there is room.
    Healthy,
    /// Health: the queue is full.
    QueueFull,
    /// Health: acknowledgements are full.
    AckUnavailable,
    /// Health: both.
    QueueFullAckUnavailable,
    /// Health: nobody knows the token.
    HealthInvalidToken,
    /// Health: the token is switched off.
    HealthTokenDisabled,
    /// The process stops; nothing was taken.
    ShuttingDown,
    /// All of it was taken, and the queue is nearly full.
    QueueNearlyFull,
    /// All of it was taken, and the acknowledgements are nearly full.
    AckNearlyFull,
    /// There is no room, in the words of newer versions.
    QueueAtCapacity,
    /// The channel has too many acknowledgements.
    AckAtCapacity,
}

impl HecAnswer {
    /// Every answer, by its code.
    pub const ALL: [Self; 28] = [
        Self::Success,
        Self::TokenDisabled,
        Self::TokenRequired,
        Self::InvalidAuthorization,
        Self::InvalidToken,
        Self::NoData,
        Self::InvalidFormat,
        Self::IncorrectIndex,
        Self::InternalError,
        Self::Busy,
        Self::ChannelMissing,
        Self::InvalidChannel,
        Self::EventRequired,
        Self::EventBlank,
        Self::AckDisabled,
        Self::InvalidFields,
        Self::QueryTokenDisabled,
        Self::Healthy,
        Self::QueueFull,
        Self::AckUnavailable,
        Self::QueueFullAckUnavailable,
        Self::HealthInvalidToken,
        Self::HealthTokenDisabled,
        Self::ShuttingDown,
        Self::QueueNearlyFull,
        Self::AckNearlyFull,
        Self::QueueAtCapacity,
        Self::AckAtCapacity,
    ];

    /// The code in the body.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status of HTTP.
    pub const fn status(self) -> u16 {
        match self {
            Self::Success | Self::Healthy | Self::QueueNearlyFull | Self::AckNearlyFull => 200,
            Self::TokenRequired | Self::InvalidAuthorization => 401,
            Self::TokenDisabled | Self::InvalidToken => 403,
            Self::QueueAtCapacity | Self::AckAtCapacity => 429,
            Self::InternalError => 500,
            Self::Busy
            | Self::QueueFull
            | Self::AckUnavailable
            | Self::QueueFullAckUnavailable
            | Self::ShuttingDown => 503,
            _ => 400,
        }
    }

    /// The text in the body.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::TokenDisabled | Self::HealthTokenDisabled => "Token disabled",
            Self::TokenRequired => "Token is required",
            Self::InvalidAuthorization => "Invalid authorization",
            Self::InvalidToken | Self::HealthInvalidToken => "Invalid token",
            Self::NoData => "No data",
            Self::InvalidFormat => "Invalid data format",
            Self::IncorrectIndex => "Incorrect index",
            Self::InternalError => "Internal server error",
            Self::Busy => "Server is busy",
            Self::ChannelMissing => "Data channel is missing",
            Self::InvalidChannel => "Invalid data channel",
            Self::EventRequired => "Event field is required",
            Self::EventBlank => "Event field cannot be blank",
            Self::AckDisabled => "ACK is disabled",
            Self::InvalidFields => "Error in handling indexed fields",
            Self::QueryTokenDisabled => "Query string authorization is not enabled",
            Self::Healthy => "HEC is healthy",
            Self::QueueFull => "HEC is unhealthy, queues are full",
            Self::AckUnavailable => "HEC is unhealthy, ack service unavailable",
            Self::QueueFullAckUnavailable => {
                "HEC is unhealthy, queues are full, ack service unavailable"
            }
            Self::ShuttingDown => "Server is shutting down",
            Self::QueueNearlyFull => "HEC queue is approaching its capacity limit",
            Self::AckNearlyFull => "HEC ACK is approaching its capacity limit",
            Self::QueueAtCapacity => {
                "HEC queue is at capacity and cannot process any more requests"
            }
            Self::AckAtCapacity => {
                "HEC ACK channel is at capacity and cannot process any more requests"
            }
        }
    }

    /// Appends the body: `invalid_event` is the number of the object at fault, `ack_id` that of the
    /// acknowledgement.
    pub fn write(self, invalid_event: Option<u64>, ack_id: Option<u64>, out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = write!(out, r#"{{"text":"{}","code":{}"#, self.text(), self.code());
        if let Some(number) = invalid_event {
            let _ = write!(out, r#","invalid-event-number":{number}"#);
        }
        if let Some(id) = ack_id {
            let _ = write!(out, r#","ackId":{id}"#);
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_stands_at_its_code() {
        for (code, answer) in HecAnswer::ALL.iter().enumerate() {
            assert_eq!(usize::from(answer.code()), code);
        }
    }

    #[test]
    fn bodies_are_those_of_splunk() {
        let body = |answer: HecAnswer, invalid_event, ack_id| {
            let mut out = Vec::new();
            answer.write(invalid_event, ack_id, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            body(HecAnswer::Success, None, Some(0)),
            r#"{"text":"Success","code":0,"ackId":0}"#
        );
        assert_eq!(
            body(HecAnswer::InvalidFormat, Some(1), Some(0)),
            r#"{"text":"Invalid data format","code":6,"invalid-event-number":1,"ackId":0}"#
        );
    }
}
