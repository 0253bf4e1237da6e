//! `tcpSocket`: whether a connection can be made.

use std::time::Duration;

use tokio::time::timeout;

use super::Answer;
use super::address::{Address, connect};

pub(super) async fn ask(address: &Address, limit: Duration) -> Answer {
    match timeout(limit, connect(address)).await {
        Ok(Ok(_connection)) => Answer::Success,
        Ok(Err(message)) => Answer::Failure(message),
        Err(_) => Answer::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    #[tokio::test]
    async fn a_connection_is_success_and_its_refusal_failure() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = Address { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        let limit = Duration::from_secs(30);
        assert_eq!(ask(&address, limit).await, Answer::Success);
        drop(listener);
        let refused = Answer::Failure(format!("dial tcp {address}: connect: connection refused"));
        assert_eq!(ask(&address, limit).await, refused);
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_in_time_is_failure() {
        // Nobody accepts, and the queue of those who wait for it is short: once it is full, the kernel does not answer.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = Address { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        let mut waiting = Vec::new();
        while let Ok(connected) = timeout(Duration::from_secs(1), connect(&address)).await {
            waiting.push(connected.unwrap());
            assert!(waiting.len() < 1000, "the queue is never full");
        }
        let expected = Answer::Failure(format!("dial tcp {address}: i/o timeout"));
        assert_eq!(ask(&address, Duration::from_secs(1)).await, expected);
    }
}
