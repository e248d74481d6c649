//! How much work a condition can be at most with given data, found out without doing it.
//!
//! The interpreter has no meter, and what it copies can grow with every loop (`x + x` doubles), so each part of the
//! expression is given a bound: how many items its value can have, and what the value weighs. A scalar weighs one,
//! text more, and a list or a map as much as what is in it and one.

use super::check::{ACTIVITY, FIELDS_MAX, MATCHES, entries, path};
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, operators};
use cel::parser::Expression;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The most work to judge a condition: parts that are looked at, and weight that is copied or compared.
pub(super) const WORK_MAX: u64 = 1_000_000;
/// The heaviest value that may come up on the way. It bounds memory: about 64 bytes for each, so a few megabytes.
pub(super) const WEIGHT_MAX: u64 = 100_000;
/// How many bytes of text weigh as much as a scalar.
const TEXT_BYTES: usize = 64;
/// What it takes to compile a pattern, and to look for it in that much text.
const PATTERN_WORK: u64 = 1_000;
const PATTERN_TEXT_WORK: u64 = 64;
/// A number can turn into a text of 330 bytes.
const NUMBER_TEXT_WEIGHT: u64 = 8;

pub(super) const TOO_MUCH: &str = "needs too much work";
const TOO_DEEP: &str = "cannot be judged: the data nests too deep";

pub(super) fn estimate(expression: &Expression, activity: &Map<String, Value>) -> Result<u64, &'static str> {
    let mut fields = HashMap::with_capacity(activity.len());
    let mut inside = Bound::default();
    let mut weight = 1;
    for (name, value) in activity {
        let key = text_weight(name.len());
        inside.raise(0, Level { items: 0, weight: key });
        let mut field = Bound::default();
        weight += key + field.measure(value, 0)?;
        inside = inside.or(&field);
        fields.insert(name.as_str(), field);
    }
    let whole = inside.within(Level { items: count(activity.len()), weight });
    let mut estimate = Estimate { whole, fields, scope: Vec::new(), work: 0 };
    estimate.bound(expression, 1)?;
    Ok(estimate.work)
}

#[derive(Clone, Copy)]
struct Level {
    items: u64,
    weight: u64,
}

impl Level {
    const SCALAR: Self = Self { items: 0, weight: 1 };

    fn or(self, other: Self) -> Self {
        Self { items: self.items.max(other.items), weight: self.weight.max(other.weight) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            items: self.items.saturating_add(other.items),
            weight: self.weight.saturating_add(other.weight),
        }
    }

    fn times(self, times: u64) -> Self {
        Self { items: self.items.saturating_mul(times), weight: self.weight.saturating_mul(times) }
    }
}

/// What holds for a value, then for everything in it, then for everything in that, and so on.
#[derive(Clone, Default)]
struct Bound(Vec<Level>);

impl Bound {
    fn scalar(weight: u64) -> Self {
        Self(vec![Level { items: 0, weight }])
    }

    fn top(&self) -> Level {
        self.0.first().copied().unwrap_or(Level::SCALAR)
    }

    fn weight(&self) -> u64 {
        self.top().weight
    }

    fn inside(&self, levels: usize) -> Self {
        Self(self.0.get(levels..).unwrap_or_default().to_vec())
    }

    fn within(mut self, top: Level) -> Self {
        self.0.insert(0, top);
        self
    }

    fn raise(&mut self, depth: usize, level: Level) {
        if self.0.len() <= depth {
            self.0.resize(depth + 1, Level::SCALAR);
        }
        self.0[depth] = self.0[depth].or(level);
    }

    /// A value that is one or the other.
    fn or(mut self, other: &Self) -> Self {
        for (depth, level) in other.0.iter().enumerate() {
            self.raise(depth, *level);
        }
        self
    }

    /// A value that has what both have.
    fn plus(&self, other: &Self) -> Self {
        self.inside(1).or(&other.inside(1)).within(self.top().plus(other.top()))
    }

    fn measure(&mut self, value: &Value, depth: usize) -> Result<u64, &'static str> {
        if depth >= FIELDS_MAX {
            return Err(TOO_DEEP);
        }
        let mut level = Level::SCALAR;
        match value {
            Value::String(text) => level.weight = text_weight(text.len()),
            Value::Array(list) => {
                level.items = count(list.len());
                for item in list {
                    level.weight += self.measure(item, depth + 1)?;
                }
            }
            Value::Object(map) => {
                level.items = count(map.len());
                for (name, item) in map {
                    let key = text_weight(name.len());
                    self.raise(depth + 1, Level { items: 0, weight: key });
                    level.weight += key + self.measure(item, depth + 1)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        self.raise(depth, level);
        Ok(level.weight)
    }
}

fn text_weight(bytes: usize) -> u64 {
    1 + count(bytes / TEXT_BYTES)
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

struct Estimate<'a> {
    whole: Bound,
    fields: HashMap<&'a str, Bound>,
    /// The variables of loops, the innermost last.
    scope: Vec<(&'a str, Bound)>,
    work: u64,
}

impl<'a> Estimate<'a> {
    fn charge(&mut self, times: u64, work: u64) -> Result<(), &'static str> {
        self.work = self.work.saturating_add(times.saturating_mul(work));
        if self.work > WORK_MAX { Err(TOO_MUCH) } else { Ok(()) }
    }

    /// The bound of what the expression gives, when it is evaluated so many times.
    fn bound(&mut self, expression: &'a Expression, times: u64) -> Result<Bound, &'static str> {
        let (root, fields) = path(expression);
        self.charge(times, count(fields.len()) + 1)?;
        let bound = match &root.expr {
            Expr::Ident(name) => return Ok(self.at(name, fields.as_slice())),
            Expr::Literal(LiteralValue::String(text)) => Bound::scalar(text_weight(text.len())),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Bound::scalar(text_weight(bytes.inner().len())),
            Expr::Call(call) => self.call(call, times)?,
            Expr::List(list) => self.built(list.elements.iter(), times)?,
            Expr::Map(map) => {
                let entries = entries(map).map_err(|_| TOO_MUCH)?;
                self.built(entries.into_iter().flat_map(<[&Expression; 2]>::from), times)?
            }
            Expr::Comprehension(each) => self.each(each, times)?,
            _ => Bound::scalar(1),
        };
        if bound.weight() > WEIGHT_MAX {
            return Err(TOO_MUCH);
        }
        Ok(bound.inside(fields.len()))
    }

    fn at(&self, name: &str, fields: &[&str]) -> Bound {
        match (self.scope.iter().rev().find(|(bound, _)| *bound == name), fields) {
            (Some((_, bound)), fields) => bound.inside(fields.len()),
            (None, []) if name == ACTIVITY => self.whole.clone(),
            (None, [rest @ .., field]) if name == ACTIVITY => {
                self.fields.get(field).map(|bound| bound.inside(rest.len())).unwrap_or_default()
            }
            _ => Bound::default(),
        }
    }

    /// A list or a map that is written out: whatever goes into it is copied.
    fn built(
        &mut self,
        parts: impl Iterator<Item = &'a Expression>,
        times: u64,
    ) -> Result<Bound, &'static str> {
        let mut top = Level::SCALAR;
        let mut inside = Bound::default();
        for part in parts {
            let part = self.bound(part, times)?;
            top = top.plus(Level { items: 1, weight: part.weight() });
            inside = inside.or(&part);
        }
        self.charge(times, top.weight)?;
        Ok(inside.within(top))
    }

    fn call(&mut self, call: &'a CallExpr, times: u64) -> Result<Bound, &'static str> {
        let mut operands = Vec::with_capacity(call.args.len() + 1);
        for operand in call.target.iter().map(Box::as_ref).chain(&call.args) {
            operands.push(self.bound(operand, times)?);
        }
        // An operator that refuses its operands copies them into its error.
        let touched = operands.iter().fold(0_u64, |sum, operand| sum.saturating_add(operand.weight()));
        match (call.func_name.as_str(), operands.as_slice()) {
            (operators::CONDITIONAL, [_, one, other]) => Ok(one.clone().or(other)),
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, _) => {
                Ok(Bound::scalar(1))
            }
            (operators::INDEX, [operand, index]) => {
                let plain = matches!(call.args[1].expr, Expr::Literal(_)) || self.is_activity(&call.args[0]);
                self.charge(times, if plain { index.weight() } else { touched })?;
                Ok(operand.inside(1))
            }
            (operators::IN, [item, list]) => {
                let compared = list.top().items.saturating_mul(item.weight());
                self.charge(times, touched.saturating_add(compared))?;
                Ok(Bound::scalar(1))
            }
            (operators::ADD, [one, other]) => {
                self.charge(times, touched)?;
                Ok(one.plus(other))
            }
            ("dyn", [operand]) => Ok(operand.clone()),
            ("string" | "bytes", [operand]) => {
                self.charge(times, touched)?;
                Ok(Bound::scalar(operand.weight().saturating_add(NUMBER_TEXT_WEIGHT)))
            }
            (MATCHES, _) => {
                let searching = touched.saturating_mul(PATTERN_TEXT_WORK);
                self.charge(times, PATTERN_WORK.saturating_add(searching))?;
                Ok(Bound::scalar(1))
            }
            _ => {
                self.charge(times, touched)?;
                Ok(Bound::scalar(1))
            }
        }
    }

    fn is_activity(&self, expression: &Expression) -> bool {
        let is_name = matches!(&expression.expr, Expr::Ident(name) if name == ACTIVITY);
        is_name && self.scope.iter().all(|(bound, _)| *bound != ACTIVITY)
    }

    fn each(&mut self, each: &'a ComprehensionExpr, times: u64) -> Result<Bound, &'static str> {
        let range = self.bound(&each.iter_range, times)?;
        let start = self.bound(&each.accu_init, times)?;
        // Each item is copied before it is looked at.
        self.charge(times, range.weight())?;
        let rounds = range.top().items;
        let inner = times.saturating_mul(rounds);
        let outside = self.scope.len();
        self.scope.push((&each.iter_var, range.inside(1)));
        self.scope.push((&each.accu_var, start));
        self.bound(&each.loop_cond, inner)?;
        let step = self.bound(&each.loop_step, inner)?;
        // `map` and `filter` add to an empty list in each round what they added in this one.
        let grows = matches!(each.accu_init.expr, Expr::List(_));
        let end =
            if grows { step.inside(1).within(Level::SCALAR.plus(step.top().times(rounds))) } else { step };
        self.scope.push((&each.accu_var, end));
        let result = self.bound(&each.result, times);
        self.scope.truncate(outside);
        result
    }
}
