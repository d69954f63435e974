//! Deliberate bugs, for the simulation to find.

inrush_event::mutants! {
    AnswerPart "answer-part" "A request is answered once its first part is durable.",
    AckRefused "ack-refused" "A request is acknowledged though the queue refused a part of it.",
    KeepAck "keep-ack" "The acknowledgement of a request stays when its connection is cut.",
    SettledEarly "settled-early" "With `ack: delivered`, what is durable counts as delivered.",
    ForgetAcks "forget-acks" "Acknowledgements are not written down for the next process.",
}
