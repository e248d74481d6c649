//! Whether what somebody has done meets a condition.

use super::check::{ACTIVITY, does_not_take, symbol};
use super::work;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use cel::parser::Expression;
use cel::{Context, Env, ExecutionError};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Met,
    NotMet,
    /// The data is not what the condition expects, or it would take too long to say.
    Failed(String),
}

/// A condition that is ready to be judged, by many at a time.
pub struct Compiled {
    expression: Expression,
    env: Arc<Env>,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

impl Compiled {
    /// The expression must have passed the checks: they keep it within the caller's stack.
    pub(super) fn new(expression: Expression) -> Self {
        let env = Env::default().with_optional_support(false).with_stdlib();
        Self { expression, env: Arc::new(env) }
    }

    pub fn judge(&self, activity: &Map<String, Value>) -> Verdict {
        if let Err(reason) = work::estimate(&self.expression, activity) {
            return Verdict::Failed(reason.into());
        }
        self.evaluate(Box::new(map_of(activity)))
    }

    pub(super) fn evaluate<'a>(&'a self, activity: Box<dyn Val + 'a>) -> Verdict {
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.add_variable_as_val(ACTIVITY, activity);
        match cel::Value::resolve_val(&self.expression, &context) {
            Ok(value) => match value.downcast_ref::<CelBool>().map(CelBool::inner) {
                Some(true) => Verdict::Met,
                Some(false) => Verdict::NotMet,
                None => {
                    let kind = value.get_type().name();
                    Verdict::Failed(format!("must say true or false; it gave {kind}"))
                }
            },
            // Somebody about whom a thing is not known, such as a count of what they never did, has not met what it asks.
            Err(ExecutionError::NoSuchKey(_)) => Verdict::NotMet,
            Err(error) => Verdict::Failed(reason(&error)),
        }
    }
}

/// Text is borrowed, so that copying a value does not copy it.
fn map_of(map: &Map<String, Value>) -> CelMap<'_> {
    let entries = map.iter().map(|(name, value)| (CelMapKey::String(name.as_str().into()), value_of(value)));
    CelMap::from(entries.collect::<HashMap<_, _>>())
}

fn value_of(value: &Value) -> Box<dyn Val + '_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => number_of(number),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(list) => Box::new(CelList::from(list.iter().map(value_of).collect::<Vec<_>>())),
        Value::Object(map) => Box::new(map_of(map)),
    }
}

/// A number beyond all doubles counts as infinite: it can still be compared.
fn number_of(number: &Number) -> Box<dyn Val + '_> {
    if let Some(value) = number.as_i64() {
        Box::new(CelInt::from(value))
    } else if let Some(value) = number.as_u64() {
        Box::new(CelUInt::from(value))
    } else {
        let value = number.as_f64().or_else(|| number.to_string().parse().ok());
        Box::new(CelDouble::from(value.unwrap_or(f64::NAN)))
    }
}

/// Says what went wrong without the data: the interpreter's own messages have whole values in them.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchOverload(overload) => {
            let name = match overload.function() {
                "_._" => ".",
                name => symbol(name).unwrap_or(name),
            };
            does_not_take(name, overload.argument_types())
        }
        ExecutionError::UnsupportedBinaryOperator(name, one, other) => {
            let name = match *name {
                "add" => "+",
                "sub" => "-",
                "mul" => "*",
                "div" => "/",
                "rem" => "%",
                name => name,
            };
            does_not_take(name, &[kind(one), kind(other)])
        }
        ExecutionError::ValuesNotComparable(one, other) => {
            format!("{} cannot be compared with {}", kind(one), kind(other))
        }
        ExecutionError::UnexpectedType { got, want } if want == "iterable" => {
            format!("only a list or a map has items to go through, not {got}")
        }
        ExecutionError::UnexpectedType { got, want } => format!("needs {want}, not {got}"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "divides by zero".into(),
        ExecutionError::Overflow(..) => "a number is too large to calculate with".into(),
        ExecutionError::IndexOutOfBounds(_) => "a list has no item at that index".into(),
        ExecutionError::UnsupportedIndex(..) => "an index must be a whole number".into(),
        ExecutionError::UnsupportedKeyType(value) => format!("a map's key cannot be {}", kind(value)),
        ExecutionError::DuplicateKey(_) => "a map has a key twice".into(),
        ExecutionError::FunctionError { function, message } => {
            format!("{function} failed: {}", message.lines().next().unwrap_or_default())
        }
        _ => "cannot be judged".into(),
    }
}

/// A value's kind by the name that it has everywhere else.
fn kind(value: &cel::Value) -> String {
    match value {
        cel::Value::Float(_) => "double".into(),
        value => value.type_of().to_string(),
    }
}
