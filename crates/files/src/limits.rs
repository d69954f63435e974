//! Bytes that a file which is read whole may have, by its kind.

/// A configuration, or one that is to be migrated.
pub const CONFIGURATION_BYTES_MAX: u64 = 16 << 20;
/// A pack; the largest that comes with Inrush has 0.2 MB.
pub const PACK_BYTES_MAX: u64 = 16 << 20;
/// Certificates and keys: the bundle of a distribution has 0.2 MB.
pub const CERTIFICATES_BYTES_MAX: u64 = 16 << 20;
/// A file with one token.
pub const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// A table of context, such as `vendor_product_by_source.csv`.
pub const CONTEXT_BYTES_MAX: u64 = 64 << 20;
/// A list of events that were sent or refused, which a tool reads whole.
pub const LIST_BYTES_MAX: u64 = 1 << 30;
