//! Frame payload: a batch as bytes of the log, encoded and decoded.
//!
//! # What it guarantees
//! * The order on disk is names block, rows, arena. The arena is the batch's, byte for byte.
//! * Encoding copies no arena. A large one begins on a disk block, so its write needs none either.
//! * Decoding returns `None` for unknown flags, unknown class numbers and spans outside the arena.
//! * Numbers of formats and protocols never change, so old segments stay readable.
//!
//! # Limits
//! A row has `ROW_BYTES` in a batch with classes, `PLAIN_ROW_BYTES` in a batch without.
//! An arena of [`limits::BATCH_COPY_BYTES`] or more counts as large.
//!
//! # After a crash
//! A torn payload fails its checksum. `SegmentScan` reports its bytes as bad, and readers skip
//! them.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use inrush_event::{
    Anomalies, Batch, BatchParts, ClassId, Format, Origin, Peer, PooledMemory, Protocol, Record,
    SourceInfo, Span, Timestamp, crc32c, crc32c_append, limits,
};

use super::classes;
use super::frame::{
    FLAG_CLASSES, FLAG_CLIENTS, FLAG_NOTE, FLAG_ONLY, FLAG_ORIGINS, FLAG_POSITIONS, FLAG_ROUTED,
    FLAGS_KNOWN, FrameHeader,
};
use super::{FieldReader, FieldWriter, LogId, RefusalNote, positions};
use crate::storage::BLOCK_BYTES;
use crate::writer::PendingBatch;

/// Bytes of a row in a batch with classes.
pub(crate) const ROW_BYTES: usize = 96;
/// Bytes of a row in a batch without.
const PLAIN_ROW_BYTES: usize = 88;
pub(crate) const PEER_BYTES: usize = 20;
/// The number of a sender, and the length of its name.
const CLIENT_BYTES_MIN: usize = 8;
/// The number of an origin, its kind, its partition, and the length of its name.
const ORIGIN_BYTES_MIN: usize = 13;

/// Formats and protocols by their number on disk, which never changes; new ones are added behind.
const FORMATS: [Format; 7] = [
    Format::Unparsed,
    Format::Rfc3164,
    Format::Cisco,
    Format::Rfc5424,
    Format::Hec,
    Format::Journal,
    Format::Kubernetes,
];
const PROTOCOLS: [Protocol; 7] = [
    Protocol::Udp,
    Protocol::Tcp,
    Protocol::Tls,
    Protocol::Relp,
    Protocol::Relps,
    Protocol::Http,
    Protocol::Https,
];

/// Appends the frame's header and everything of the payload but the arena, which is written from
/// where it lies. Returns the header. `offset` is where the frame begins in its file: a large arena
/// begins on a block.
pub(crate) fn encode_head(
    log: &LogId,
    place: (u64, u64, u32),
    pending: &PendingBatch,
    offset: u64,
    out: &mut Vec<u8>,
) -> FrameHeader {
    let (position, first_event, epoch) = place;
    let (batch, note) = (&*pending.batch, pending.note.as_ref());
    let flags = flags(batch, note);
    let start = out.len();
    out.resize(start + super::FRAME_HEADER_BYTES, 0);
    let names = out.len();
    push_names(batch, note, flags, out);
    if is_padded(batch) {
        let arena = offset as usize + (out.len() - start) + batch.len() * row_bytes(flags);
        out.resize(out.len() + arena.next_multiple_of(BLOCK_BYTES) - arena, 0);
    }
    let rows = out.len();
    out.reserve(batch.len() * row_bytes(flags));
    for record in batch.records() {
        out.extend_from_slice(&row(record)[..row_bytes(flags)]);
    }
    let arena = batch.bytes();
    let plain_bytes = (out.len() - names + arena.len()) as u32;
    let header = FrameHeader {
        position,
        first_event,
        received: batch.received(),
        events: batch.len() as u32,
        epoch,
        stored_bytes: plain_bytes,
        plain_bytes,
        payload_sum: join_sums(
            log.checksum(&out[names..]),
            batch.arena_sum().unwrap_or_else(|| crc32c(arena)),
        ),
        names_bytes: (rows - names) as u32,
        flags,
    };
    out[start..names].copy_from_slice(&header.encode(log));
    header
}

/// True if the arena begins on a block: then it need not be copied to be written.
pub(crate) fn is_padded(batch: &Batch) -> bool {
    batch.bytes().len() >= limits::BATCH_COPY_BYTES
}

/// The checksum of a payload is that of its head, then that of its arena, so that the arena can be
/// summed before anybody knows where in the log it comes.
fn join_sums(head: u32, arena: u32) -> u32 {
    crc32c_append(head, &arena.to_le_bytes())
}

/// The checksum that the payload of a frame should have.
pub(crate) fn payload_sum(log: &LogId, header: &FrameHeader, payload: &[u8]) -> u32 {
    let rows = (header.events as usize).saturating_mul(row_bytes(header.flags));
    let head = rows.saturating_add(header.names_bytes as usize);
    let (head, arena) = payload.split_at(head.min(payload.len()));
    join_sums(log.checksum(head), crc32c(arena))
}

fn flags(batch: &Batch, note: Option<&RefusalNote>) -> u16 {
    let only = batch.only().map_or(0, |_| FLAG_ONLY);
    let classes = if batch.classes().is_empty() {
        0
    } else {
        FLAG_CLASSES
    };
    let routed = batch.destinations().map_or(0, |_| FLAG_ROUTED);
    let mut peers = batch.origins().iter().filter_map(Origin::peer);
    let named = peers.any(|peer| peer.client.is_some());
    let others = batch.origins().iter().any(|origin| origin.peer().is_none());
    let origins = if others { FLAG_ORIGINS } else { 0 };
    let clients = if named { FLAG_CLIENTS } else { 0 };
    let places = batch.shared_positions().map_or(0, |_| FLAG_POSITIONS);
    only | classes | routed | clients | origins | places | note.map_or(0, |_| FLAG_NOTE)
}

/// Bytes of a row in a frame with these flags.
fn row_bytes(flags: u16) -> usize {
    if flags & FLAG_CLASSES == 0 {
        PLAIN_ROW_BYTES
    } else {
        ROW_BYTES
    }
}

pub(super) fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn push_names(batch: &Batch, note: Option<&RefusalNote>, flags: u16, out: &mut Vec<u8>) {
    let source = batch.source();
    out.extend_from_slice(&batch.sequence().to_le_bytes());
    for text in [&source.name, &source.index, &source.sourcetype] {
        push_text(text, out);
    }
    if flags & FLAG_POSITIONS != 0 {
        let places = batch.positions().iter();
        positions::push(places.map(|one| (one.stream, &*one.state)), out);
    }
    if let Some(only) = batch.only() {
        push_text(only, out);
    }
    if let Some(note) = note {
        note.push(out);
    }
    if let Some(destinations) = batch.destinations() {
        out.extend_from_slice(&(destinations.len() as u16).to_le_bytes());
        for name in destinations {
            push_text(name, out);
        }
    }
    if !batch.classes().is_empty() {
        classes::push(batch.classes(), out);
    }
    if flags & FLAG_CLIENTS != 0 {
        push_clients(batch.origins(), out);
    }
    if flags & FLAG_ORIGINS != 0 {
        push_origins(batch.origins(), out);
    }
    out.extend_from_slice(&(batch.origins().len() as u32).to_le_bytes());
    for origin in batch.origins() {
        let Some(peer) = origin.peer() else {
            // Its place in the list; what it is stands among the origins before.
            out.extend_from_slice(&[0; PEER_BYTES]);
            continue;
        };
        let (family, ip) = match peer.ip {
            IpAddr::V4(ip) => (4, ip.to_ipv6_mapped()),
            IpAddr::V6(ip) => (6, ip),
        };
        let protocol = PROTOCOLS.iter().position(|p| *p == peer.protocol);
        out.extend_from_slice(&ip.octets());
        out.extend_from_slice(&peer.local_port.to_le_bytes());
        out.extend_from_slice(&[protocol.unwrap_or_default() as u8, family]);
    }
}

/// Kinds of origins that are no peers, by their number on disk, which never changes.
const FILE: u8 = 1;
const UNIT: u8 = 2;
const TOPIC: u8 = 3;

/// The origins that are no peers, before all origins: number, kind, partition and name of each.
fn push_origins(origins: &[Origin], out: &mut Vec<u8>) {
    let others = origins.iter().filter(|origin| origin.peer().is_none());
    out.extend_from_slice(&(others.count() as u32).to_le_bytes());
    for (number, origin) in origins.iter().enumerate() {
        let (kind, partition, name) = match origin {
            Origin::Peer(_) => continue,
            Origin::File(path) => (FILE, 0, path),
            Origin::Unit(unit) => (UNIT, 0, unit),
            Origin::Topic { name, partition } => (TOPIC, *partition, name),
        };
        out.extend_from_slice(&(number as u32).to_le_bytes());
        out.push(kind);
        out.extend_from_slice(&partition.to_le_bytes());
        push_text(name, out);
    }
}

/// The origins that are no peers, by their numbers.
fn other_origins(fields: &mut FieldReader<'_>) -> Option<Vec<(u32, Origin)>> {
    let count = fields.u32();
    if count as usize > fields.0.len() / ORIGIN_BYTES_MIN {
        return None;
    }
    let mut origin = || {
        let (number, kind, partition) = (fields.u32(), fields.u8(), fields.u32());
        let name: Arc<str> = text(fields)?.into();
        let origin = match kind {
            FILE => Origin::File(name),
            UNIT => Origin::Unit(name),
            TOPIC => Origin::Topic { name, partition },
            _ => return None,
        };
        Some((number, origin))
    };
    (0..count).map(|_| origin()).collect()
}

/// The names by which senders are called, before the senders: their numbers and the names.
fn push_clients(origins: &[Origin], out: &mut Vec<u8>) {
    let client = |origin: &Origin| origin.peer().and_then(|peer| peer.client.clone());
    let named = origins.iter().filter_map(client).count();
    out.extend_from_slice(&(named as u32).to_le_bytes());
    for (number, origin) in origins.iter().enumerate() {
        if let Some(client) = &client(origin) {
            out.extend_from_slice(&(number as u32).to_le_bytes());
            push_text(client, out);
        }
    }
}

/// The names of senders by their numbers.
fn clients(fields: &mut FieldReader<'_>) -> Option<Vec<(u32, Arc<str>)>> {
    let count = fields.u32();
    if count as usize > fields.0.len() / CLIENT_BYTES_MIN {
        return None;
    }
    let mut client = || Some((fields.u32(), text(fields)?.into()));
    (0..count).map(|_| client()).collect()
}

fn row(record: &Record) -> [u8; ROW_BYTES] {
    let mut row = FieldWriter::<ROW_BYTES>::new();
    for span in [
        record.raw,
        record.host,
        record.app,
        record.proc_id,
        record.msg_id,
        record.sdata,
        record.message,
    ] {
        row.u32(span.start).u32(span.len);
    }
    row.u64(record.event_time.0 as u64)
        .u64(record.received.0 as u64)
        .u32(record.peer)
        .u32(record.anomalies.bits())
        .put(&record.zone_minutes.to_le_bytes())
        .u16(record.class.0)
        .put(&[record.pri, record.format as u8, 0, 0])
        .u32(record.extra.start)
        .u32(record.extra.len);
    row.done()
}

/// Remembers the source of the last batch, so that batches of the same source share it.
#[derive(Default)]
pub(crate) struct SourceCache(Option<Arc<SourceInfo>>);

impl SourceCache {
    fn share(&mut self, source: SourceInfo) -> Arc<SourceInfo> {
        match &self.0 {
            Some(known) if **known == source => Arc::clone(known),
            _ => Arc::clone(self.0.insert(Arc::new(source))),
        }
    }
}

/// The batch of a payload whose checksum was right; `None` if it contradicts itself all the same.
pub(crate) fn decode(
    header: &FrameHeader,
    payload: &[u8],
    names: &mut SourceCache,
) -> Option<Batch> {
    let mut parts = decode_parts(header, payload, names, Vec::new())?;
    parts.memory = payload[parts.arena.clone()].to_vec().into();
    parts.arena = 0..parts.arena.len();
    Some(parts.into())
}

/// Takes what a flag says is there; the default, if the flag is not set.
fn if_flagged<T: Default>(flags: u16, flag: u16, take: impl FnOnce() -> Option<T>) -> Option<T> {
    if flags & flag == 0 {
        return Some(T::default());
    }
    take()
}

/// The batch without its memory: the range of its arena is one of the payload. The rows are put
/// into `records`.
pub(crate) fn decode_parts(
    header: &FrameHeader,
    payload: &[u8],
    names: &mut SourceCache,
    mut records: Vec<Record>,
) -> Option<BatchParts> {
    if header.flags & !FLAGS_KNOWN != 0 {
        return None;
    }
    let (head, rest) = payload.split_at_checked(header.names_bytes as usize)?;
    let row_bytes = row_bytes(header.flags);
    let rows_bytes = (header.events as usize).checked_mul(row_bytes)?;
    let (rows, arena) = rest.split_at_checked(rows_bytes)?;
    let mut fields = FieldReader(head);
    let sequence = fields.u64();
    let source = SourceInfo {
        name: text(&mut fields)?,
        index: text(&mut fields)?,
        sourcetype: text(&mut fields)?,
    };
    let flags = header.flags;
    if_flagged(flags, FLAG_POSITIONS, || {
        // For the next process, and for no destination.
        positions::take(&mut fields, |_, _| ())
    })?;
    let only = if_flagged(flags, FLAG_ONLY, || text(&mut fields).map(Some))?;
    if_flagged(flags, FLAG_NOTE, || {
        RefusalNote::take(&mut fields).map(|_| ())
    })?;
    let destinations = if_flagged(flags, FLAG_ROUTED, || {
        let count = fields.u16();
        let names = (0..count).map(|_| text(&mut fields));
        Some(Some(names.collect::<Option<Arc<[String]>>>()?))
    })?;
    let classes = if_flagged(flags, FLAG_CLASSES, || classes::take(&mut fields))?;
    let clients = if_flagged(flags, FLAG_CLIENTS, || clients(&mut fields))?;
    let others = if_flagged(flags, FLAG_ORIGINS, || other_origins(&mut fields))?;
    let mut origins = origins(&mut fields, &others)?;
    for (number, client) in clients {
        match origins.get_mut(number as usize)? {
            Origin::Peer(peer) => peer.client = Some(client),
            _ => return None,
        }
    }
    records.clear();
    records.reserve(header.events as usize);
    for row in rows.chunks_exact(row_bytes) {
        let record = record(row, arena.len())?;
        if usize::from(record.class.0) > classes.len() {
            return None;
        }
        records.push(record);
    }
    Some(BatchParts {
        memory: PooledMemory::default(),
        arena: payload.len() - arena.len()..payload.len(),
        records,
        origins,
        classes,
        source: names.share(source),
        sequence,
        received: header.received,
        only: only.map(Arc::from),
        destinations,
    })
}

/// Decodes the note of the refusal from the payload of a refused event.
pub(crate) fn decode_note(header: &FrameHeader, payload: &[u8]) -> Option<RefusalNote> {
    let wanted = FLAG_ONLY | FLAG_NOTE;
    if header.flags & wanted != wanted {
        return None;
    }
    let mut fields = FieldReader(payload.get(..header.names_bytes as usize)?);
    let _sequence = fields.u64();
    // source, index, sourcetype
    for _ in 0..3 {
        text(&mut fields)?;
    }
    if_flagged(header.flags, FLAG_POSITIONS, || {
        positions::take(&mut fields, |_, _| ())
    })?;
    let _destination = text(&mut fields)?;
    RefusalNote::take(&mut fields)
}

pub(super) fn text(fields: &mut FieldReader<'_>) -> Option<String> {
    let length = fields.u32() as usize;
    let (text, rest) = fields.0.split_at_checked(length)?;
    fields.0 = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// All origins: peers, with `others` in their places.
fn origins(fields: &mut FieldReader<'_>, others: &[(u32, Origin)]) -> Option<Vec<Origin>> {
    let count = fields.u32() as usize;
    let padding = fields.0.get(count.checked_mul(PEER_BYTES)?..)?;
    if padding.len() >= BLOCK_BYTES || padding.iter().any(|byte| *byte != 0) {
        return None;
    }
    let mut peer = || {
        let ip = Ipv6Addr::from(fields.bytes::<16>());
        let (local_port, protocol, family) = (fields.u16(), fields.u8(), fields.u8());
        let ip = match family {
            4 => IpAddr::V4(ip.to_ipv4_mapped()?),
            _ => IpAddr::V6(ip),
        };
        Some(Origin::Peer(Peer {
            ip,
            local_port,
            protocol: *PROTOCOLS.get(usize::from(protocol))?,
            client: None,
        }))
    };
    let mut origins: Vec<Origin> = (0..count).map(|_| peer()).collect::<Option<_>>()?;
    for (number, origin) in others {
        *origins.get_mut(*number as usize)? = origin.clone();
    }
    Some(origins)
}

fn record(row: &[u8], arena_bytes: usize) -> Option<Record> {
    let mut fields = FieldReader(row);
    let mut inside = true;
    let mut span = || {
        let span = Span {
            start: fields.u32(),
            len: fields.u32(),
        };
        inside &= span.is_empty() || span.end() <= arena_bytes;
        span
    };
    let (raw, host, app, proc_id) = (span(), span(), span(), span());
    let (msg_id, sdata, message) = (span(), span(), span());
    let mut record = Record {
        raw,
        host,
        app,
        proc_id,
        msg_id,
        sdata,
        message,
        extra: Span::EMPTY,
        event_time: Timestamp(fields.u64() as i64),
        received: Timestamp(fields.u64() as i64),
        peer: fields.u32(),
        anomalies: Anomalies::from_bits(fields.u32()),
        zone_minutes: fields.u16() as i16,
        class: ClassId(fields.u16()),
        pri: fields.u8(),
        format: *FORMATS.get(usize::from(fields.u8()))?,
    };
    let _padding = fields.u16();
    // Zero beyond the end of a row without it.
    record.extra = Span {
        start: fields.u32(),
        len: fields.u32(),
    };
    inside &= record.extra.is_empty() || record.extra.end() <= arena_bytes;
    inside.then_some(record)
}
