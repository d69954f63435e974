//! Every limit of the product, with its unit and the reason for its value.

/// Bytes of one message kept by default; the rest of a longer one is cut, flagged and counted.
/// 64 KiB is the largest UDP payload, and twice what the largest Windows event needs.
pub const MESSAGE_BYTES_DEFAULT: usize = 64 * 1024;

/// Bytes: the largest `max_message_bytes` that can be configured. A partial message is held in
/// memory for each connection, so this times the connection limit bounds hostile memory.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes: the smallest `max_message_bytes`; RFC 5424 section 6.1 has every receiver take 480.
pub const MESSAGE_BYTES_MIN: usize = 480;

/// Bytes asked of the kernel in one stream read. Measured on loopback: a 64 KiB window costs
/// twice as much per message as 1 MiB, because the socket queue then goes cold between reads.
pub const READ_BYTES: usize = 1024 * 1024;

/// Bytes of free memory that a batch has before a read, at least: as much as TLS decrypts at once.
pub const READ_BYTES_MIN: usize = 256 * 1024;

/// Bytes of a batch's arena for messages up to the default length: a large page, which holds a
/// batch that is almost due, the partial message carried over, and one whole read.
pub const ARENA_BYTES: usize = 2 * 1024 * 1024;

/// Bytes in a batch beyond which it is handed on even though more could be read at once.
pub const BATCH_FLUSH_BYTES: usize = 896 * 1024;

/// Records in a batch beyond which it is handed on: 1.5 MiB of rows (96 B each). A stream is framed
/// in steps between which this is looked at, so a flood of tiny messages adds one step at most.
pub const BATCH_FLUSH_RECORDS: usize = 16 * 1024;

/// A frozen batch with fewer bytes than this is copied into a buffer of its own size, so that a
/// queue of trickled events pins what they hold and not a whole arena each. Larger ones are not:
/// copying a full batch costs as much as reading it did.
pub const BATCH_COPY_BYTES: usize = 128 * 1024;

/// Bytes that a batch pins beside its buffers: its own fields, the reference count, its entry in
/// the log and in each cursor, and what the allocator adds.
pub const BATCH_OVERHEAD_BYTES: usize = 512;

/// Senders for which a returned batch may keep room.
pub const PEERS_KEPT: usize = 4096;

/// Free arenas that a pool keeps, the warmest used first; the ones above go back to the system, and
/// each second an eighth of those that nobody needed in it. As many as a round of writing frees at
/// once, several times: a fresh arena costs the kernel 2 MiB of zeros.
pub const POOL_FREE_BATCHES: usize = 64;

/// Digits in an octet count. RFC 6587 sets no limit; 10 GB needs 11, so 8 (under 100 MB) is
/// more than any real sender needs and cannot overflow.
pub const OCTET_COUNT_DIGITS_MAX: usize = 8;

/// Bytes: the largest octet count that is believed. A larger one is taken as a broken frame
/// rather than as an order to skip that much of the stream.
pub const OCTET_COUNT_MAX: usize = 16 * 1024 * 1024;

/// Messages of one RELP connection that may wait for their answer before it is not read any more.
/// At 150,000 events/s on one connection a fifth of a second, several times what a group commit
/// takes; a peer that does not read its answers pins 1 MiB (32 B each) with it.
pub const RELP_UNANSWERED_MAX: usize = 32 * 1024;

/// Bytes: the shortest RELP message, `1 syslog 0` and its line feed. What is read at once of a
/// connection cannot hold more messages than this allows.
pub const RELP_MESSAGE_BYTES_MIN: usize = 11;

/// Bytes of RELP answers that are written before they are given to the kernel.
pub const RELP_ANSWER_BYTES: usize = 16 * 1024;

/// Bytes of HTTP answers that are written before they are given to the kernel.
pub const HTTP_ANSWER_BYTES: usize = 16 * 1024;

/// Datagrams asked of the kernel in one `recvmmsg`.
pub const DATAGRAMS_PER_READ: usize = 64;

/// Bytes: what the receive buffer of a UDP socket is raised to where the kernel allows it.
pub const UDP_RECEIVE_BUFFER_BYTES: usize = 64 * 1024 * 1024;

/// Connections of one listener by default; each costs about 1 KiB while idle, 20 KiB under TLS.
pub const CONNECTIONS_DEFAULT: usize = 16_384;

/// Bytes that all queued batches may pin in memory by default: some 60 arenas. An arena counts in
/// full however little is in it, so how long a disk or a collector may pause depends on how many
/// workers share the load: with two, at 150,000 events/s of 800 B, about a third of a second
/// (reckoned, not measured).
pub const QUEUE_BYTES_DEFAULT: u64 = 128 * 1024 * 1024;

/// Bytes: the smallest memory budget of the queue; two full arenas, or nothing could flow.
pub const QUEUE_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Disk that the queue may take, in bytes, unless configured.
pub const QUEUE_DISK_BYTES_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;

/// The least disk that a queue can work with: a few segments of the smallest size.
pub const QUEUE_DISK_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// Disk that the queue leaves free, in bytes, unless configured.
pub const QUEUE_RESERVE_BYTES_DEFAULT: u64 = 512 * 1024 * 1024;

/// Bytes after which the queue begins a new segment; a smaller one where the disk budget is small.
pub const QUEUE_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes that are written and synced at once.
pub const QUEUE_ROUND_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of the state of one stream's position: a compressed file's window fits.
pub const POSITION_BYTES_MAX: usize = 64 * 1024;

/// Bytes of positions after which a batch is full: a frame of the queue has room for many times as
/// much beside the largest batch.
pub const BATCH_POSITION_BYTES: usize = 1024 * 1024;

/// Streams of all sources whose positions the queue remembers, at most; the oldest ones go first.
pub const POSITION_STREAMS_MAX: usize = 1_000_000;

/// Bytes of all positions that the queue remembers, at most: 256 a stream.
pub const POSITIONS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Disk that refused events may take, in bytes, unless configured: a million of 800 B, more than
/// anyone looks through.
pub const QUARANTINE_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;

/// Bytes: the smallest quarantine; a few events of the largest size.
pub const QUARANTINE_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Bytes after which quarantine begins a new segment. Smaller than the queue's: taking events out
/// writes the rest of a segment anew.
pub const QUARANTINE_SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes: the largest configuration file; a thousand times a usual one.
pub const CONFIG_FILE_BYTES_MAX: usize = 1024 * 1024;

/// Values in a configuration once aliases are expanded, so that a few lines of nested aliases
/// cannot ask for millions.
pub const CONFIG_NODES_MAX: usize = 20_000;

/// Bytes of text in a configuration once aliases and variables are filled in.
pub const CONFIG_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Levels of lists and mappings in a configuration; the deepest option is at 6.
pub const CONFIG_DEPTH_MAX: usize = 32;

/// Bytes of a search query: thousands of addresses pasted into a list fit.
pub const QUERY_BYTES_MAX: usize = 64 * 1024;

/// Conditions of a query that lie inside one another, by parentheses or negation; people stop at
/// three. SQL engines recurse several frames deep for each: the SQL of these stays within half of
/// the 50 levels that DataFusion's parser takes by default, and within the 2 MiB that threads have.
pub const QUERY_NESTING_MAX: usize = 8;

/// Conditions of a query. Where there are many beside each other, SQL engines nest each in the one
/// before, and run out of stack at some thousands.
pub const QUERY_TERMS_MAX: usize = 256;

/// Values of a query in lists, `field=(a OR b)`: they stay a list in SQL, which costs no nesting.
pub const QUERY_VALUES_MAX: usize = 4096;

/// Milliseconds: the widest bar of a histogram, ten years.
pub const QUERY_BUCKET_MS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Columns of a table that a query asks for; more do not fit on a screen.
pub const QUERY_COLUMNS_MAX: usize = 16;

const _: () = {
    assert!(MESSAGE_BYTES_DEFAULT <= MESSAGE_BYTES_MAX);
    assert!(ARENA_BYTES >= READ_BYTES + MESSAGE_BYTES_DEFAULT + BATCH_FLUSH_BYTES);
    assert!(BATCH_COPY_BYTES < BATCH_FLUSH_BYTES);
    assert!(BATCH_FLUSH_BYTES <= READ_BYTES);
    assert!(ARENA_BYTES <= u32::MAX as usize, "spans are 32-bit");
    assert!(
        OCTET_COUNT_MAX < 100_000_000,
        "must be writable in OCTET_COUNT_DIGITS_MAX digits"
    );
};
