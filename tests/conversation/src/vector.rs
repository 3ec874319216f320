//! The table of conversations and what is to be counted: `tests/vectors/http1.yaml`, which says what its fields mean.

use rollout_probe_common::{
    flow::Direction,
    outcome::{LostSync, NoResponse},
};
use serde::Deserialize;

use crate::{Connection, Outcome, RX, TX};

/// Who sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sender {
    /// Who asks.
    Client,
    /// Who answers.
    Server,
}

/// One conversation.
#[derive(Clone, Debug)]
pub struct Vector {
    /// Number in the table of `tests/README.md`.
    pub case: u32,
    /// Subject, condition, result.
    pub name: String,
    /// What goes over the connection.
    pub segments: Vec<Piece>,
    /// What is to be counted.
    pub wanted: Counted,
    /// Whether the connection is older than the programs.
    pub older: bool,
    /// Whether it holds for these segments only, and not for every cut of them.
    pub whole: bool,
}

/// Bytes that go over the connection at once.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Who sends them.
    pub sender: Sender,
    /// Offset in the sender's stream.
    pub at: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The sender ends with them.
    pub fin: bool,
}

/// What was or is to be counted, latencies aside.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counted {
    /// Codes in order.
    pub responses: Vec<u16>,
    /// Requests without a response because the server closed.
    pub no_response: u32,
    /// Reasons.
    pub lost: Vec<&'static str>,
}

impl Counted {
    /// The sums of `outcomes`.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut counted = Self::default();
        for outcome in outcomes {
            match *outcome {
                Outcome::Response(status, _) => counted.responses.push(status),
                Outcome::NoResponse(NoResponse::CLOSED, requests) => counted.no_response += requests,
                Outcome::NoResponse(..) => panic!("no reset was played: {outcome:?}"),
                Outcome::Lost(why) => counted.lost.push(why.label()),
            }
        }
        counted
    }
}

/// Which end of the conversation is looked at.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The socket of who asks.
    Client,
    /// The socket of who answers.
    Server,
}

impl End {
    /// A new connection of this end.
    #[must_use]
    pub fn connection(self) -> Connection {
        match self {
            Self::Client => Connection::client(),
            Self::Server => Connection::server(),
        }
    }

    /// Plays segments on a connection of this end.
    #[must_use]
    pub fn play(self, mut it: Connection, segments: &[Piece]) -> Connection {
        for piece in segments {
            let (direction, start) = match (self, piece.sender) {
                (Self::Client, Sender::Client) | (Self::Server, Sender::Server) => (Direction::Egress, TX),
                _ => (Direction::Ingress, RX),
            };
            it.at(direction, start.wrapping_add(piece.at), &piece.bytes, piece.fin);
        }
        it
    }
}

impl Vector {
    /// The whole table.
    ///
    /// # Panics
    ///
    /// When a line of it makes no sense.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let lines: Vec<Line> =
            serde_saphyr::from_str(include_str!("../../vectors/http1.yaml")).expect("the table of vectors");
        lines.into_iter().map(Self::from).collect()
    }

    /// Plays `segments` at one end; `thorough` frames every message.
    #[must_use]
    pub fn play(&self, segments: &[Piece], end: End, thorough: bool) -> Connection {
        let it = if self.older { Connection::older() } else { end.connection() };
        end.play(if thorough { it.thorough() } else { it }, segments)
    }
}

/// The file's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    case: u32,
    name: String,
    #[expect(dead_code, reason = "for people")]
    source: String,
    segments: Vec<Sent>,
    responses: Vec<u16>,
    #[serde(default)]
    no_response: u32,
    #[serde(default)]
    lost: Vec<String>,
    #[serde(default)]
    older: bool,
    #[serde(default)]
    whole: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    client: Option<String>,
    server: Option<String>,
    at: Option<u32>,
    #[serde(default)]
    fin: bool,
}

impl From<Line> for Vector {
    fn from(line: Line) -> Self {
        let mut ends = [0; 2];
        let name = &line.name;
        let segments = line.segments.iter().map(|sent| sent.piece(name, &mut ends)).collect();
        let label = |text: &String| {
            let found = LostSync::ALL.iter().find(|why| why.label() == text);
            found.unwrap_or_else(|| panic!("`{name}`: no reason is called `{text}`")).label()
        };
        let lost = line.lost.iter().map(label).collect();
        let wanted = Counted { responses: line.responses, no_response: line.no_response, lost };
        Self { case: line.case, name: line.name, segments, wanted, older: line.older, whole: line.whole }
    }
}

impl Sent {
    fn piece(&self, name: &str, ends: &mut [u32; 2]) -> Piece {
        let (sender, hex) = match (&self.client, &self.server) {
            (Some(hex), None) => (Sender::Client, hex),
            (None, Some(hex)) => (Sender::Server, hex),
            _ => panic!("`{name}`: one sender a segment"),
        };
        let bytes = bytes_of(hex).unwrap_or_else(|| panic!("`{name}`: no hex: `{hex}`"));
        let end = &mut ends[sender as usize];
        let at = self.at.unwrap_or(*end);
        *end = (*end).max(at + u32::try_from(bytes.len()).expect("a segment's length"));
        Piece { sender, at, bytes, fin: self.fin }
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
