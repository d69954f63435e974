//! Products that hosts were last known to be: the header of their next event may say less.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Hosts whose product is remembered, at most.
const HINTS_MAX: usize = 65_536;

/// Product that a host was last known to be, shared by all workers. Bounded: when it is full, it
/// is emptied and learns anew.
#[derive(Debug, Default)]
pub struct HostProducts(Mutex<HashMap<Vec<u8>, (String, String)>>);

impl HostProducts {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Vendor and product of a host.
    pub(crate) fn get(&self, host: &[u8]) -> Option<(String, String)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(host).cloned()
    }

    /// Takes note of a host's vendor and product.
    pub(crate) fn learn(&self, host: &[u8], vendor: &[u8], product: &[u8]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            |one: &(String, String)| one.0.as_bytes() == vendor && one.1.as_bytes() == product;
        if known.get(host).is_some_and(same) {
            return;
        }
        if known.len() >= HINTS_MAX {
            known.clear();
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        known.insert(host.to_vec(), (text(vendor), text(product)));
    }
}
