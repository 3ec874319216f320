//! Good conversations, changed at random: nothing fails, and nothing is counted that cannot be there.

use conversation::{Random, Sender, Vector, any_connection, any_head};

const ROUNDS: u64 = 1_000;

/// The form in which the fuzzers take a conversation.
fn encoded(vector: &Vector) -> Vec<u8> {
    let mut data = vec![0];
    for piece in &vector.segments {
        for part in piece.bytes.chunks(255) {
            data.push(u8::from(piece.sender == Sender::Server));
            data.push(u8::try_from(part.len()).expect("at most 255"));
            data.extend(part);
        }
    }
    data
}

fn change(data: &mut Vec<u8>, random: &mut Random) {
    const BYTES: [u8; 14] = [0, b'\r', b'\n', b' ', b'\t', b':', b',', b'0', b'9', b'a', b'/', b'H', 0x7f, 0xff];
    for _ in 0..=random.below(4) {
        let at = random.below(data.len());
        match random.below(4) {
            0 => data[at] = *random.pick(&BYTES),
            1 => data.insert(at, *random.pick(&BYTES)),
            2 if data.len() > 1 => {
                data.remove(at);
            }
            _ => {
                let n = random.below(data.len() - at).min(64);
                let copy = data[at..at + n].to_vec();
                let to = random.below(data.len());
                data.splice(to..to, copy);
            }
        }
    }
}

#[test]
fn changed_conversations_break_nothing() {
    for vector in Vector::all() {
        let good = encoded(&vector);
        any_connection(&good);
        for seed in 0..if good.len() > 3000 { ROUNDS / 20 } else { ROUNDS } {
            let random = &mut Random::new(seed);
            let mut data = good.clone();
            data[0] = u8::try_from(random.below(8)).expect("below 8");
            change(&mut data, random);
            any_connection(&data);
        }
    }
}

#[test]
fn changed_heads_are_plain_only_if_the_framing_says_so() {
    for vector in Vector::all() {
        for piece in vector.segments.iter().filter(|piece| piece.sender == Sender::Client && piece.bytes.len() < 3000) {
            for seed in 0..ROUNDS {
                let mut data = [&b"GET / HTTP/1.1\r\n"[..], &piece.bytes].concat();
                change(&mut data, &mut Random::new(seed));
                any_head(&data);
            }
        }
    }
}
