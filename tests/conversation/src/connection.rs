//! One socket: segments in, outcomes out.

use rollout_probe_common::{
    flow::{CHUNK, Direction, Flow, Frames, Next, Outcomes, Path, Payload, Segment, wait},
    outcome::{LostSync, NoResponse, Origin, Role},
    wire::{
        framing::Event,
        plain::{self, Found, Scan},
        start::Start,
    },
};

/// Sequence number of the first byte towards the socket: it wraps in every test.
pub const RX: u32 = 0xffff_fff0;
/// Sequence number of the first byte from the socket.
pub const TX: u32 = 1000;
/// Loads of a packet's bytes, as in the kernel's programs.
const BUDGET: u32 = 4096;

/// What was counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Status and latency; the clock ticks once a segment.
    Response(u16, Option<u64>),
    /// Requests without a response.
    NoResponse(NoResponse, u32),
    /// A direction not followed for now.
    Lost(LostSync),
}

#[derive(Debug, Default)]
struct Record(Vec<Outcome>);

impl Outcomes for Record {
    fn response(&mut self, _flow: &Flow, status: u16, latency: Option<u64>) {
        self.0.push(Outcome::Response(status, latency));
    }

    fn no_response(&mut self, _flow: &Flow, how: NoResponse, requests: u32) {
        self.0.push(Outcome::NoResponse(how, requests));
    }

    fn lost(&mut self, why: LostSync) {
        self.0.push(Outcome::Lost(why));
    }
}

struct Bytes<'a>(&'a [u8], u64);

impl Bytes<'_> {
    /// Words from `offset` on, zeroes behind the end.
    fn words<const N: usize>(&self, offset: usize) -> [u64; N] {
        std::array::from_fn(|at| {
            let mut word = [0; 8];
            let from = self.0.get(offset + at * 8..).unwrap_or_default();
            let n = from.len().min(8);
            word[..n].copy_from_slice(&from[..n]);
            u64::from_ne_bytes(word)
        })
    }
}

impl Payload for Bytes<'_> {
    fn start(&mut self, offset: u32) -> Option<Start> {
        assert!(offset as usize + 16 <= self.0.len(), "the contract of `start`");
        Some(Start(self.words(offset as usize)))
    }

    fn is_plain(&mut self, offset: u32, len: u32) -> bool {
        assert_eq!((offset + len) as usize, self.0.len(), "the contract of `is_plain`");
        is_plain(&self.0[offset as usize..])
    }

    fn now(&mut self) -> u64 {
        self.1
    }
}

/// Whether `bytes` are a plain request, chunk by chunk as in the kernel.
#[must_use]
pub fn is_plain(bytes: &[u8]) -> bool {
    let mut scan = Scan::default();
    for offset in (0..bytes.len()).step_by(plain::CHUNK) {
        match scan.chunk(&Bytes(bytes, 0).words(offset)) {
            Found::Nothing => {}
            Found::End(end) => return offset + end as usize == bytes.len(),
            Found::Odd => return false,
        }
    }
    false
}

/// A connection and what came of it.
#[derive(Debug)]
pub struct Connection {
    /// The state that every socket has.
    pub flow: Flow,
    /// The state of those that need framing.
    pub frames: Frames,
    /// Where each direction's next segment in order starts.
    pub next: [u32; 2],
    record: Record,
    clock: u64,
}

impl Connection {
    fn new(flow: Flow) -> Self {
        Self { flow, frames: Frames::START, next: [RX, TX], record: Record::default(), clock: 0 }
    }

    /// An accepted connection.
    #[must_use]
    pub fn server() -> Self {
        Self::new(Flow::open(Role::SERVER, Origin::TRAFFIC, RX, TX))
    }

    /// A connection that the socket opened.
    #[must_use]
    pub fn client() -> Self {
        Self::new(Flow::open(Role::CLIENT, Origin::TRAFFIC, RX, TX))
    }

    /// A connection older than the programs.
    #[must_use]
    pub fn older() -> Self {
        Self::new(Flow::join())
    }

    /// The same, and every message is framed from the start.
    #[must_use]
    pub fn thorough(mut self) -> Self {
        self.flow.thorough = 1;
        self
    }

    /// A segment at any place.
    pub fn at(&mut self, direction: Direction, seq: u32, bytes: &[u8], fin: bool) -> &mut Self {
        self.clock += 1;
        let len = u32::try_from(bytes.len()).expect("a segment's length");
        let segment = Segment { seq, len, fin };
        if self.flow.is_content(direction, segment) {
            return self;
        }
        let mut payload = Bytes(bytes, self.clock);
        if self.flow.quick(direction, segment, &mut payload, &mut self.record) == Path::Framed {
            self.frame(direction, segment, &mut payload);
        }
        self.flow.finish(direction, segment, &mut self.record);
        self
    }

    /// The long way of one segment.
    fn frame(&mut self, direction: Direction, segment: Segment, payload: &mut Bytes<'_>) {
        let now = payload.now();
        self.frames.enter(&mut self.flow, direction, now);
        for _ in 0..BUDGET {
            match self.frames.next(&mut self.flow, direction, segment, payload, &mut self.record) {
                Next::Done => return self.frames.leave(&mut self.flow, direction),
                Next::Again => {}
                Next::Take { offset, len } => {
                    let (from, len) = (offset as usize, len as usize);
                    assert!((1..=CHUNK).contains(&len), "the contract of `take`");
                    let taken = self.take(direction, &payload.0[from..from + len]);
                    self.frames.taken(&mut self.flow, direction, taken);
                }
            }
        }
        self.flow.lose(direction, LostSync::BUDGET, &mut self.record);
    }

    fn take(&mut self, direction: Direction, bytes: &[u8]) -> u32 {
        let mut at = 0;
        while at < bytes.len() {
            let event = self.frames.take(&mut self.flow, direction, bytes[at]);
            at += 1;
            if event != Event::None {
                self.frames.event(&mut self.flow, direction, event, &mut self.record);
            }
            let stream = self.flow.stream(direction);
            if event == Event::Head || stream.wait != wait::FRAMED {
                break;
            }
            let rest = (bytes.len() - at) as u64;
            if stream.skip > rest {
                stream.skip -= rest;
                at = bytes.len();
            } else {
                at += usize::try_from(stream.skip).expect("less than a chunk");
                stream.skip = 0;
            }
        }
        u32::try_from(at).expect("less than a chunk")
    }

    /// The next segment in order.
    pub fn sends(&mut self, direction: Direction, bytes: &[u8]) -> &mut Self {
        let seq = self.next[direction as usize];
        let len = u32::try_from(bytes.len()).expect("a segment's length");
        self.next[direction as usize] = seq.wrapping_add(len);
        self.at(direction, seq, bytes, false)
    }

    /// A FIN in order.
    pub fn ends(&mut self, direction: Direction) -> &mut Self {
        let seq = self.next[direction as usize];
        self.at(direction, seq, b"", true)
    }

    /// All that was counted so far.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        &self.record.0
    }

    /// The responses' codes, when nothing else was counted.
    #[must_use]
    pub fn statuses(&self) -> Vec<u16> {
        let status = |outcome: &Outcome| match outcome {
            Outcome::Response(status, _) => *status,
            other => panic!("not a response: {other:?} in {:?}", self.record.0),
        };
        self.record.0.iter().map(status).collect()
    }
}
