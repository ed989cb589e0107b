//! Text that others wrote, made safe for a line of ours.

/// Escapes whatever could break out of its line or change how the rest of it reads, and cuts the
/// result at `limit` characters.
///
/// Control characters, line and paragraph separators, bidirectional controls, other invisible
/// format characters and backslashes become `\n`, `\u{202e}` and the like.
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

/// Whether a character can break a line, drive a terminal or reorder text around it.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_its_line() {
        assert_eq!(for_display("a\nb\u{1b}[0m\u{202e}\\", 99), "a\\nb\\u{1b}[0m\\u{202e}\\\\");
        assert_eq!(for_display("naïve—漢字🎉", 99), "naïve—漢字🎉");
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(for_display("ééé", 2), "éé…");
        assert_eq!(for_display("éé", 2), "éé");
    }
}
