//! Receivers of an address: the number of threads, and of the sockets that each of them reads.

use std::io;
use std::net::UdpSocket;

use inrush_event::AutoCount;
use inrush_transport::config::{ListenAddr, UdpBalance, UdpOptions};
use inrush_transport::listen;
use inrush_transport::process;
use inrush_transport::udp::UdpReceiver;

/// Sockets that one thread reads as one, at most: with an `net.core.rmem_max` of 212,992 they hold
/// 33 ms of 350,000 datagrams of 800 B a second. Measured on two cores that the sender shares: a
/// thread is off its core for 4 to 6 ms now and then, and the sender then makes up for its own
/// pause; 16 sockets lost ten times as much as 64.
const MERGED_MAX: usize = 64;

/// Sockets of an address, at most, unless its configuration names more.
const SOCKETS_MAX: usize = 256;

/// Of the files that the process may have open, this share (1/n) may be sockets of one thread.
const FILES_SHARE: usize = 256;

/// The receivers of an address, one for each thread.
pub(crate) struct OpenedReceivers {
    /// With the bytes of receive buffer that each has.
    pub receivers: Vec<(UdpReceiver, u64)>,
    /// True if the sockets were inherited: they outlive us.
    pub shared: bool,
}

/// Opens the sockets of `address`, or takes over those that are `inherited`. Says when the kernel
/// gives them less receive buffer than they should have.
///
/// # Errors
/// In words: the address is taken, not ours or not permitted, or the balance cannot be had.
pub(crate) fn open(
    address: ListenAddr,
    options: &UdpOptions,
    workers: usize,
    inherited: Vec<UdpSocket>,
) -> Result<OpenedReceivers, String> {
    let in_words = |error: io::Error| format!("{address}: {error}");
    let wanted_bytes = usize::try_from(options.receive_buffer_bytes()).unwrap_or(usize::MAX);
    let shared = !inherited.is_empty();
    let mut each = 1;
    let sockets = if shared {
        inherited
    } else {
        let threads = options.socket_count(workers);
        let bound_bytes = listen::receive_buffer_bound(wanted_bytes);
        let files = usize::try_from(process::open_files_max()).unwrap_or(usize::MAX);
        each = sockets_each(options, threads, bound_bytes, files);
        open_sockets(address, threads, &mut each)?
    };
    if options.balance == UdpBalance::Random && sockets.len() > 1 {
        listen::spread_randomly(&sockets[0], sockets.len() as u32)
            .map_err(|error| format!("{address}: udp.balance random: {error}"))?;
    }
    let count = sockets.len();
    let mut least = wanted_bytes;
    let mut receivers = Vec::new();
    let mut sockets = sockets.into_iter();
    while sockets.len() > 0 {
        let group: Vec<UdpSocket> = sockets.by_ref().take(each).collect();
        let mut bytes = 0;
        for socket in &group {
            let granted = listen::raise_receive_buffer(socket, wanted_bytes).map_err(in_words)?;
            least = least.min(granted);
            bytes += granted as u64;
        }
        let receiver = UdpReceiver::new(group).map_err(in_words)?;
        receivers.push((receiver, bytes));
    }
    if least < wanted_bytes {
        tracing::warn!(
            %address,
            receive_buffer_bytes = least,
            wanted_bytes,
            sockets = count,
            "UDP receive buffers are as small as net.core.rmem_max says: raise it, or give the \
             process CAP_NET_ADMIN; `inrush doctor` has the command"
        );
    }
    Ok(OpenedReceivers { receivers, shared })
}

/// `each` sockets for each thread, or one where this host has no way to read several in order.
fn open_sockets(
    address: ListenAddr,
    threads: usize,
    each: &mut usize,
) -> Result<Vec<UdpSocket>, String> {
    if *each > 1 {
        match listen::udp_sockets_to_merge(address, threads, *each) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => tracing::info!(%error, "one UDP socket for each thread, not several"),
        }
        *each = 1;
    }
    listen::udp_sockets(address, threads).map_err(|error| error.to_string())
}

/// Sockets that each thread reads: more than one where the kernel bounds the receive buffer of
/// each to `bound_bytes`, and nobody has said how many there shall be. The process may have `files`
/// open.
fn sockets_each(options: &UdpOptions, threads: usize, bound_bytes: usize, files: usize) -> usize {
    let ordered = matches!(options.balance, UdpBalance::Auto | UdpBalance::Ordered);
    if !ordered || options.sockets != AutoCount::Auto {
        return 1;
    }
    let wanted_bytes = usize::try_from(options.receive_buffer_bytes()).unwrap_or(usize::MAX);
    let most = MERGED_MAX
        .min(SOCKETS_MAX / threads)
        .min(files / FILES_SHARE);
    wanted_bytes
        .div_ceil(bound_bytes.max(1))
        .clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn bounded_buffers_are_made_up_for_by_more_sockets() {
        const FILES: usize = 1 << 20;
        let auto = UdpOptions::default();
        assert_eq!(sockets_each(&auto, 1, 64 << 20, FILES), 1, "not bounded");
        assert_eq!(sockets_each(&auto, 1, 8 << 20, FILES), 8);
        assert_eq!(sockets_each(&auto, 1, 212_992, FILES), MERGED_MAX);
        assert_eq!(sockets_each(&auto, 16, 212_992, FILES), 16);
        assert_eq!(sockets_each(&auto, 300, 0, FILES), 1);
        assert_eq!(sockets_each(&auto, 1, 212_992, 1024), 4, "few files");
        assert_eq!(sockets_each(&auto, 1, 212_992, 0), 1);
        let set = |sockets, balance| UdpOptions {
            sockets,
            balance,
            ..UdpOptions::default()
        };
        let one = AutoCount::Count(NonZeroU16::MIN);
        assert_eq!(
            sockets_each(&set(one, UdpBalance::Auto), 1, 212_992, FILES),
            1
        );
        let hash = set(AutoCount::Auto, UdpBalance::Hash);
        assert_eq!(sockets_each(&hash, 1, 212_992, FILES), 1);
    }
}
