//! Plays HTTP/1 conversations, segment by segment, through the very code that the kernel runs, on the host and without root.
//!
//! [`Connection`] is one socket with its state and what was counted; segments go in as the packet hooks would see them: in
//! order or not, twice, merged, with holes. [`Vector`] is a line of the table of conversations in `tests/vectors`.

mod arbitrary;
mod connection;
mod generate;
mod random;
mod vector;

pub use arbitrary::{any_connection, any_head};
pub use connection::{Connection, Outcome, RX, TX, is_plain};
pub use generate::Conversation;
pub use random::Random;
pub use rollout_probe_common::flow::Direction;
pub use vector::{Counted, End, Piece, Sender, Vector};
