//! Answers that stream end with that by which they were asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{AccessControl, RequestCredential};

/// A body that ends before the first part that is to be sent after its session or token has.
struct RevocableBody {
    inner: Body,
    access: Arc<AccessControl>,
    pass: RequestCredential,
}

/// Holds an answer's body to its pass, if its length is not known from the start: then it is a
/// stream, which may live for days.
pub(crate) fn held(
    answer: Response,
    access: Arc<AccessControl>,
    pass: RequestCredential,
) -> Response {
    if answer.body().size_hint().exact().is_some() {
        return answer;
    }
    answer.map(|inner| {
        Body::new(RevocableBody {
            inner,
            access,
            pass,
        })
    })
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(frame.filter(|_| self.access.still(&self.pass)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use inrush_config::AdminOptions;
    use inrush_event::Secret;

    use super::*;

    /// Goes on for ever.
    struct Ticks;

    impl HttpBody for Ticks {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"tick")))))
        }
    }

    fn access(options: &AdminOptions) -> Arc<AccessControl> {
        Arc::new(AccessControl::new(options, 1, Duration::ZERO).unwrap())
    }

    fn with_tokens(tokens: &[&str]) -> AdminOptions {
        AdminOptions {
            tokens: tokens.iter().copied().map(Secret::new).collect(),
            ..AdminOptions::default()
        }
    }

    fn stream(access: &Arc<AccessControl>, pass: RequestCredential) -> Body {
        let answer = Response::new(Body::new(Ticks));
        held(answer, Arc::clone(access), pass).into_body()
    }

    fn goes_on(body: &mut Body) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut context) {
            Poll::Ready(frame) => frame.is_some(),
            Poll::Pending => panic!("ticks are always ready"),
        }
    }

    #[test]
    fn a_stream_ends_with_its_session() {
        let access = access(&with_tokens(&["one"]));
        let day = Duration::from_secs(86_400);
        let id = access
            .sessions()
            .open(day, std::time::Instant::now())
            .unwrap();
        let mut body = stream(&access, RequestCredential::Session(id));
        assert!(goes_on(&mut body) && goes_on(&mut body));
        access.sessions().close(&id);
        assert!(!goes_on(&mut body));
    }

    #[test]
    fn a_stream_ends_with_its_token_and_with_freedom() {
        let access = access(&with_tokens(&["one", "two"]));
        let mut first = stream(&access, RequestCredential::Token(Secret::new("one")));
        let mut second = stream(&access, RequestCredential::Token(Secret::new("two")));
        access.renew(&with_tokens(&["two"])).unwrap();
        assert!(!goes_on(&mut first) && goes_on(&mut second));

        access.renew(&with_tokens(&[])).unwrap();
        let mut open = stream(&access, RequestCredential::Open);
        assert!(goes_on(&mut open));
        access.renew(&with_tokens(&["two"])).unwrap();
        assert!(!goes_on(&mut open));
    }

    #[test]
    fn an_answer_of_known_length_is_left_as_it_is() {
        let access = access(&with_tokens(&["one"]));
        let pass = RequestCredential::Token(Secret::new("gone"));
        let answer = held(Response::new(Body::from("whole")), access, pass);
        assert_eq!(answer.body().size_hint().exact(), Some(5));
    }
}
