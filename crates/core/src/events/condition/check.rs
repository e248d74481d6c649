//! What a condition may say: names and functions that there are, operands that can fit, a result that can be true or
//! false, and no more of it than can be judged in bounded time and space.

use super::kind::Kind::{self, Bool, Bytes, Double, Dyn, Int, List, Null, Uint};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapExpr, operators};
use cel::parser::Expression;
use regex::RegexBuilder;
use std::fmt;

/// The name under which a condition finds the data.
pub(super) const ACTIVITY: &str = "activity";
/// The most parts of an expression, after macros such as `exists` were written out.
const NODES_MAX: usize = 500;
/// How deep an expression may nest. The interpreter recurses, and takes about 40 KiB of stack for each level in a
/// debug build; this keeps it near 1 MiB, so that it can run on a stack of 2 MiB.
const LEVELS_MAX: usize = 24;
/// How many loops (`exists`, `map` and so on) may run inside of each other.
const LOOPS_MAX: usize = 2;
/// How many fields in a row may be followed, and how deep the data may nest.
pub(super) const FIELDS_MAX: usize = 32;
/// The longest pattern for `matches`, in bytes, and the most that it may take in memory. It is compiled each time.
const PATTERN_LENGTH_MAX: usize = 200;
const PATTERN_SIZE_MAX: usize = 64 << 10;
/// How deep a pattern's groups may nest: compiling one recurses.
const PATTERN_LEVELS_MAX: u32 = 16;

pub(super) fn check(expression: &Expression) -> Result<(), String> {
    Size::default().add(expression, 1, 0)?;
    match Checker::default().kind(expression)? {
        Bool | Dyn => Ok(()),
        kind => Err(format!("must say true or false; it gives {kind}")),
    }
}

#[derive(Default)]
struct Size {
    nodes: usize,
}

impl Size {
    fn add(&mut self, expression: &Expression, levels: usize, loops: usize) -> Result<(), String> {
        let (root, fields) = path(expression);
        if fields.len() > FIELDS_MAX {
            return Err(format!("must not follow more than {FIELDS_MAX} fields in a row"));
        }
        // The interpreter looks a plain path up at once, and recurses through fields of anything else.
        let is_name = matches!(root.expr, Expr::Ident(_));
        let levels = if is_name { levels } else { levels + fields.len() };
        if levels > LEVELS_MAX {
            return Err(format!(
                "must not nest more than {LEVELS_MAX} levels deep; brackets can shorten a long sum"
            ));
        }
        self.nodes += fields.len() + 1;
        if self.nodes > NODES_MAX {
            return Err(format!("must have at most {NODES_MAX} parts"));
        }
        let mut inside = |part: &Expression| self.add(part, levels + 1, loops);
        match &root.expr {
            Expr::Call(call) => call.target.iter().map(Box::as_ref).chain(&call.args).try_for_each(inside),
            Expr::List(list) => list.elements.iter().try_for_each(inside),
            Expr::Map(map) => entries(map)?.into_iter().try_for_each(|(key, value)| {
                inside(key)?;
                inside(value)
            }),
            Expr::Comprehension(each) => {
                if loops == LOOPS_MAX {
                    return Err(format!("must not have more than {LOOPS_MAX} loops inside of each other"));
                }
                inside(&each.iter_range)?;
                inside(&each.accu_init)?;
                inside(&each.result)?;
                self.add(&each.loop_cond, levels + 1, loops + 1)?;
                self.add(&each.loop_step, levels + 1, loops + 1)
            }
            _ => Ok(()),
        }
    }
}

/// What fields are followed from, and the fields, the last one first: `a`, and `c` and `b`, of `a.b.c`.
pub(super) fn path(expression: &Expression) -> (&Expression, Vec<&str>) {
    let mut root = expression;
    let mut fields = Vec::new();
    while let Expr::Select(select) = &root.expr {
        fields.push(select.field.as_str());
        root = &select.operand;
    }
    (root, fields)
}

pub(super) fn entries(map: &MapExpr) -> Result<Vec<(&Expression, &Expression)>, String> {
    map.entries
        .iter()
        .map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => Ok((&entry.key, &entry.value)),
            EntryExpr::StructField(_) => Err("has fields where a map's entries belong".into()),
        })
        .collect()
}

/// The types that can be named, to be compared with what `type` gives.
const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

struct Function {
    name: &'static str,
    /// Whether it is called as `name(value)`.
    plain: bool,
    /// Whether it is called as `value.name()`.
    on_value: bool,
    /// What fits each argument; the value that it is called on comes first.
    takes: &'static [fn(&Kind) -> bool],
    gives: Kind,
}

const fn conversion(name: &'static str, takes: &'static [fn(&Kind) -> bool], gives: Kind) -> Function {
    Function { name, plain: true, on_value: false, takes, gives }
}

const fn of_texts(name: &'static str, plain: bool) -> Function {
    Function { name, plain, on_value: true, takes: &[Kind::is_text, Kind::is_text], gives: Bool }
}

/// What the interpreter has; a test asks it.
const FUNCTIONS: [Function; 13] = [
    Function { name: "size", plain: true, on_value: true, takes: &[Kind::has_size], gives: Int },
    of_texts("contains", false),
    of_texts("startsWith", false),
    of_texts("endsWith", false),
    of_texts(MATCHES, true),
    conversion("bool", &[Kind::can_be_bool], Bool),
    conversion("bytes", &[Kind::can_be_bytes], Bytes),
    conversion("double", &[Kind::can_be_number], Double),
    conversion("int", &[Kind::can_be_number], Int),
    conversion("uint", &[Kind::can_be_number], Uint),
    conversion("string", &[Kind::can_be_string], Kind::String),
    conversion("dyn", &[|_| true], Dyn),
    conversion("type", &[|_| true], Kind::Type),
];

pub(super) const MATCHES: &str = "matches";

/// A macro that is written wrongly is left as a call.
const MACROS: [(&str, &str); 7] = [
    ("has", "has(map.field)"),
    ("exists", "list.exists(x, test)"),
    ("all", "list.all(x, test)"),
    ("exists_one", "list.exists_one(x, test)"),
    ("existsOne", "list.existsOne(x, test)"),
    ("map", "list.map(x, value) or list.map(x, test, value)"),
    ("filter", "list.filter(x, test)"),
];

#[derive(Default)]
struct Checker<'a> {
    /// The variables of loops, the innermost last.
    scope: Vec<(&'a str, Kind)>,
}

impl<'a> Checker<'a> {
    fn kind(&mut self, expression: &'a Expression) -> Result<Kind, String> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Bool,
                LiteralValue::Bytes(_) => Bytes,
                LiteralValue::Double(_) => Double,
                LiteralValue::Int(_) => Int,
                LiteralValue::Null => Null,
                LiteralValue::String(_) => Kind::String,
                LiteralValue::UInt(_) => Uint,
            }),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => match self.kind(&select.operand)? {
                Kind::Map | Dyn if select.test => Ok(Bool),
                Kind::Map | Dyn => Ok(Dyn),
                kind => Err(format!("{kind} has no field {:?}", select.field)),
            },
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let kinds = self.kinds(&list.elements)?;
                Ok(List(Box::new(kinds.into_iter().reduce(Kind::or).unwrap_or(Dyn))))
            }
            Expr::Map(map) => {
                for (key, value) in entries(map)? {
                    let key = self.kind(key)?;
                    if !key.is_key() || key == Double {
                        return Err(format!("a map's key cannot be {key}"));
                    }
                    self.kind(value)?;
                }
                Ok(Kind::Map)
            }
            Expr::Comprehension(each) => self.each(each),
            Expr::Struct(literal) => Err(format!("unknown type {:?}", literal.type_name)),
            Expr::Unspecified => Err("is not a CEL expression".into()),
        }
    }

    fn kinds(&mut self, expressions: impl IntoIterator<Item = &'a Expression>) -> Result<Vec<Kind>, String> {
        expressions.into_iter().map(|expression| self.kind(expression)).collect()
    }

    fn name(&self, name: &str) -> Result<Kind, String> {
        match self.scope.iter().rev().find(|(bound, _)| *bound == name) {
            Some((_, kind)) => Ok(kind.clone()),
            None if name == ACTIVITY => Ok(Kind::Map),
            None if TYPES.contains(&name) => Ok(Kind::Type),
            None => Err(format!("unknown name {name:?}; only {ACTIVITY} is known")),
        }
    }

    /// Only macros make loops: each starts with an accumulator and changes it with every item.
    fn each(&mut self, each: &'a ComprehensionExpr) -> Result<Kind, String> {
        let item = match self.kind(&each.iter_range)? {
            List(item) => *item,
            Kind::Map | Dyn => Dyn,
            kind => return Err(format!("only a list or a map has items to go through, not {kind}")),
        };
        let accumulator = self.kind(&each.accu_init)?;
        let outside = self.scope.len();
        self.scope.push((&each.iter_var, item));
        self.scope.push((&each.accu_var, accumulator));
        self.kind(&each.loop_cond)?;
        let accumulator = self.kind(&each.loop_step)?;
        self.scope.push((&each.accu_var, accumulator));
        let result = self.kind(&each.result);
        self.scope.truncate(outside);
        result
    }

    fn call(&mut self, call: &'a CallExpr) -> Result<Kind, String> {
        let name = call.func_name.as_str();
        let arguments = || call.target.iter().map(Box::as_ref).chain(&call.args);
        let Some(symbol) = symbol(name) else {
            let function = function(call)?;
            let kinds = self.kinds(arguments())?;
            if !function.takes.iter().zip(&kinds).all(|(fits, kind)| fits(kind)) {
                return Err(does_not_take(name, &kinds));
            }
            if name == MATCHES {
                check_pattern(arguments().last())?;
            }
            return Ok(function.gives);
        };
        let kinds = self.kinds(arguments())?;
        // The test of a loop is an operand of what the macro made of it.
        let is_loop =
            arguments().any(|part| matches!(&part.expr, Expr::Ident(name) if name.starts_with('@')));
        let needs_test = |kind: &Kind| {
            if is_loop {
                format!("the test of a loop must say true or false; it gives {kind}")
            } else {
                format!("{symbol} needs bool, not {kind}")
            }
        };
        match (name, kinds.as_slice()) {
            (operators::CONDITIONAL, [test, one, other]) => {
                if test.is_test() {
                    Ok(one.clone().or(other.clone()))
                } else {
                    Err(needs_test(test))
                }
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, operands) => {
                match operands.iter().find(|operand| !operand.is_test()) {
                    None => Ok(Bool),
                    Some(operand) => Err(needs_test(operand)),
                }
            }
            (operators::NOT_STRICTLY_FALSE, _) => Ok(Bool),
            (operators::NEGATE, [operand]) if operand.is_signed() => Ok(operand.clone()),
            (operators::INDEX, [operand, index]) => indexed(operand, index),
            (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
                if one.may_equal(other) {
                    Ok(Bool)
                } else {
                    Err(format!("{symbol} compares {one} with {other}, which are never equal"))
                }
            }
            (operators::IN, [item, operand]) => match operand {
                List(items) if item.may_equal(items) => Ok(Bool),
                Kind::Map | Dyn if item.is_key() || *operand == Dyn => Ok(Bool),
                List(items) => Err(format!("{symbol} never finds {item} in a list of {items}")),
                _ => Err(does_not_take(symbol, &kinds)),
            },
            (_, [one, other]) => {
                let fits = match name {
                    operators::ADD => Kind::can_be_added,
                    operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE => Kind::is_number,
                    operators::MODULO => Kind::is_whole,
                    _ => Kind::has_order,
                };
                let is_order = is_order(name);
                let alike = if is_order { one.may_equal(other) } else { one.may_be_alike(other) };
                if !fits(one) || !fits(other) || !alike {
                    return Err(does_not_take(symbol, &kinds));
                }
                Ok(if is_order { Bool } else { one.clone().or(other.clone()) })
            }
            _ => Err(does_not_take(symbol, &kinds)),
        }
    }
}

fn indexed(operand: &Kind, index: &Kind) -> Result<Kind, String> {
    match operand {
        List(item) if index.is_number() => Ok(item.as_ref().clone()),
        Kind::Map | Dyn if index.is_key() => Ok(Dyn),
        List(_) | Kind::Map | Dyn => Err(format!("{operand} cannot be indexed by {index}")),
        _ => Err(format!("{operand} cannot be indexed")),
    }
}

fn is_order(operator: &str) -> bool {
    [operators::LESS, operators::LESS_EQUALS, operators::GREATER, operators::GREATER_EQUALS]
        .contains(&operator)
}

fn function(call: &CallExpr) -> Result<Function, String> {
    let name = call.func_name.as_str();
    if let Some((name, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
        return Err(format!("{name} is written as {usage}"));
    }
    let Some(function) = FUNCTIONS.into_iter().find(|function| function.name == name) else {
        return Err(format!("unknown function {name:?}"));
    };
    let on_value = call.target.is_some();
    if on_value && !function.on_value {
        return Err(format!("{name} is written as {name}(value)"));
    }
    if !on_value && !function.plain {
        return Err(format!("{name} is written as value.{name}(other)"));
    }
    let expected = function.takes.len() - usize::from(on_value);
    if call.args.len() != expected {
        let s = if expected == 1 { "" } else { "s" };
        return Err(format!("{name} takes {expected} argument{s}, not {}", call.args.len()));
    }
    Ok(function)
}

/// A pattern is compiled with each call, so it must be known beforehand and small.
fn check_pattern(pattern: Option<&Expression>) -> Result<(), String> {
    let Some(Expr::Literal(LiteralValue::String(pattern))) = pattern.map(|pattern| &pattern.expr) else {
        return Err("matches needs a pattern that is written out".into());
    };
    if pattern.len() > PATTERN_LENGTH_MAX {
        return Err(format!("matches needs a pattern of at most {PATTERN_LENGTH_MAX} bytes"));
    }
    let compiled =
        RegexBuilder::new(pattern).size_limit(PATTERN_SIZE_MAX).nest_limit(PATTERN_LEVELS_MAX).build();
    match compiled {
        Ok(_) => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => {
            Err("matches needs a smaller pattern; count less, or name characters instead of classes".into())
        }
        Err(error) => {
            let report = error.to_string();
            let reason = report.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            Err(format!("matches needs a valid pattern: {reason}"))
        }
    }
}

/// How an operator is written. What is none has its own name.
pub(super) fn symbol(name: &str) -> Option<&'static str> {
    Some(match name {
        operators::CONDITIONAL => "?:",
        operators::LOGICAL_AND => "&&",
        operators::LOGICAL_OR => "||",
        operators::LOGICAL_NOT => "!",
        operators::SUBSTRACT | operators::NEGATE => "-",
        operators::ADD => "+",
        operators::MULTIPLY => "*",
        operators::DIVIDE => "/",
        operators::MODULO => "%",
        operators::EQUALS => "==",
        operators::NOT_EQUALS => "!=",
        operators::GREATER_EQUALS => ">=",
        operators::LESS_EQUALS => "<=",
        operators::GREATER => ">",
        operators::LESS => "<",
        operators::IN => "in",
        operators::INDEX => "[]",
        operators::NOT_STRICTLY_FALSE => "a loop",
        _ => return None,
    })
}

pub(super) fn does_not_take(name: &str, kinds: &[impl fmt::Display]) -> String {
    let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
    format!("{name} does not take {}", kinds.join(" and "))
}
