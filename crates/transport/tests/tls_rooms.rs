//! TLS into rooms of any size: what is read at once is sometimes less than TLS decrypts at once.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::sync::Arc;

use common::{Authority, Door, NO_CERTIFICATE, PATIENCE};
use inrush_transport::stream::{CIPHER_READ_BYTES, Connection, StreamRead};
use inrush_transport::tls::ServerTls;
use mio::{Events, Interest, Poll, Token};
use rustls::version::TLS13;

#[test]
fn a_room_of_any_size_gets_all_that_was_sent() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    door.write_pair(&authority.issue("localhost"));
    let tls = Arc::new(ServerTls::load(&door.options()).unwrap());
    let sent: Vec<u8> = (0..400_000u32).map(|n| (n % 251) as u8).collect();
    for room in [100, 8 * 1024, 40 * 1024, CIPHER_READ_BYTES] {
        let received = std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                let mut client = door.client(authority.client(&TLS13, NO_CERTIFICATE));
                client.write_all(&sent).unwrap();
                client.flush().unwrap();
                client
            });
            let received = read(&mut door.accept(&tls), room, sent.len());
            drop(client.join());
            received
        });
        assert!(received == sent, "{room}: {}", received.len());
    }
}

/// Reads so many bytes, or until nothing comes any more.
fn read(connection: &mut Connection, room: usize, bytes: usize) -> Vec<u8> {
    let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(4));
    let socket = connection.socket_mut();
    let registry = poll.registry();
    registry
        .register(socket, Token(0), Interest::READABLE)
        .unwrap();
    let (mut room, mut cipher) = (vec![0; room], vec![0; CIPHER_READ_BYTES]);
    let mut received = Vec::new();
    while received.len() < bytes {
        let drained = match connection.read(&mut room, &mut cipher) {
            StreamRead::Data(n) => {
                received.extend_from_slice(&room[..n]);
                continue;
            }
            StreamRead::Drained(n) => n,
            StreamRead::Blocked => 0,
            StreamRead::Closed | StreamRead::Failed(_) => break,
        };
        received.extend_from_slice(&room[..drained]);
        if received.len() < bytes {
            poll.poll(&mut events, Some(PATIENCE)).unwrap();
            if events.is_empty() {
                break;
            }
        }
    }
    received
}
