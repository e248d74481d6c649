//! A claim's condition: an expression in CEL that was checked when it was saved, so that it can be judged in bounded
//! time and space whatever the data.

mod check;
mod judge;
mod kind;
mod work;

pub use judge::{Compiled, Verdict};

use cel::parser::{Expression, Parser};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
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
        checked(&text)?;
        Ok(Self(text))
    }

    /// The form that can be judged again and again. Making it takes a thread with a large stack, judging does not; and
    /// what was stored is checked again, since the checks may have become stricter.
    pub fn compile(&self) -> Result<Compiled, String> {
        checked(&self.0).map(Compiled::new)
    }

    /// Compiles and judges once.
    pub fn judge(&self, activity: &Map<String, Value>) -> Verdict {
        match self.compile() {
            Ok(compiled) => compiled.judge(activity),
            Err(reason) => Verdict::Failed(reason),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn checked(text: &str) -> Result<Expression, String> {
    if text.trim().is_empty() {
        return Err("must not be empty; leave it out for a condition that is always met".into());
    }
    if text.len() > LENGTH_MAX {
        return Err(format!("must be at most {LENGTH_MAX} bytes"));
    }
    if depth(text) > DEPTH_MAX {
        return Err(format!("must not nest brackets more than {DEPTH_MAX} deep"));
    }
    on_a_large_stack(|| {
        let expression = Parser::new()
            .parse(text)
            .map_err(|errors| format!("is not a CEL expression: {}", first_line(&errors.to_string())))?;
        check::check(&expression)?;
        Ok(expression)
    })
}

/// What is known of somebody, in bytes of JSON.
pub const ACTIVITY_BYTES_MAX: usize = 64 << 10;

/// Whether what is to be known of somebody can be kept.
pub fn check_activity(activity: &Map<String, Value>) -> Result<(), String> {
    let bytes = serde_json::to_string(activity).map_or(usize::MAX, |text| text.len());
    if bytes > ACTIVITY_BYTES_MAX {
        return Err(format!("must have at most {ACTIVITY_BYTES_MAX} bytes of JSON"));
    }
    Ok(())
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

fn on_a_large_stack(parse: impl FnOnce() -> Result<Expression, String> + Send) -> Result<Expression, String> {
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
mod tests;
