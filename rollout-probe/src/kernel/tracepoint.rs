//! Field offsets of tracepoint records, from the kernel's own description: they differ between kernels.

use std::{fs, path::Path};

/// Offset of `sock_cookie` in a record of `tcp:tcp_receive_reset`, or why this kernel does not tell.
pub(super) fn reset_cookie_offset(tracefs: &Path) -> Result<u32, String> {
    let path = tracefs.join("events/tcp/tcp_receive_reset/format");
    let format = fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    match field(&format, "sock_cookie") {
        Some((offset, 8)) => Ok(offset),
        Some((_, size)) => Err(format!("`sock_cookie` in `{}` has {size} bytes, not 8", path.display())),
        None => Err(format!("no field `sock_cookie` in `{}`", path.display())),
    }
}

/// (offset, size) of the field `name`. A line reads `field:__u64 sock_cookie; offset:64; size:8; signed:0;`.
fn field(format: &str, name: &str) -> Option<(u32, u32)> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        if parts.next()?.split_whitespace().next_back()? != name {
            return None;
        }
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        Some((offset, size))
    })
}

#[cfg(test)]
mod tests {
    use super::{field, reset_cookie_offset};

    const FORMAT: &str = "name: tcp_receive_reset\nID: 1234\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:const void * skaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:__u8 saddr[4];\toffset:22;\tsize:4;\tsigned:0;\n\
        \tfield:__u64 sock_cookie;\toffset:64;\tsize:8;\tsigned:0;\n\nprint fmt: \"...\"\n";

    #[test]
    fn field_offset_comes_from_the_description() {
        assert_eq!(field(FORMAT, "sock_cookie"), Some((64, 8)));
        assert_eq!(field(FORMAT, "skaddr"), Some((8, 8)));
        assert_eq!(field(FORMAT, "cookie"), None);
        assert_eq!(field("field:x", "x"), None, "cut short");
    }

    #[test]
    fn missing_or_unknown_description_is_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let error = reset_cookie_offset(dir.path()).expect_err("nothing there");
        assert!(error.contains("tcp_receive_reset/format"), "{error}");
        let event = dir.path().join("events/tcp/tcp_receive_reset");
        std::fs::create_dir_all(&event).expect("made");
        std::fs::write(
            event.join("format"),
            FORMAT.replace("size:8;\tsigned:0;\n\nprint", "size:4;\tsigned:0;\n\nprint"),
        )
        .expect("written");
        let error = reset_cookie_offset(dir.path()).expect_err("wrong size");
        assert!(error.contains("has 4 bytes"), "{error}");
    }
}
