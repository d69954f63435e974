//! An embedded store that may not be open yet: searches ask here, and the sink fills it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inrush_store::{Claims, Store};

/// A store as a destination has it.
#[derive(Default)]
pub struct StoreSlot {
    state: Mutex<State>,
    changed: Condvar,
    /// Claims of others on the file system, for the store once it is open.
    claims: Mutex<Option<Claims>>,
}

#[derive(Default)]
enum State {
    /// It is being opened.
    #[default]
    Opening,
    Open(Arc<Store>),
    /// It could not be opened, for this reason; it is tried again.
    Held(String),
    /// Nobody wants it any more.
    Closed,
}

impl StoreSlot {
    /// The store, once it is open.
    pub fn get(&self) -> Option<Arc<Store>> {
        match &*self.state() {
            State::Open(store) => Some(Arc::clone(store)),
            _ => None,
        }
    }

    /// Reason, in words, for which there is none; `None` if there is one.
    pub fn why_not(&self) -> Option<String> {
        match &*self.state() {
            State::Open(_) => None,
            State::Opening => Some("it is being opened".to_owned()),
            State::Held(why) => Some(why.clone()),
            State::Closed => Some("it is closed".to_owned()),
        }
    }

    /// Says what others may still take of the store's file system; once.
    pub fn set_claims(&self, claims: Claims) {
        *self.claims.lock().unwrap_or_else(PoisonError::into_inner) = Some(claims);
        if let Some(store) = self.get() {
            self.tell_claims(&store);
        }
    }

    fn tell_claims(&self, store: &Store) {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = claims.take() {
            store.set_claims(claims);
        }
    }

    /// True if it is known whether the store could be opened; waits for that at most `wait`.
    pub(super) fn is_settled(&self, wait: Duration) -> bool {
        let state = self.state();
        let opening = |state: &mut State| matches!(state, State::Opening);
        let (state, _) = self
            .changed
            .wait_timeout_while(state, wait, opening)
            .unwrap_or_else(PoisonError::into_inner);
        !matches!(*state, State::Opening)
    }

    pub(super) fn begin(&self) {
        *self.state() = State::Opening;
    }

    /// Takes note of what became of an attempt. A store that nobody wants any more goes at once.
    pub(super) fn settle(&self, opened: std::io::Result<Arc<Store>>) {
        let mut state = self.state();
        if !matches!(*state, State::Closed) {
            *state = match opened {
                Ok(store) => State::Open(store),
                Err(error) => State::Held(error.to_string()),
            };
        }
        drop(state);
        if let Some(store) = self.get() {
            self.tell_claims(&store);
        }
        self.changed.notify_all();
    }

    pub(super) fn close(&self) {
        *self.state() = State::Closed;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
