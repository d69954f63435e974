//! RELP runs against receivers that answer, refuse, break off or fall silent.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use inrush_load::{Args, LoadReport, run};

fn load(words: &str) -> LoadReport {
    run(&Args::from_words(words.split(' ')).unwrap()).unwrap()
}

/// A session of the sender: its messages by number, and a stream to answer on.
struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    /// Takes a connection and answers its opening.
    fn accept(listener: &TcpListener) -> Self {
        let stream = BufReader::new(listener.accept().unwrap().0);
        let mut peer = Self { stream };
        let (txnr, command, data) = peer.frame().unwrap();
        assert_eq!((txnr, command.as_str()), (1, "open"));
        assert!(data.starts_with("relp_version=0\n") && data.ends_with("commands=syslog"));
        peer.answer(1, "200 OK\nrelp_version=0\ncommands=syslog");
        peer
    }

    fn frame(&mut self) -> Option<(u32, String, String)> {
        let mut word = || {
            let mut word = Vec::new();
            loop {
                let mut byte = [0];
                match self.stream.read(&mut byte) {
                    Ok(1) if byte == *b" " || byte == *b"\n" => break,
                    Ok(1) => word.push(byte[0]),
                    _ => return None,
                }
            }
            Some(String::from_utf8(word).unwrap())
        };
        let (txnr, command, length) = (word()?, word()?, word()?);
        let mut data = vec![0; length.parse().unwrap()];
        if !data.is_empty() {
            self.stream.read_exact(&mut data).ok()?;
            self.stream.read_until(b'\n', &mut Vec::new()).ok()?;
        }
        Some((
            txnr.parse().unwrap(),
            command,
            String::from_utf8(data).unwrap(),
        ))
    }

    fn answer(&mut self, txnr: u32, data: &str) {
        let frame = format!("{txnr} rsp {} {data}\n", data.len());
        self.stream.get_mut().write_all(frame.as_bytes()).unwrap();
    }

    /// Answers `count` messages, or all that come; their numbers. Says goodbye to `close`.
    fn serve(&mut self, count: usize) -> Vec<u64> {
        let mut seen = Vec::new();
        while seen.len() < count
            && let Some((txnr, command, data)) = self.frame()
        {
            if command == "close" {
                self.stream
                    .get_mut()
                    .write_all(format!("{txnr} rsp 0\n").as_bytes())
                    .unwrap();
                break;
            }
            seen.push(seq(&data));
            self.answer(txnr, "200 OK");
        }
        seen
    }
}

fn seq(message: &str) -> u64 {
    let at = message.find("seq=").unwrap() + 4;
    message[at..at + 10].parse().unwrap()
}

fn listen<T: Send + 'static>(
    act: impl FnOnce(TcpListener) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, std::thread::spawn(move || act(listener)))
}

#[test]
fn everything_is_answered_and_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("acked");
    let (address, peer) = listen(|listener| Peer::accept(&listener).serve(usize::MAX));
    let report = load(&format!(
        "relp://{address} -r 0 -n 5000 -s 300 --window 64 --acked-file {}",
        file.display()
    ));
    assert!(report.ok(), "{report}");
    assert_eq!((report.sent, report.acked), (5000, Some(5000)));
    assert_eq!(peer.join().unwrap(), (0..5000).collect::<Vec<_>>());
    let line = format!(
        "{{\"run\":\"{}\",\"conn\":0,\"acked\":[[0,4999]]}}\n",
        report.run
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), line);
}

#[test]
fn no_more_than_the_window_is_on_its_way() {
    let (address, peer) = listen(|listener| {
        let mut peer = Peer::accept(&listener);
        let txnrs: Vec<_> = (0..7).map(|_| peer.frame().unwrap().0).collect();
        // Nothing else can be read while nothing is answered: the sender has sent its window.
        peer.stream.get_ref().set_nonblocking(true).unwrap();
        let more = peer.stream.read(&mut [0]);
        peer.stream.get_ref().set_nonblocking(false).unwrap();
        txnrs
            .into_iter()
            .rev()
            .for_each(|txnr| peer.answer(txnr, "200 OK"));
        (more.is_err(), peer.serve(usize::MAX).len())
    });
    let report = load(&format!("relp://{address} -r 0 -n 50 --window 7"));
    assert!(report.ok() && report.acked == Some(50), "{report}");
    assert_eq!(peer.join().unwrap(), (true, 43));
}

#[test]
fn a_peer_that_dies_leaves_exactly_what_it_answered() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("acked");
    let (address, peer) = listen(|listener| Peer::accept(&listener).serve(1000).len());
    let report = load(&format!(
        "relp://{address} -r 0 -n 100000 --acked-file {}",
        file.display()
    ));
    assert_eq!(peer.join().unwrap(), 1000);
    assert!(!report.ok() && report.connections.failed == 1, "{report}");
    // The last answers may be lost with the connection, for it is reset.
    let acked = report.acked.unwrap();
    assert!(
        acked <= 1000 && acked > 0 && report.sent < 100_000,
        "{report}"
    );
    let text = std::fs::read_to_string(file).unwrap();
    assert!(
        text.ends_with(&format!("\"acked\":[[0,{}]]}}\n", acked - 1)),
        "{text}"
    );
}

#[test]
fn after_a_loss_all_that_was_not_answered_is_sent_again_first() {
    let (address, peer) = listen(|listener| {
        let mut first = Peer::accept(&listener);
        assert_eq!(first.serve(100), (0..100).collect::<Vec<_>>());
        // Taken and not answered.
        let unanswered: Vec<_> = (0..8).map(|_| first.frame().unwrap()).collect();
        drop(first);
        let again = Peer::accept(&listener).serve(usize::MAX);
        (unanswered.len(), again)
    });
    let report = load(&format!(
        "relp://{address} -r 0 -n 1000 --window 8 --reconnect"
    ));
    assert!(report.ok(), "{report}");
    assert_eq!((report.sent, report.acked), (1000, Some(1000)));
    let answers = report.answers.as_ref().unwrap();
    assert_eq!(answers.reconnects, 1, "{report}");
    let (unanswered, again) = peer.join().unwrap();
    assert!(answers.resent >= unanswered as u64, "{report}");
    // What was answered and reset before the sender read it comes once more: at least once.
    let first = again[0];
    assert!((92..=100).contains(&first), "{first}");
    assert_eq!(again, (first..1000).collect::<Vec<_>>());
}

#[test]
fn refusals_and_silence_are_counted() {
    let (address, peer) = listen(|listener| {
        let mut peer = Peer::accept(&listener);
        for n in 0..10 {
            let (txnr, ..) = peer.frame().unwrap();
            match n {
                3 => peer.answer(txnr, "500 no"),
                7 => {}
                _ => peer.answer(txnr, "200 OK"),
            }
        }
        peer.frame()
    });
    let report = load(&format!(
        "relp://{address} -r 0 -n 10 --drain-timeout 100ms"
    ));
    assert!(!report.ok(), "{report}");
    assert_eq!((report.sent, report.acked), (10, Some(8)));
    assert_eq!(report.answers.unwrap().refused, 1);
    assert_eq!(report.first_errors["refused_message"], "500 no");
    assert_eq!(report.errors["unanswered"], 1);
    assert_eq!(peer.join().unwrap().unwrap().1, "close");
}

#[test]
fn a_receiver_that_is_no_relp_is_named() {
    let (address, peer) = listen(|listener| {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap_or(0)
    });
    let report = load(&format!("relp://{address} -r 0 -n 10"));
    assert!(!report.ok() && report.acked == Some(0), "{report}");
    assert!(
        report.to_string().contains("does not speak RELP"),
        "{report}"
    );
    peer.join().unwrap();
}
