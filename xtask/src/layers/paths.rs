//! The paths a piece of Rust text names: `use` trees taken apart, and every `a::b` in the code. No parser: comments and
//! literals are blanked, and the rest is read word by word.

/// All paths with at least two segments, and every path of a `use`, in the order of the text.
pub(super) fn paths_in(text: &str) -> Vec<String> {
    let words = words_of(&code_of(text));
    let mut paths = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if words[at] == "use" {
            at = use_tree(&words, at + 1, "", &mut paths);
        } else if is_name(&words[at]) {
            let (path, next) = path_at(&words, at);
            at = next;
            if path.contains("::") {
                paths.push(path);
            }
        } else {
            at += 1;
        }
    }
    paths
}

/// Reads one `use` tree that starts at `at` under `prefix`, and says where it ends.
fn use_tree(words: &[String], mut at: usize, prefix: &str, paths: &mut Vec<String>) -> usize {
    let mut path = prefix.to_owned();
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "{" => {
                at = use_group(words, at + 1, &path, paths);
                return at;
            }
            "as" => at += 1, // and the alias, which is no part of the path
            "::" => path.push_str("::"),
            "," | "}" | ";" => break,
            name => path.push_str(name),
        }
        at += 1;
    }
    // `a::{self}` names `a`; a leading `::` says that the first name is a crate.
    let path = path.trim_start_matches("::");
    paths.push(path.strip_suffix("::self").unwrap_or(path).to_owned());
    at
}

fn use_group(words: &[String], mut at: usize, prefix: &str, paths: &mut Vec<String>) -> usize {
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "}" => return at + 1,
            "," => at += 1,
            ";" => return at,
            _ => at = use_tree(words, at, prefix, paths),
        }
    }
    at
}

fn path_at(words: &[String], mut at: usize) -> (String, usize) {
    let mut path = words[at].clone();
    while let [separator, name, ..] = &words[at + 1..]
        && separator == "::"
        && is_name(name)
    {
        path.push_str("::");
        path.push_str(name);
        at += 2;
    }
    (path, at + 1)
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphanumeric() || first == '_')
}

fn words_of(code: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for character in code.chars() {
        let in_name = |character: char| character.is_alphanumeric() || character == '_';
        match words.last_mut() {
            Some(word) if in_name(character) && in_name(last) => word.push(character),
            Some(word) if character == ':' && last == ':' && word == ":" => word.push(':'),
            _ if character.is_whitespace() => {}
            _ => words.push(character.to_string()),
        }
        last = character;
    }
    words
}

/// The text with comments and the insides of string literals gone. A raw string may hold quotes, so it ends at its own
/// mark; a quote character (`'"'`) opens nothing.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string_length(rest) {
            length
        } else if next == '"' {
            string_length(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').map_or(1, |end| end + 2)
        } else {
            code.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skipped..];
    }
    code
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> Option<usize> {
    let marks = text.strip_prefix('r')?;
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let body = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::paths_in;

    #[test]
    fn use_tree_gives_every_leaf() {
        assert_eq!(
            paths_in("use a::{self, b::{c, d as e}, f::*}; use g;"),
            ["a", "a::b::c", "a::b::d", "a::f::*", "g"],
            "a leaf is the whole path, without its alias"
        );
    }

    #[test]
    fn code_gives_paths_and_no_single_names() {
        assert_eq!(paths_in("let x: a::B = c::<d::E>(f);"), ["a::B", "d::E"]);
    }

    #[test]
    fn comments_and_literals_give_nothing() {
        let text = "/* a::b */ // c::d\n\"e::f \\\" g::h\" r#\"i::\"j\"# '\"' k::l '\\\"' m::n";
        assert_eq!(paths_in(text), ["k::l", "m::n"]);
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["use a::{b", "use", "\"a::b", "r#\"a", "/* a", "a::"] {
            paths_in(text);
        }
    }
}
