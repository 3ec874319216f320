//! Writes an archive in the format that Linux unpacks at boot: "newc" of cpio(5), `Documentation/driver-api/early-userspace/buffer-format.rst`.
//!
//! Everything in it is root's and without a date. Only directories, files and links; whoever adds a path adds those above it.

use std::io::{self, Write};

/// What the archive holds under a path.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Directory,
    /// Contents, and whether it can be run.
    File(&'a [u8], bool),
}

/// `S_IFDIR` and `S_IFREG` of `inode(7)`.
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

const MAGIC: &str = "070701";
const TRAILER: &str = "TRAILER!!!";

pub(super) struct Archive<W> {
    out: W,
    /// Each entry needs a number of its own, or the kernel takes it for a hard link.
    entries: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, entries: 0 }
    }

    /// Adds `path`, which begins without a slash.
    pub(super) fn add(&mut self, path: &str, node: &Node<'_>) -> io::Result<()> {
        match *node {
            Node::Directory => self.entry(path, DIRECTORY | 0o755, &[]),
            Node::File(contents, executable) => {
                self.entry(path, FILE | if executable { 0o755 } else { 0o644 }, contents)
            }
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.entry(TRAILER, 0, &[])?;
        self.out.flush()
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let size = u32::try_from(contents.len()).map_err(io::Error::other)?;
        let name_size = u32::try_from(path.len() + 1).map_err(io::Error::other)?;
        // inode, mode, uid, gid, links, mtime, size, device (2), device it stands for (2), size of the name, checksum
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        write!(self.out, "{MAGIC}")?;
        for field in fields {
            write!(self.out, "{field:08X}")?;
        }
        write!(self.out, "{path}\0")?;
        self.pad(MAGIC.len() + fields.len() * 8 + path.len() + 1)?;
        self.out.write_all(contents)?;
        self.pad(contents.len())
    }

    /// To the next multiple of four.
    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..written.wrapping_neg() % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::{Archive, Node};

    #[test]
    fn archive_has_header_name_and_contents_padded_to_four() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.add("a", &Node::Directory).expect("memory can be written");
        archive.add("a/b", &Node::File(b"hello", true)).expect("memory can be written");
        archive.finish().expect("memory can be written");
        let zeros = |fields: usize| "00000000".repeat(fields);
        let expected = [
            format!("07070100000001000041ED{}00000001{}00000002{}a\0", zeros(2), zeros(6), zeros(1)),
            format!("07070100000002000081ED{}000000010000000000000005{}00000004{}a/b\0", zeros(2), zeros(4), zeros(1)),
            "\0\0hello\0\0\0".to_owned(),
            format!("0707010000000300000000{}00000001{}0000000B{}TRAILER!!!\0", zeros(2), zeros(6), zeros(1)),
            "\0\0\0".to_owned(),
        ];
        assert_eq!(String::from_utf8(bytes).expect("all of it is text"), expected.concat());
    }
}
