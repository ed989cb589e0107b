//! Frames: how requests, events and output travel over the pipe.
//!
//! A frame is a header of five bytes (the payload's length as a little-endian `u32`, then a kind)
//! and the payload. A header is checked against the direction's limit before one byte of payload is
//! read or room for it is made. Requests and events are bincode 2 with a fixed configuration and
//! the same limit; output travels as raw bytes; the greeting has a form of its own that no change
//! of version touches. This is the only file that names bincode.

use crate::{CodeBytes, Event, Hello, Request, Stream};
use bincode::error::DecodeError;
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, Read};

/// Bytes of a header.
pub const HEADER_LEN: usize = 5;
/// The largest payload from the server to the jail: the most code any setting allows, and its spec.
pub const MAX_REQUEST: usize = CodeBytes::MAX as usize + 512 * 1024;
/// The largest payload from the jail to the server.
pub const MAX_EVENT: usize = 256 * 1024;
/// The largest payload of an output frame.
pub const MAX_OUTPUT: usize = 64 * 1024;
/// The largest greeting.
const MAX_HELLO: usize = 4 + 64;

/// What a frame carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A [`Hello`].
    Hello,
    /// A [`Request`] or an [`Event`].
    Message,
    /// Bytes that the guest wrote.
    Output(Stream),
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Kind::Hello => 1,
            Kind::Message => 2,
            Kind::Output(Stream::Stdout) => 3,
            Kind::Output(Stream::Stderr) => 4,
        }
    }

    const fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Hello),
            2 => Some(Kind::Message),
            3 => Some(Kind::Output(Stream::Stdout)),
            4 => Some(Kind::Output(Stream::Stderr)),
            _ => None,
        }
    }
}

/// Which way a frame travels; decides what kinds and sizes are allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From the server to the jail.
    ToJail,
    /// From the jail to the server.
    ToServer,
}

impl Direction {
    /// The largest payload of that kind, or `None` where the kind does not travel this way.
    const fn limit(self, kind: Kind) -> Option<usize> {
        match (self, kind) {
            (_, Kind::Hello) => Some(MAX_HELLO),
            (Direction::ToJail, Kind::Message) => Some(MAX_REQUEST),
            (Direction::ToServer, Kind::Message) => Some(MAX_EVENT),
            (Direction::ToServer, Kind::Output(_)) => Some(MAX_OUTPUT),
            (Direction::ToJail, Kind::Output(_)) => None,
        }
    }
}

/// A frame that breaks the rules. The peer that sent it is ended, not tolerated.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The kind is unknown, or does not travel this way.
    #[error("a frame of kind {0} is not allowed here")]
    Kind(u8),
    /// The payload is larger than its kind may be.
    #[error("a frame of {length} bytes is over its limit of {limit}")]
    Size {
        /// The announced length in bytes.
        length: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The payload is no message of this protocol version.
    #[error("a frame does not decode: {0}")]
    Decode(String),
    /// A message is too large to send.
    #[error("a message of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// The message's length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Another message than the order of the protocol allows.
    #[error("unexpected {got}, {expected} was due")]
    Order {
        /// What was due.
        expected: &'static str,
        /// What came.
        got: &'static str,
    },
    /// The stream ended within a frame, or reading failed.
    #[error("the pipe failed: {0}")]
    Io(#[from] io::Error),
}

/// A checked header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// What the frame carries.
    pub kind: Kind,
    /// The payload's length in bytes, within its limit.
    pub length: usize,
}

impl Header {
    /// Checks a header that travels in `direction`.
    ///
    /// # Errors
    /// [`FrameError::Kind`] and [`FrameError::Size`].
    pub fn parse(bytes: [u8; HEADER_LEN], direction: Direction) -> Result<Header, FrameError> {
        let [a, b, c, d, kind_byte] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]);
        let kind = Kind::from_byte(kind_byte).ok_or(FrameError::Kind(kind_byte))?;
        let limit = direction.limit(kind).ok_or(FrameError::Kind(kind_byte))?;
        match usize::try_from(length) {
            Ok(length) if length <= limit => Ok(Header { kind, length }),
            _ => Err(FrameError::Size { length: length.into(), limit }),
        }
    }
}

/// A decoded frame from the server.
#[derive(Debug, PartialEq)]
pub enum ToJail {
    /// The greeting.
    Hello(Hello),
    /// A request.
    Request(Request),
}

/// A decoded frame from the jail.
#[derive(Debug, PartialEq)]
pub enum ToServer {
    /// The greeting.
    Hello(Hello),
    /// An event.
    Event(Event),
    /// Bytes that the guest wrote.
    Output(Stream, Vec<u8>),
}

impl ToJail {
    /// Decodes the payload of a checked frame.
    ///
    /// # Errors
    /// [`FrameError::Decode`], also when bytes are left over.
    pub fn decode(header: Header, payload: &[u8]) -> Result<ToJail, FrameError> {
        match header.kind {
            Kind::Hello => decode_hello(payload).map(ToJail::Hello),
            Kind::Message => decode_message::<Request, MAX_REQUEST>(payload).map(ToJail::Request),
            kind @ Kind::Output(_) => Err(FrameError::Kind(kind.byte())),
        }
    }

    /// Reads one frame; `None` at a clean end of file.
    ///
    /// # Errors
    /// Any [`FrameError`]; an end within a frame is [`io::ErrorKind::UnexpectedEof`].
    pub fn read(input: &mut impl Read) -> Result<Option<ToJail>, FrameError> {
        let Some((header, payload)) = read_frame(input, Direction::ToJail)? else {
            return Ok(None);
        };
        ToJail::decode(header, &payload).map(Some)
    }
}

impl ToServer {
    /// Decodes the payload of a checked frame.
    ///
    /// # Errors
    /// [`FrameError::Decode`], also when bytes are left over.
    pub fn decode(header: Header, payload: Vec<u8>) -> Result<ToServer, FrameError> {
        match header.kind {
            Kind::Hello => decode_hello(&payload).map(ToServer::Hello),
            Kind::Message => decode_message::<Event, MAX_EVENT>(&payload).map(ToServer::Event),
            Kind::Output(stream) => Ok(ToServer::Output(stream, payload)),
        }
    }

    /// Reads one frame; `None` at a clean end of file.
    ///
    /// # Errors
    /// Any [`FrameError`]; an end within a frame is [`io::ErrorKind::UnexpectedEof`].
    pub fn read(input: &mut impl Read) -> Result<Option<ToServer>, FrameError> {
        let Some((header, payload)) = read_frame(input, Direction::ToServer)? else {
            return Ok(None);
        };
        ToServer::decode(header, payload).map(Some)
    }
}

fn read_frame(
    input: &mut impl Read,
    direction: Direction,
) -> Result<Option<(Header, Vec<u8>)>, FrameError> {
    let mut bytes = [0; HEADER_LEN];
    loop {
        match input.read(&mut bytes[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
    }
    input.read_exact(&mut bytes[1..])?;
    let header = Header::parse(bytes, direction)?;
    let mut payload = vec![0; header.length];
    input.read_exact(&mut payload)?;
    Ok(Some((header, payload)))
}

/// The frame of a greeting.
pub fn encode_hello(hello: &Hello) -> Vec<u8> {
    let version = hello.version.as_bytes();
    let version = version.get(..MAX_HELLO - 4).unwrap_or(version);
    let mut payload = hello.protocol.to_le_bytes().to_vec();
    payload.extend_from_slice(version);
    frame(Kind::Hello, &payload)
}

/// The frame of a request.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode_request(request: &Request) -> Result<Vec<u8>, FrameError> {
    encode_message(request, MAX_REQUEST)
}

/// The frame of an event.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode_event(event: &Event) -> Result<Vec<u8>, FrameError> {
    encode_message(event, MAX_EVENT)
}

/// The frame of up to [`MAX_OUTPUT`] bytes of guest output; what is longer is cut.
pub fn encode_output(stream: Stream, bytes: &[u8]) -> Vec<u8> {
    frame(Kind::Output(stream), bytes.get(..MAX_OUTPUT).unwrap_or(bytes))
}

fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len());
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.push(kind.byte());
    bytes.extend_from_slice(payload);
    bytes
}

fn encode_message(message: &impl Serialize, limit: usize) -> Result<Vec<u8>, FrameError> {
    let payload = bincode::serde::encode_to_vec(message, bincode::config::standard())
        .map_err(|error| FrameError::Decode(error.to_string()))?;
    if payload.len() > limit {
        return Err(FrameError::TooLarge { length: payload.len(), limit });
    }
    Ok(frame(Kind::Message, &payload))
}

fn decode_message<T: DeserializeOwned, const LIMIT: usize>(
    payload: &[u8],
) -> Result<T, FrameError> {
    let config = bincode::config::standard().with_limit::<LIMIT>();
    let (message, read) = bincode::serde::decode_from_slice(payload, config)
        .map_err(|error| FrameError::Decode(in_words(error)))?;
    if read != payload.len() {
        return Err(FrameError::Decode(format!("{} bytes left over", payload.len() - read)));
    }
    Ok(message)
}

/// What is wrong with a payload. bincode's own `Display` is that of `Debug`.
fn in_words(error: DecodeError) -> String {
    match error {
        DecodeError::OtherString(text) => text,
        DecodeError::Other(text) => text.to_owned(),
        DecodeError::UnexpectedEnd { .. } => "it ends too early".to_owned(),
        DecodeError::LimitExceeded => "a part of it is over the limit".to_owned(),
        DecodeError::Utf8 { .. } => "a text in it is not UTF-8".to_owned(),
        _ => "a value in it is not allowed".to_owned(),
    }
}

fn decode_hello(payload: &[u8]) -> Result<Hello, FrameError> {
    let Some((protocol, version)) = payload.split_first_chunk::<4>() else {
        return Err(FrameError::Decode("a greeting without a protocol number".into()));
    };
    let version = version.iter().map(|b| if b.is_ascii_graphic() { *b as char } else { '?' });
    Ok(Hello { protocol: u32::from_le_bytes(*protocol), version: version.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_decode_is_told_in_words() {
        let message = |payload: &[u8]| {
            let header = Header { kind: Kind::Message, length: payload.len() };
            ToServer::decode(header, payload.to_vec()).unwrap_err().to_string()
        };
        assert_eq!(message(&[]), "a frame does not decode: it ends too early");
        assert_eq!(message(&[0xff]), "a frame does not decode: a value in it is not allowed");
        let unknown = message(&[9, 9, 9, 9]);
        assert!(unknown.starts_with("a frame does not decode: invalid value: "), "{unknown}");
        assert!(!unknown.contains("OtherString"), "{unknown}");
    }
}
