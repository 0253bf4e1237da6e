//! Against a bus made of one socket.

use std::fs::File;
use std::io::{IoSlice, Read as _};
use std::os::fd::AsFd as _;

use rustix::fs::OFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncReadExt as _;

use super::wire::Writer;
use super::*;

/// The other end of a connection.
struct Bus {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Bus {
    fn pair() -> (Self, UnixStream) {
        let (stream, ours) = UnixStream::pair().unwrap();
        (Self { stream, bytes: Vec::new() }, ours)
    }

    async fn hear(&mut self) {
        let mut buffer = [0; 1024];
        let count = self.stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "the connection was closed");
        self.bytes.extend(&buffer[..count]);
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.bytes.drain(..end + 2).collect();
                return String::from_utf8(line).unwrap().trim().trim_start_matches('\0').to_owned();
            }
            self.hear().await;
        }
    }

    async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn welcome(&mut self) {
        assert!(
            self.line().await.starts_with("AUTH EXTERNAL 3"),
            "the user's number, in hexadecimal digits of its digits"
        );
        self.say("OK 1234deadbeef\r\n").await;
        assert_eq!(self.line().await, "NEGOTIATE_UNIX_FD");
        self.say("AGREE_UNIX_FD\r\n").await;
        assert_eq!(self.line().await, "BEGIN");
    }

    async fn call(&mut self) -> Message {
        loop {
            if let Some((message, taken)) = Message::decode(&self.bytes).unwrap() {
                self.bytes.drain(..taken);
                return message;
            }
            self.hear().await;
        }
    }

    async fn expect(&mut self, member: &str) -> u32 {
        let call = self.call().await;
        assert_eq!((call.kind, call.member.as_str()), (Kind::Call, member));
        call.serial
    }

    /// A return (2), an error (3) or a signal (4), with a body.
    async fn send(&mut self, kind: u8, answers: u32, signature: &str, body: impl FnOnce(&mut Writer)) {
        let bytes = encoded(kind, answers, signature, body);
        self.stream.write_all(&bytes).await.unwrap();
    }
}

fn encoded(kind: u8, answers: u32, signature: &str, body: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut written = Writer::default();
    body(&mut written);
    let mut message = Writer::header(kind, written.0.len(), 7);
    message.fields(|all| {
        match kind {
            4 => {
                for (code, value) in [(2, MANAGER), (3, "PrepareForShutdown")] {
                    all.field(code, "s");
                    all.text(value);
                }
            }
            _ => {
                all.field(5, "u");
                all.number(answers);
            }
        }
        if kind == 3 {
            all.field(4, "s");
            all.text("org.freedesktop.DBus.Error.AccessDenied");
        }
        all.field(8, "g");
        all.signature(signature);
    });
    message.0.extend(written.0);
    message.0
}

/// Up to the call that takes the lock; its number.
async fn up_to_the_lock(bus: &mut Bus) -> u32 {
    bus.welcome().await;
    let hello = bus.expect("Hello").await;
    bus.send(2, hello, "s", |body| body.text(":1.7")).await;
    let rule = bus.expect("AddMatch").await;
    bus.send(2, rule, "", |_| {}).await;
    let delay = bus.expect("Get").await;
    bus.send(2, delay, "v", |body| {
        body.signature("t");
        body.0.resize(8, 0);
        body.0.extend(5_000_000_u64.to_le_bytes());
    })
    .await;
    bus.expect("Inhibit").await
}

#[tokio::test]
async fn a_shutdown_is_held_up_from_its_announcement_until_the_pods_have_ended() {
    let (mut bus, ours) = Bus::pair();
    let ended = CancellationToken::new();
    let (announce, mut heard) = watch::channel(false);
    let node = tokio::spawn({
        let ended = ended.clone();
        async move {
            let announced = || announce.send(true).unwrap();
            hold(Connection::begin(ours).await?, Duration::from_secs(30), announced, &ended).await
        }
    });
    let call = up_to_the_lock(&mut bus).await;
    // A signal before the answer is not lost, and one that takes a shutdown back is none.
    bus.send(4, 0, "b", |body| body.number(0)).await;
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let answer = encoded(2, call, "h", |body| body.number(0));
    let files = [writer.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&bus.stream, &[IoSlice::new(&answer)], &mut control, SendFlags::empty()).unwrap();
    drop(writer);
    // In two pieces, as sockets do.
    let announced = encoded(4, 0, "b", |body| body.number(1));
    bus.stream.write_all(&announced[..20]).await.unwrap();
    assert!(!*heard.borrow());
    bus.stream.write_all(&announced[20..]).await.unwrap();
    heard.changed().await.unwrap();
    let flags = rustix::fs::fcntl_getfl(&reader).unwrap();
    rustix::fs::fcntl_setfl(&reader, flags | OFlags::NONBLOCK).unwrap();
    let mut reader = File::from(reader);
    assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "the lock is held");
    ended.cancel();
    while reader.read(&mut [0]).is_err() {
        tokio::task::yield_now().await;
    }
    // It stays until the machine goes on, or ends it.
    assert!(!node.is_finished());
    bus.send(4, 0, "b", |body| body.number(0)).await;
    node.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_refusal_is_told_in_the_words_of_who_refuses() {
    let (mut bus, ours) = Bus::pair();
    let node = tokio::spawn(async { take_lock(&mut Connection::begin(ours).await?, Duration::ZERO).await });
    let call = up_to_the_lock(&mut bus).await;
    bus.send(3, call, "s", |body| body.text("Permission denied")).await;
    let error = node.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "Inhibit is refused: org.freedesktop.DBus.Error.AccessDenied: Permission denied");
}

#[tokio::test]
async fn a_bus_that_does_not_know_us_or_goes_away_is_told() {
    let (mut bus, ours) = Bus::pair();
    let node = tokio::spawn(Connection::begin(ours));
    bus.line().await;
    bus.say("REJECTED EXTERNAL\r\n").await;
    assert!(matches!(node.await.unwrap(), Err(LogindError::Unknown(said)) if said == "REJECTED EXTERNAL"));
    let (bus, ours) = Bus::pair();
    drop(bus);
    assert!(matches!(Connection::begin(ours).await, Err(LogindError::Broken(_))));
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_says_nothing_is_not_waited_for() {
    let (mut bus, ours) = Bus::pair();
    let node = tokio::spawn(async { take_lock(&mut Connection::begin(ours).await?, Duration::ZERO).await });
    bus.welcome().await;
    bus.expect("Hello").await;
    assert!(matches!(node.await.unwrap(), Err(LogindError::Silent)));
}

#[test]
fn a_call_is_written_as_it_is_read() {
    let call = Call { destination: "d", path: "/p", interface: "i", member: "m", arguments: &["one", "two"] };
    let bytes = call.encode(9);
    let (message, taken) = Message::decode(&bytes).unwrap().unwrap();
    assert_eq!((taken, message.kind, message.serial), (bytes.len(), Kind::Call, 9));
    assert_eq!(
        (message.interface.as_str(), message.member.as_str(), message.text().as_deref()),
        ("i", "m", Some("one"))
    );
    assert_eq!((message.truth(), message.file(), message.property()), (None, None, None));
}

#[test]
fn whatever_comes_is_a_message_or_an_error_and_never_a_panic() {
    let bytes = encoded(3, 1, "s", |body| body.text("words"));
    for cut in 0..bytes.len() {
        assert_eq!(Message::decode(&bytes[..cut]), Ok(None), "{cut} bytes are too few");
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            if let Ok(Some((message, taken))) = Message::decode(&changed) {
                assert!(taken <= changed.len());
                drop((message.text(), message.truth(), message.file(), message.property()));
            }
        }
    }
}

#[test]
fn the_bus_is_where_the_environment_says_or_where_it_always_is() {
    assert_eq!(socket(None), Path::new("/run/dbus/system_bus_socket"));
    assert_eq!(socket(Some("unix:path=/tmp/bus,guid=00;tcp:host=x")), Path::new("/tmp/bus"));
    assert_eq!(socket(Some("tcp:host=x")), Path::new("/run/dbus/system_bus_socket"));
}
