//! The table of vectors, as it is and in every cut: at both ends, by the short and by the long way.

use std::collections::HashSet;

use conversation::{Counted, End, Piece, Random, Vector};

/// Plays at both ends by both ways, and says what differs from what is wanted.
fn check(vector: &Vector, segments: &[Piece], how: &str) {
    for end in [End::Server, End::Client] {
        for thorough in [false, true] {
            let it = vector.play(segments, end, thorough);
            assert_eq!(
                Counted::of(it.outcomes()),
                vector.wanted,
                "case {} `{}` {how}, at the {end:?}, thorough: {thorough}",
                vector.case,
                vector.name
            );
        }
    }
}

/// Those that hold for every cut.
fn cuttable() -> impl Iterator<Item = Vector> {
    Vector::all().into_iter().filter(|vector| !vector.whole)
}

/// Cuts one piece in two; a FIN stays with its end.
fn cut(piece: &Piece, at: usize) -> [Piece; 2] {
    let (first, second) = piece.bytes.split_at(at);
    let offset = piece.at + u32::try_from(at).expect("a segment's length");
    [Piece { bytes: first.to_vec(), fin: false, ..*piece }, Piece { at: offset, bytes: second.to_vec(), ..*piece }]
}

#[test]
fn every_vector_as_it_is() {
    let vectors = Vector::all();
    let names: HashSet<_> = vectors.iter().map(|vector| &vector.name).collect();
    assert_eq!(names.len(), vectors.len(), "names are unique");
    for vector in vectors {
        check(&vector, &vector.segments, "as it is");
    }
}

#[test]
fn every_vector_cut_at_every_byte() {
    for vector in cuttable() {
        for (which, piece) in vector.segments.iter().enumerate() {
            // Of a long head or content every byte in the middle is like the next.
            let step = if piece.bytes.len() > 3000 { 97 } else { 1 };
            for at in (1..piece.bytes.len()).step_by(step) {
                let mut segments = vector.segments.clone();
                segments.splice(which..=which, cut(piece, at));
                check(&vector, &segments, &format!("cut in segment {which} at {at}"));
            }
        }
    }
}

#[test]
fn every_vector_byte_by_byte() {
    for vector in cuttable() {
        let mut segments = Vec::new();
        for piece in &vector.segments {
            let mut rest = piece.clone();
            while rest.bytes.len() > 1 {
                let [first, second] = cut(&rest, 1);
                segments.push(first);
                rest = second;
            }
            segments.push(rest);
        }
        check(&vector, &segments, "byte by byte");
    }
}

#[test]
fn every_vector_with_neighbours_merged() {
    for vector in cuttable() {
        let mut segments: Vec<Piece> = Vec::new();
        for piece in &vector.segments {
            match segments.last_mut() {
                Some(last)
                    if last.sender == piece.sender
                        && !last.fin
                        && last.at as usize + last.bytes.len() == piece.at as usize =>
                {
                    last.bytes.extend(&piece.bytes);
                    last.fin = piece.fin;
                }
                _ => segments.push(piece.clone()),
            }
        }
        check(&vector, &segments, "merged");
    }
}

/// Cut at random, with copies of what came before: alone, merged with what is new, and the one byte of a keep-alive probe.
#[test]
fn every_vector_in_random_cuts_with_copies() {
    for vector in cuttable() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut segments = Vec::new();
            for piece in &vector.segments {
                let mut rest = piece.clone();
                while rest.bytes.len() > 1 && !random.once_in(3) {
                    let at = 1 + random.below(rest.bytes.len() - 1);
                    let [first, second] = cut(&rest, at);
                    repeat(&mut segments, first, &mut random);
                    rest = second;
                }
                repeat(&mut segments, rest, &mut random);
            }
            check(&vector, &segments, &format!("in random cuts, seed {seed}"));
        }
    }
}

/// Adds a segment, perhaps with an older one of the same sender again.
fn repeat(segments: &mut Vec<Piece>, piece: Piece, random: &mut Random) {
    let earlier: Vec<_> = segments.iter().filter(|other| other.sender == piece.sender && !other.fin).cloned().collect();
    let mut piece = piece;
    if let Some(last) = earlier.last() {
        let follows = last.at as usize + last.bytes.len() == piece.at as usize;
        match random.below(8) {
            0 => segments.push(random.pick(&earlier).clone()),
            1 if follows => piece = Piece { at: last.at, bytes: [&last.bytes[..], &piece.bytes].concat(), ..piece },
            2 if piece.at > 0 => segments.push(Piece { at: piece.at - 1, bytes: vec![0], fin: false, ..piece }),
            _ => {}
        }
    }
    segments.push(piece);
}
