//! A claim's condition: an expression in CEL that has been parsed once, so that what is stored can be judged.

use cel::parser::Parser;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest condition, in bytes.
pub const LENGTH_MAX: usize = 2_000;
/// How deep brackets may nest. The parser recurses through its whole grammar at each level (about 200 KiB of stack in
/// a debug build), so the limit is checked before it starts, and it runs on a stack that has room for twice as much.
const DEPTH_MAX: usize = 16;
const PARSER_STACK_BYTES: usize = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Condition(String);

impl Condition {
    pub fn parse(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err("must not be empty; leave it out for a condition that is always met".into());
        }
        if text.len() > LENGTH_MAX {
            return Err(format!("must be at most {LENGTH_MAX} bytes"));
        }
        if depth(&text) > DEPTH_MAX {
            return Err(format!("must not nest brackets more than {DEPTH_MAX} deep"));
        }
        parse_on_a_large_stack(&text)?;
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The most brackets that are open at one place. Those inside a string count as well: a limit may be too strict.
fn depth(text: &str) -> usize {
    let mut open = 0_usize;
    let mut deepest = 0;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

fn parse_on_a_large_stack(text: &str) -> Result<(), String> {
    let parse = || match Parser::new().parse(text) {
        Ok(_) => Ok(()),
        Err(errors) => Err(format!("is not a CEL expression: {}", first_line(&errors.to_string()))),
    };
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES).spawn_scoped(scope, parse);
        let parser = parser.map_err(|_| String::from("cannot be checked now; try again"))?;
        parser.join().unwrap_or_else(|_| Err("is not a CEL expression that can be parsed".into()))
    })
}

/// The parser's report goes on with a drawing of the source line; the first line says what is wrong.
fn first_line(report: &str) -> &str {
    report.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it cannot be parsed")
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Condition;

    #[test]
    fn expressions() {
        for (text, parses) in [
            ("activity.LOGIN_COUNT >= 7", true),
            (r#"activity.LOGIN_COUNT >= 7 && activity.QUESTS.exists(q, q == "dragon")"#, true),
            ("", false),
            ("  ", false),
            ("activity.", false),
            ("1 +", false),
            ("a b", false),
            ("\"open", false),
            ("SELECT 1; DROP", false),
        ] {
            assert_eq!(Condition::parse(text).is_ok(), parses, "{text:?}");
        }
    }

    #[test]
    fn hostile_nesting_is_refused_and_not_fatal() {
        let deep = |open: &str, middle: &str, close: &str, times: usize| {
            format!("{}{middle}{}", open.repeat(times), close.repeat(times))
        };
        for text in [
            deep("(", "1", ")", super::DEPTH_MAX),
            deep("[1].map(x, ", "x", ")", super::DEPTH_MAX),
            deep("(", "1", ")", 999),
            deep("[", "", "]", 999),
            deep("{1:", "1", "}", 400),
            deep("!", "true", "", 1_900),
            deep("-", "1", "", 1_900),
            deep("a(", "1", ")", 600),
            deep("a[", "1", "]", 600),
            deep("true ? ", "1", " : 2", 150),
            deep("a.", "b", "", 990),
            deep("1+", "1", "", 990),
            deep("1?1:", "1", "", 450),
            deep("(", "", "", 2_000),
        ] {
            // The verdict is the parser's; what matters is that it gives one, on a small stack.
            let run =
                std::thread::Builder::new().stack_size(2 << 20).spawn(move || Condition::parse(text).is_ok());
            assert!(run.unwrap().join().is_ok());
        }
    }
}
