//! Text that others wrote, made safe for a line of ours.

use std::path::Path;

/// Escapes whatever could break out of its line or change how the rest of it reads, and cuts the
/// result at `limit` characters.
///
/// Control characters, line and paragraph separators, bidirectional controls, whatever has no look of
/// its own and backslashes become `\n`, `\u{202e}` and the like.
pub fn for_display(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == limit {
            shown.push('…');
            break;
        }
        if c == '\\' || is_hostile(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A path as a word of a command for a person to run. What would not survive a terminal becomes `\xHH`, which
/// shells read between `$'` and `'`.
pub fn for_shell(path: &Path) -> String {
    let plain = |c: char| !is_hostile(c) && (c.is_alphanumeric() || "/._-+,:@%=".contains(c));
    match path.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Some(text) if !text.contains(is_hostile) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let bytes = path.as_os_str().as_encoded_bytes().iter();
            let escaped = bytes.map(|byte| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            });
            format!("$'{}'", escaped.collect::<String>())
        }
    }
}

/// Whether a character can break a line, drive a terminal, reorder text around it, or stand where nothing is
/// seen: Unicode's `Default_Ignorable_Code_Point`, the separators of lines, the marks of annotations and the
/// empty pattern of Braille.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Text of several lines with everything else escaped that could drive a terminal.
pub fn text_for_display(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_hostile(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Where a document is not as it should be. What serde_json itself says may quote what it read, and that
/// may be a file of the user's, or hold a password.
pub fn place_in_json(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_its_line() {
        assert_eq!(for_display("a\nb\u{1b}[0m\u{202e}\\", 99), "a\\nb\\u{1b}[0m\\u{202e}\\\\");
        assert_eq!(for_display("naïve—漢字🎉", 99), "naïve—漢字🎉");
    }

    #[test]
    fn nothing_is_there_and_not_seen() {
        for c in "\u{34f}\u{115f}\u{17b4}\u{180b}\u{200d}\u{2800}\u{3164}\u{fe0f}\u{ffa0}\u{1d173}\u{e0041}\u{e0100}\u{e01ef}".chars() {
            assert!(is_hostile(c), "{}", c.escape_unicode());
        }
    }

    #[test]
    fn a_path_is_one_word_of_a_command() {
        let word = |path: &str| for_shell(Path::new(path));
        assert_eq!(word("/home/é/.local"), "/home/é/.local");
        assert_eq!(word("/my images"), "'/my images'");
        assert_eq!(word("/a'b;$(c)"), r"'/a'\''b;$(c)'");
        assert_eq!(word("/a\u{3164}"), r"$'/a\xe3\x85\xa4'", "letters that are not seen");
        assert_eq!(word("/a\nb'\u{202e} \\"), r"$'/a\x0ab\'\xe2\x80\xae \\'");
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(for_display("ééé", 2), "éé…");
        assert_eq!(for_display("éé", 2), "éé");
    }
}
