//! An embedded store that may not be open yet: searches ask here, and the sink fills it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inrush_store::{ReservedBytes, Store};

/// A store as a destination has it.
#[derive(Default)]
pub struct StoreSlot {
    state: Mutex<StoreSlotState>,
    changed: Condvar,
    /// Claims of others on the file system, for the store once it is open.
    claims: Mutex<Option<ReservedBytes>>,
}

#[derive(Default)]
enum StoreSlotState {
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
            StoreSlotState::Open(store) => Some(Arc::clone(store)),
            _ => None,
        }
    }

    /// Reason, in words, for which there is none; `None` if there is one.
    pub fn why_not(&self) -> Option<String> {
        match &*self.state() {
            StoreSlotState::Open(_) => None,
            StoreSlotState::Opening => Some("it is being opened".to_owned()),
            StoreSlotState::Held(why) => Some(why.clone()),
            StoreSlotState::Closed => Some("it is closed".to_owned()),
        }
    }

    /// Says what others may still take of the store's file system; once.
    pub fn set_claims(&self, claims: ReservedBytes) {
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
        let opening = |state: &mut StoreSlotState| matches!(state, StoreSlotState::Opening);
        let (state, _) = self
            .changed
            .wait_timeout_while(state, wait, opening)
            .unwrap_or_else(PoisonError::into_inner);
        !matches!(*state, StoreSlotState::Opening)
    }

    pub(super) fn begin(&self) {
        *self.state() = StoreSlotState::Opening;
    }

    /// Takes note of what became of an attempt. A store that nobody wants any more goes at once.
    pub(super) fn settle(&self, opened: std::io::Result<Arc<Store>>) {
        let mut state = self.state();
        if !matches!(*state, StoreSlotState::Closed) {
            *state = match opened {
                Ok(store) => StoreSlotState::Open(store),
                Err(error) => StoreSlotState::Held(error.to_string()),
            };
        }
        drop(state);
        if let Some(store) = self.get() {
            self.tell_claims(&store);
        }
        self.changed.notify_all();
    }

    pub(super) fn close(&self) {
        *self.state() = StoreSlotState::Closed;
    }

    fn state(&self) -> MutexGuard<'_, StoreSlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
