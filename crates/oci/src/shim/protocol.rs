//! What the agent and a shim say to each other.
//!
//! Frames on a unix stream: four bytes of length (little endian), then JSON. Requests carry a number that their reply
//! repeats; replies may come in another order. After [`Request::Subscribe`] the shim also sends [`Push`]es. Every
//! message of an agent of this version is understood by shims of this version; [`VERSION`] is checked first.

use jiff::Timestamp;
use minke_core::runtime::{ContainerId, Exit, TerminalSize};
use serde::{Deserialize, Serialize};

use crate::create::CreateRequest;

/// Version of the protocol. An agent adopts shims of an older version as far as it speaks it; this one speaks only 1.
pub(crate) const VERSION: u32 = 1;

/// Longest frame: a container's whole configuration with its environment (the kernel takes 2 MiB of that).
pub(crate) const MAX_FRAME: usize = 16 << 20;

/// A numbered request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Repeated by the reply.
    pub(crate) number: u64,
    /// The request.
    pub(crate) request: Request,
}

/// What the agent asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Who are you?
    Hello,
    /// Create a container.
    Create(Box<CreateRequest>),
    /// Start a created container.
    Start(ContainerId),
    /// Send a signal to a container's first process; to every process of its cgroup if `all`.
    Kill {
        /// Which container.
        id: ContainerId,
        /// Signal number.
        signal: i32,
        /// SIGKILL for the whole cgroup instead.
        all: bool,
    },
    /// Run a command in a container. Its streams come as descriptors with the frame: a socket that takes a terminal, or
    /// standard output, standard error and maybe standard input. It is answered twice, when the program runs and when
    /// it has ended; the end of the connection kills it.
    Exec(Box<ExecCall>),
    /// Join a running container. With the frame come descriptors: a socket that takes where its input goes, if it has one
    /// (its terminal, if it has that), then where output and, without a terminal, errors go. The end of the connection
    /// ends it.
    Attach(AttachCall),
    /// Whoever joined on this connection has no more input: with `stdinOnce` the container's is over.
    EndInput,
    /// The Pod's network namespace, sent as a descriptor to the socket that comes with the frame.
    Network,
    /// Forget a container that has ended and remove its cgroup.
    Delete(ContainerId),
    /// Open its log file anew.
    ReopenLog(ContainerId),
    /// All containers.
    List,
    /// Send pushes on this connection from now on.
    Subscribe,
    /// Kill everything and end.
    Shutdown,
}

/// A command to run in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecCall {
    /// In which.
    pub(crate) container: ContainerId,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Whether it reads.
    pub(crate) stdin: bool,
    /// A terminal of this size.
    pub(crate) tty: Option<TerminalSize>,
}

/// A container to join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachCall {
    /// Which.
    pub(crate) container: ContainerId,
    /// Its input, too.
    pub(crate) stdin: bool,
    /// When this one's input is over, so is the container's.
    pub(crate) once: bool,
}

/// What a shim sends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The answer to a call.
    Reply {
        /// The call's number.
        number: u64,
        /// The answer.
        result: Result<Reply, Refusal>,
    },
    /// Something happened.
    Push(Push),
}

/// A good answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// To [`Request::Hello`].
    Hello {
        /// The shim's version of the protocol.
        version: u32,
    },
    /// To [`Request::Create`].
    Created {
        /// Numeric user of the process, in the container's terms.
        uid: u32,
    },
    /// To [`Request::Start`].
    Started {
        /// When.
        at: Timestamp,
    },
    /// To [`Request::List`].
    Containers(Vec<ShimContainer>),
    /// First to [`Request::Exec`]: the program runs.
    ExecStarted,
    /// Then to [`Request::Exec`]: it has ended.
    ExecEnded {
        /// As a shell has it, 128 + n for signal n.
        code: i32,
    },
    /// To everything else.
    Done,
}

/// One container as its shim sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShimContainer {
    /// Which.
    pub(crate) id: ContainerId,
    /// What it does.
    pub(crate) state: ShimState,
}

/// What a container does, as its shim sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ShimState {
    /// It is being created.
    Creating,
    /// Created, waiting for its start.
    Created,
    /// Running.
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// Ended.
    Exited(ExitRecord),
}

/// How a container ended; the content of `exit.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    /// When it had started; `None` if its start failed.
    pub(crate) started_at: Option<Timestamp>,
    /// How it ended.
    pub(crate) exit: Exit,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    /// Which kind.
    pub(crate) kind: RefusalKind,
    /// In words.
    pub(crate) message: String,
}

/// The kinds of refusals that the agent tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RefusalKind {
    /// No such container.
    NotFound,
    /// There is one already.
    Exists,
    /// The configuration can't be carried out.
    Invalid,
    /// The machine refuses.
    NotPermitted,
    /// Not in this state of the container.
    State,
    /// The container has no such program.
    NoProgram,
    /// It can't be executed.
    NotExecutable,
    /// Everything else.
    Failed,
}

impl Refusal {
    /// A refusal in words.
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Push {
    /// A container ended; its exit file is on disk.
    Exited {
        /// Which.
        id: ContainerId,
        /// How.
        record: ExitRecord,
    },
}

/// A value as one frame.
///
/// # Errors
/// It can't be encoded or is longer than [`MAX_FRAME`].
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, value).map_err(FrameError::Encode)?;
    let length = frame.len() - 4;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong { length });
    }
    frame[..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    Ok(frame)
}

/// Takes the first whole frame off the front of `buffer`; `None` when more bytes are needed.
///
/// # Errors
/// The frame is too long or not understood; the connection is of no more use.
pub(crate) fn decode<T: for<'de> Deserialize<'de>>(buffer: &mut Vec<u8>) -> Result<Option<T>, FrameError> {
    let Some(prefix) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
    if length > MAX_FRAME {
        return Err(FrameError::TooLong { length });
    }
    let Some(body) = buffer.get(4..4 + length) else { return Ok(None) };
    let value = serde_json::from_slice(body).map_err(FrameError::Decode)?;
    buffer.drain(..4 + length);
    Ok(Some(value))
}

/// A frame that can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// Too long.
    #[error("a frame of {length} bytes is longer than {MAX_FRAME}")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// Can't be encoded.
    #[error("can't encode a frame")]
    Encode(#[source] serde_json::Error),
    /// Not understood.
    #[error("can't understand a frame")]
    Decode(#[source] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut bytes = Vec::new();
        for number in 0..3 {
            bytes.extend(encode(&Call { number, request: Request::Start(ContainerId("a".repeat(9))) }).unwrap());
        }
        let mut buffer = Vec::new();
        let mut numbers = Vec::new();
        for byte in bytes {
            buffer.push(byte);
            while let Some(call) = decode::<Call>(&mut buffer).unwrap() {
                numbers.push(call.number);
            }
        }
        assert_eq!((numbers, buffer.len()), (vec![0, 1, 2], 0));
    }

    #[test]
    fn a_frame_beyond_the_limit_is_an_error_before_it_is_read() {
        let mut buffer = u32::MAX.to_le_bytes().to_vec();
        assert!(matches!(decode::<Call>(&mut buffer), Err(FrameError::TooLong { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_wait_for_more(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut buffer = bytes;
            prop_assert!(!matches!(decode::<Call>(&mut buffer), Ok(Some(_))));
        }
    }
}
