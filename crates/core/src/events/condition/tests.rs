use super::{Compiled, Condition, Verdict, check, checked, work};
use cel::common::types::{CelList, CelMap, CelMapKey, INT_TYPE, Type};
use cel::common::value::Val;
use cel::parser::Parser;
use cel::{Context, ExecutionError};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use proptest::strategy::BoxedStrategy;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn data(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else { panic!("{value} is not an object") };
    map
}

fn judge(text: &str, activity: Value) -> Verdict {
    compile(text).judge(&data(activity))
}

fn compile(text: &str) -> Compiled {
    Condition::parse(text)
        .and_then(|condition| condition.compile())
        .unwrap_or_else(|e| panic!("{text:?}: {e}"))
}

/// As many levels of the same around something.
fn deep(open: &str, middle: &str, close: &str, times: usize) -> String {
    format!("{}{middle}{}", open.repeat(times), close.repeat(times))
}

fn on_a_stack_of<T: Send + 'static>(bytes: usize, run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(bytes).spawn(run).unwrap().join().unwrap()
}

#[test]
fn accepted() {
    for text in [
        "activity.LOGIN_COUNT >= 7",
        r#"activity.LOGIN_COUNT >= 7 && activity.QUESTS.exists(q, q == "dragon")"#,
        "true",
        "activity.X",
        "activity.X + 1",
        "-activity.X < 1.5",
        "has(activity.X) && !has(activity.Y.Z)",
        r#"activity["X"][0] == 1 || activity.X[activity.I] in [1, 2.0, "a"]"#,
        r#""X" in activity"#,
        "size(activity) > 1 && activity.size() > 1 && activity.LIST.size() > 1",
        "activity.A.all(a, a.B.exists_one(b, b.C in activity.D))",
        "activity.A.filter(a, a > 1).map(a, a * 2).existsOne(a, a == 4)",
        "activity.A.map(a, a > 1, a).size() == 2",
        "activity.exists(activity, activity == 1)",
        "[1, 2].exists(x, x + 1 == 3)",
        "[1].exists(int, int == 1)",
        r#"activity.NAME.matches("^[a-z]+$") || matches(activity.NAME, "^\\w+$")"#,
        r#"activity.NAME.startsWith("a") && activity.NAME.contains("b") && activity.NAME.endsWith("c")"#,
        r#"{"gold": 3, "silver": 2}[activity.TIER] <= activity.LEVEL"#,
        "activity.X == null || type(activity.X) == int",
        r#"int("7") + int(activity.X) >= 7 && double(1) < 2u && string(activity.X) != "" && bool("true")"#,
        "dyn(1) == dyn(\"a\")",
        "activity.X > 1 ? activity.Y : false",
        "1 < 2.0 && 1u <= 2 && \"a\" < \"b\" && false < true && b\"a\" < b\"b\"",
        "[] == [1] && [1] + [\"a\"] != []",
    ] {
        assert_eq!(Condition::parse(text).err(), None, "{text:?}");
    }
}

#[test]
fn refused() {
    let loops = "activity.A.exists(a, a.B.exists(b, b.C.exists(c, c == 1)))";
    let long_sum = format!("{}1 > 2", "1 + ".repeat(30));
    let long_path = format!("activity{}", ".a".repeat(33));
    let many = format!("[{}] == []", ["1"; 600].join(","));
    let long_pattern = format!(r#"activity.X.matches("{}")"#, "a".repeat(201));
    let deep_pattern = format!(r#"activity.X.matches("{}")"#, deep("(?:", "a", ")", 10));
    // Brackets that are escaped are not seen before the expression is parsed.
    let deeper_pattern = format!(r#"activity.X.matches("{}")"#, deep(r"\x28", "a", r"\x29", 17));
    assert!(Condition::parse(deep_pattern).is_ok());
    for (text, fragment) in [
        ("", "must not be empty"),
        ("  ", "must not be empty"),
        ("activity.", "is not a CEL expression"),
        ("1 +", "is not a CEL expression"),
        ("a b", "is not a CEL expression"),
        ("\"open", "is not a CEL expression"),
        ("SELECT 1; DROP", "is not a CEL expression"),
        ("activity.?X", "is not a CEL expression"),
        ("foo == 1", r#"unknown name "foo"; only activity is known"#),
        (".activity.X", "unknown name"),
        ("foo.bar.baz", r#"unknown name "foo""#),
        ("activity.A.exists(x, x == 1) && x == 1", r#"unknown name "x""#),
        ("now() > 1", r#"unknown function "now""#),
        ("activity.X.foo()", r#"unknown function "foo""#),
        ("optional.of(1) == 1", r#"unknown function "of""#),
        ("max(1, 2) == 2", r#"unknown function "max""#),
        ("timestamp(\"2026-01-01T00:00:00Z\") > activity.X", r#"unknown function "timestamp""#),
        ("Foo{a: 1} == 1", r#"unknown type "Foo""#),
        ("size() == 1", "size takes 1 argument, not 0"),
        ("activity.X.size(1) == 1", "size takes 0 arguments, not 1"),
        ("activity.X.int() == 1", "int is written as int(value)"),
        ("contains(\"a\", \"b\")", "contains is written as value.contains(other)"),
        ("activity.X.exists(x)", "exists is written as list.exists(x, test)"),
        ("exists(activity.X, x, true)", "exists is written as"),
        ("activity.X.exists(i, v, true)", "exists is written as"),
        ("has(activity.X, 1)", "has is written as has(map.field)"),
        ("has(activity)", "is not a CEL expression"),
        ("size(1) == 1", "size does not take int"),
        ("\"a\".contains(1)", "contains does not take string and int"),
        ("int([1]) == 1", "int does not take list"),
        ("1 + \"a\" == 1", "+ does not take int and string"),
        ("1 + 1.0 == 2.0", "+ does not take int and double"),
        ("activity.X + true", "+ does not take dyn and bool"),
        ("activity + activity", "+ does not take map and map"),
        ("\"a\" - \"b\" == 1", "- does not take string and string"),
        ("1.0 % 2.0 == 0.0", "% does not take double and double"),
        ("-true", "- does not take bool"),
        ("-(1u) == 1u", "- does not take uint"),
        ("!3", "! needs bool, not int"),
        ("\"a\" && true", "&& needs bool, not string"),
        ("activity.X || 1", "|| needs bool, not int"),
        ("1 ? true : false", "?: needs bool, not int"),
        ("activity.X.all(x, 1)", "the test of a loop must say true or false; it gives int"),
        ("activity.X.filter(x, \"a\").size() == 1", "the test of a loop"),
        ("1 < \"a\"", "< does not take int and string"),
        ("[1] < [2]", "< does not take list and list"),
        ("null >= null", ">= does not take null and null"),
        ("activity < 1", "< does not take map and int"),
        ("1 == \"a\"", "== compares int with string, which are never equal"),
        ("activity.X in 1", "in does not take dyn and int"),
        ("\"a\" in [1, 2]", "in never finds string in a list of int"),
        ("[1] in activity", "in does not take list and map"),
        ("1[0] == 1", "int cannot be indexed"),
        ("\"a\"[0] == \"a\"", "string cannot be indexed"),
        ("[1][\"a\"] == 1", "list cannot be indexed by string"),
        ("activity[null] == 1", "map cannot be indexed by null"),
        ("[1].a == 1", r#"list has no field "a""#),
        ("has(\"a\".b)", r#"string has no field "b""#),
        ("\"abc\".exists(x, true)", "only a list or a map has items to go through, not string"),
        ("{1.0: 1} == activity", "a map's key cannot be double"),
        ("7", "must say true or false; it gives int"),
        ("\"x\"", "must say true or false; it gives string"),
        ("null", "it gives null"),
        ("int", "it gives type"),
        ("activity", "it gives map"),
        ("size(activity)", "must say true or false; it gives int"),
        ("activity.X.map(x, x)", "it gives list"),
        ("activity.X.matches(activity.Y)", "matches needs a pattern that is written out"),
        ("activity.X.matches(\"a\" + \"b\")", "matches needs a pattern that is written out"),
        ("activity.X.matches(\"(\")", "matches needs a valid pattern: unclosed group"),
        ("activity.X.matches(\"\\\\w{100}\")", "matches needs a smaller pattern"),
        (deeper_pattern.as_str(), "matches needs a valid pattern"),
        (long_pattern.as_str(), "at most 200 bytes"),
        (loops, "must not have more than 2 loops inside of each other"),
        (long_sum.as_str(), "must not nest more than 24 levels deep"),
        (long_path.as_str(), "must not follow more than 32 fields in a row"),
        (many.as_str(), "must have at most 500 parts"),
    ] {
        let reason = Condition::parse(text).expect_err(text);
        assert!(reason.contains(fragment), "{text:?}: {reason}");
        assert!(!reason.ends_with('.') && !reason.contains('\n'), "{text:?}: {reason}");
    }
}

/// Tries every operator and function on every kind of value: what the checker lets pass, the interpreter takes, and
/// the other way round but for a few that can be evaluated and make no sense.
#[test]
fn the_checker_and_the_interpreter_agree() {
    const VALUES: [&str; 10] =
        ["true", "1", "1u", "1.0", "\"1\"", "b\"1\"", "null", "[1]", "{\"a\": 1}", "type(1)"];
    const BINARY: [&str; 14] = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"];
    let mut calls = Vec::new();
    for one in VALUES {
        calls.extend(["!", "-"].map(|operator| (operator, format!("{operator}({one})"))));
        calls.push((".", format!("({one}).a")));
        calls.push((".", format!("has(({one}).a)")));
        calls.push(("each", format!("({one}).exists(x, true)")));
        for name in ["size", "bool", "bytes", "double", "int", "uint", "string", "dyn", "type"] {
            calls.push((name, format!("{name}({one})")));
        }
        calls.push(("size", format!("({one}).size()")));
        calls.push(("matches", format!("matches({one}, \"1\")")));
        for other in VALUES {
            calls.extend(BINARY.map(|operator| (operator, format!("({one}) {operator} ({other})"))));
            calls.push(("[]", format!("({one})[{other}]")));
            calls.push(("{}", format!("{{{one}: {other}}}")));
            calls.push(("?:", format!("({one}) ? ({other}) : 1")));
            for name in ["contains", "startsWith", "endsWith"] {
                calls.push((name, format!("({one}).{name}({other})")));
            }
        }
    }
    for (operator, call) in calls {
        let whole = format!("[{call}].size() == 1");
        let expression = Parser::new().parse(&whole).unwrap();
        let passes = check::check(&expression).is_ok();
        let context = Context::default();
        let takes = !matches!(
            cel::Value::resolve(&expression, &context),
            Err(ExecutionError::NoSuchOverload(_)
                | ExecutionError::UnsupportedBinaryOperator(..)
                | ExecutionError::UndeclaredReference(_)
                | ExecutionError::UnsupportedKeyType(_)
                | ExecutionError::UnexpectedType { .. })
        );
        let is_pointless = matches!(operator, "==" | "!=" | "in" | "&&" | "||")
            || call.starts_with("([1]) + ({")
            || call.ends_with("[type(1)]");
        assert!(passes == takes || (takes && is_pointless), "{call}: passes {passes}, takes {takes}");
    }
}

#[test]
fn verdicts() {
    use Verdict::{Met, NotMet};
    let failed = |reason: &str| Verdict::Failed(reason.into());
    let count = |number: &str| serde_json::from_str(&format!(r#"{{"N": {number}}}"#)).unwrap();
    for (text, activity, verdict) in [
        ("activity.N >= 7", count("7"), Met),
        ("activity.N >= 7", count("7.0"), Met),
        ("activity.N >= 7", count("6.99"), NotMet),
        ("activity.N >= 7", count("6"), NotMet),
        ("activity.N == 7", count("7.0"), Met),
        ("activity.N == 7", count("7e0"), Met),
        ("activity.N >= 7", count("18446744073709551615"), Met),
        ("activity.N >= 7", count("123456789012345678901234567890"), Met),
        ("activity.N >= 7", count("1e999"), Met),
        ("activity.N >= 7", count("-1e999"), NotMet),
        ("activity.N == 9223372036854775807", count("9223372036854775807"), Met),
        ("activity.N == 18446744073709551615u", count("18446744073709551615"), Met),
        ("activity.N in [1, 7]", count("7.0"), Met),
        ("activity.N >= 7", count("\"7\""), failed(">= does not take string and int")),
        ("activity.N >= 7", count("null"), failed(">= does not take null_type and int")),
        ("activity.N >= 7", count("[7]"), failed(">= does not take list and int")),
        ("activity.N", count("true"), Met),
        ("activity.N", count("7"), failed("must say true or false; it gave int")),
        ("activity.N + 1", count("7"), failed("must say true or false; it gave int")),
        ("activity.N + 1 > 1", count("7.0"), failed("+ does not take double and int")),
        (
            "activity.N + 1 > 1",
            count("9223372036854775807"),
            failed("a number is too large to calculate with"),
        ),
        ("1 / activity.N > 1", count("0"), failed("divides by zero")),
        ("1 % activity.N > 1", count("0"), failed("divides by zero")),
        ("activity.N[0] == 1", count("[]"), failed("a list has no item at that index")),
        ("[1][activity.N] == 1", count("0.5"), failed("an index must be a whole number")),
        ("activity.N.X == 1", count("1"), failed(". does not take int and string")),
        (
            "activity.N.exists(x, x == 1)",
            count("1"),
            failed("only a list or a map has items to go through, not int"),
        ),
        (
            "int(activity.N) == 1",
            count("\"a\""),
            failed("int failed: string parse error: invalid digit found in string"),
        ),
        ("activity.N && true", count("1"), failed("&& does not take int and bool")),
        ("!activity.N", count("1"), failed("! does not take int")),
        ("activity.X >= 7", json!({}), NotMet),
        ("activity.X < 7", json!({}), NotMet),
        ("!activity.X", json!({}), NotMet),
        ("activity[\"X\"] >= 7", json!({}), NotMet),
        ("activity.X.Y.Z >= 7", json!({"X": {}}), NotMet),
        ("activity.X.exists(x, x.Y > 1)", json!({"X": [{}, {"Y": 1}]}), NotMet),
        ("activity.X.exists(x, x.Y > 1)", json!({"X": [{}, {"Y": 2}]}), Met),
        ("activity.X >= 7 || activity.Y >= 7", json!({"Y": 7}), Met),
        ("activity.Y >= 7 || activity.X >= 7", json!({"Y": 7}), Met),
        ("!has(activity.X) || activity.X >= 7", json!({}), Met),
        ("has(activity.X) && activity.X == null", json!({"X": null}), Met),
        ("activity.Q.exists(q, q == \"dragon\")", json!({"Q": ["hydra", "dragon"]}), Met),
        ("activity.Q.exists(q, q == \"dragon\")", json!({"Q": []}), NotMet),
        ("activity.Q.all(q, q in activity.R)", json!({"Q": ["a"], "R": {"a": 1}}), Met),
        ("activity.Q.filter(q, q > 1).size() == 2", json!({"Q": [1, 2, 3]}), Met),
        ("activity.Q.map(q, q * 2) == [2, 4]", json!({"Q": [1, 2]}), Met),
        ("activity.Q.exists_one(q, q == 1)", json!({"Q": [1, 1]}), NotMet),
        ("activity.exists(k, k.startsWith(\"BOSS_\") && activity[k] > 3)", json!({"BOSS_1": 4}), Met),
        ("activity.NAME.matches(\"^[a-z]{3}$\")", json!({"NAME": "abc"}), Met),
        ("activity.NAME.size() == 3", json!({"NAME": "가나다"}), Met),
        ("true", json!({}), Met),
        ("false", json!({}), NotMet),
    ] {
        let found = judge(text, activity.clone());
        assert_eq!(found, verdict, "{text:?} with {activity}");
        assert_eq!(Condition(text.into()).judge(&data(activity)), found);
    }
}

#[test]
fn what_was_stored_is_checked_again() {
    let stored: Condition = serde_json::from_value(json!("foo > 1")).unwrap();
    let reason = String::from(r#"unknown name "foo"; only activity is known"#);
    assert_eq!(stored.compile().unwrap_err(), reason);
    assert_eq!(stored.judge(&Map::new()), Verdict::Failed(reason));
}

#[test]
fn one_compiled_condition_serves_many_threads() {
    let compiled = compile("activity.N >= 3");
    let met = std::thread::scope(|scope| {
        let judges: Vec<_> = (0..6)
            .map(|n| {
                let compiled = &compiled;
                scope.spawn(move || compiled.judge(&data(json!({"N": n}))) == Verdict::Met)
            })
            .collect();
        judges.into_iter().filter_map(|judge| judge.join().unwrap().then_some(())).count()
    });
    assert_eq!(met, 3);
}

#[test]
fn hostile_nesting_is_refused_and_not_fatal() {
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
        on_a_stack_of(2 << 20, move || Condition::parse(text).is_ok());
    }
}

/// The deepest expressions of each form that pass, with the deepest data: judging has to leave room on a stack of
/// 2 MiB, in a debug build too.
#[test]
fn whatever_passes_can_be_judged_on_a_small_stack() {
    let nested =
        (0..30).fold(json!(1), |inner, n| if n % 2 == 0 { json!({"a": inner}) } else { json!([inner]) });
    let activity = data(json!({"A": nested, "N": 1, "S": "a", "T": true, "L": [1]}));
    let forms: [fn(usize) -> String; 17] = [
        |n| format!("[activity, activity].size(){} > 0", " + 1".repeat(n)),
        |n| format!("(activity.N + dyn(activity) == 1){} || true", " == true".repeat(n)),
        |n| deep("!(", &format!("activity.S.matches(\"{}\")", deep(r"\x28", "a", r"\x29*", 7)), ")", n),
        |n| format!("{}.size() > 0", deep("[", "activity, activity == activity", "]", n)),
        |n| format!("{}.size() > 0", deep("{1: ", "activity", "}", n)),
        |n| format!("[activity]{}.size() > 0", ".map(x, x)".repeat(n)),
        |n| format!("[activity]{}.size() > 0", ".filter(x, x == activity)".repeat(n)),
        |n| format!("[activity]{} == 1", "[0]".repeat(n)),
        |n| format!("[activity][0]{} == 1", ".A".repeat(n)),
        |n| format!("activity.A{} == 1", ".a".repeat(n)),
        |n| deep("!", "(activity == activity)", "", n),
        |n| deep("!(", "activity == activity", ")", n),
        |n| deep("(activity.T && ", "activity == activity", ")", n),
        |n| deep("(activity.T ? ", "activity == activity", ": false)", n),
        |n| format!("{} == 1", deep("int(", "activity.N", ")", n)),
        |n| {
            format!(
                "activity.L.all(x, activity.L.all(y, {}))",
                deep("!(", "[activity] == [activity]", ")", n)
            )
        },
        |n| {
            format!(
                "activity.L.all(x, activity.L.map(y, [activity, {}]).size() > 0)",
                deep("[", "activity", "]", n)
            )
        },
    ];
    for form in forms {
        let deepest = (0..64).rev().map(form).find_map(|text| {
            Condition::parse(text.clone()).ok().map(|condition| (text, condition.compile().unwrap()))
        });
        let (text, compiled) = deepest.unwrap();
        let activity = activity.clone();
        let verdict = on_a_stack_of(5 << 18, move || compiled.judge(&activity));
        assert!(
            !matches!(&verdict, Verdict::Failed(reason) if reason == work::TOO_MUCH),
            "{text}: {verdict:?}"
        );
    }
}

#[test]
fn data_that_nests_too_deep_fails() {
    let nested = (0..40).fold(json!(1), |inner, _| json!([inner]));
    let verdict = judge("activity.N == 1", json!({"N": 1, "A": nested}));
    assert_eq!(verdict, Verdict::Failed("cannot be judged: the data nests too deep".into()));
}

#[test]
fn what_needs_too_much_work_is_not_started() {
    let numbers: Vec<i64> = (0..32_000).map(|n| n % 10).collect();
    let doubling = format!("[activity.TEXT]{}.size() == 1", ".map(x, x + x)".repeat(16));
    let growing = format!("[[1]]{}.size() == 1", ".map(x, x + x + x + x + x)".repeat(9));
    let text = "a".repeat(60_000);
    let activity = json!({"L": numbers, "TEXT": text, "FEW": [1, 2, 3], "TEXTS": vec!["abc"; 2_000]});
    for (text, verdict) in [
        ("activity.L.exists(x, x == 11)", Some(Verdict::NotMet)),
        ("activity.L.exists(x, x > 8) && size(activity.L) == 32000", Some(Verdict::Met)),
        ("11 in activity.L", Some(Verdict::NotMet)),
        ("activity.FEW.all(x, activity.FEW.exists(y, x == y))", Some(Verdict::Met)),
        ("activity.FEW.all(x, x in activity.L)", Some(Verdict::Met)),
        ("activity.TEXT.matches(\"^a+$\")", Some(Verdict::Met)),
        ("activity.TEXT.matches(\"(a|b)*a(a|b){100}c\")", Some(Verdict::NotMet)),
        (
            "activity.TEXTS.filter(x, x == \"abc\").map(x, x + \"d\").exists(x, x == \"abcd\")",
            Some(Verdict::Met),
        ),
        ("activity.L.exists(x, activity.L.exists(y, x + y == 100))", None),
        ("activity.L.map(x, activity.L).size() == 1", None),
        ("activity.L.all(x, x in activity.L)", None),
        ("activity.L.map(x, activity.TEXT).size() == 1", None),
        ("activity.L.map(x, activity.TEXT + activity.TEXT).size() == 1", None),
        ("activity.TEXTS.all(x, x.matches(\"a\"))", None),
        (doubling.as_str(), None),
        (growing.as_str(), None),
    ] {
        let expected = verdict.unwrap_or(Verdict::Failed(work::TOO_MUCH.into()));
        assert_eq!(judge(text, activity.clone()), expected, "{text:?}");
    }
}

/// Stands for a number, and counts how often it is copied or compared.
#[derive(Clone, Debug)]
struct Counted(Arc<AtomicU64>);

impl Val for Counted {
    fn get_type(&self) -> &Type {
        &INT_TYPE
    }

    fn cel_type() -> &'static Type {
        &INT_TYPE
    }

    fn equals(&self, _: &dyn Val) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::new(self.clone())
    }
}

/// For each expression the longest list that is let pass is found; judging it ends, and does no more than was estimated.
#[test]
fn the_heaviest_that_passes_ends_within_the_estimated_work() {
    for text in [
        "activity.L.exists(x, x != x)",
        "activity.L.all(x, activity.L.all(y, x == y))",
        "activity.L.all(x, activity.L.exists_one(y, x == y) || true)",
        "activity.L.all(x, [x, x, x] == [x, x, x])",
        "activity.L.all(x, activity.L == activity.L)",
        "activity.L.all(x, x in activity.L && activity.L in [[x], activity.L])",
        "activity.L.map(x, activity.L).size() > 0",
        "activity.L.map(x, activity.L + activity.L).size() > 0",
        "activity.L.map(x, activity.L.map(y, [x, y])).size() > 0",
        "activity.L.filter(x, activity.L.filter(y, x == y).size() > 0).size() > 0",
        "[activity.L].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x)[0].size() > 0",
        "[activity, activity, [activity, {1: activity}]] == [activity, activity, [activity, {1: activity}]]",
        "activity == activity && activity.L == activity.L",
        "activity.L.map(x, activity.L)[0].map(x, activity.L)[0] == activity.L",
    ] {
        let compiled = compile(text);
        let expression = checked(text).unwrap();
        let list = |n: usize| data(json!({"L": vec![7; n]}));
        let (mut passes, mut fails) = (1, 32_768);
        while fails - passes > 1 {
            let middle = usize::midpoint(passes, fails);
            if work::estimate(&expression, &list(middle)).is_ok() { passes = middle } else { fails = middle }
        }
        let estimated = work::estimate(&expression, &list(passes)).unwrap();
        assert!(estimated <= work::WORK_MAX);
        assert!(!matches!(compiled.judge(&list(passes)), Verdict::Failed(_)), "{text}");

        let counter = Arc::new(AtomicU64::new(0));
        let items: Vec<Box<dyn Val>> =
            (0..passes).map(|_| Box::new(Counted(Arc::clone(&counter))) as _).collect();
        let list: Box<dyn Val> = Box::new(CelList::from(items));
        let activity = HashMap::from([(CelMapKey::String("L".into()), list)]);
        compiled.evaluate(Box::new(CelMap::from(activity)));
        let done = counter.load(Ordering::Relaxed);
        assert!(done > 0 && done <= estimated, "{text}: {done} of {estimated} with {passes} items");
    }
}

const TOKENS: [&str; 44] = [
    "activity",
    ".",
    "A",
    "B",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    " in ",
    "1",
    "2u",
    "1.5",
    "\"a\"",
    "'",
    "b'x'",
    "null",
    "true",
    ".exists(x, ",
    ".map(x, ",
    ".all(x, ",
    ".filter(x, ",
    "has(",
    "size(",
    "x",
    "@",
    "`",
    "9223372036854775807",
];

/// Expressions whose parts the checker knows nothing about, so that most of them come to be judged.
fn texts() -> BoxedStrategy<String> {
    const LEAVES: [&str; 16] = [
        "activity",
        "activity.A",
        "activity.A.B",
        "activity.L",
        "activity.L[0]",
        "1",
        "0",
        "2u",
        "1.5",
        "\"a\"",
        "true",
        "null",
        "[]",
        "{}",
        "int",
        "9223372036854775807",
    ];
    let leaf = prop::sample::select(LEAVES.to_vec()).prop_map(|leaf| format!("dyn({leaf})"));
    let whole = leaf.prop_recursive(3, 40, 3, |inner| {
        let operators = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"];
        let functions = ["size", "int", "string", "double", "uint", "bool", "type", "!", "-"];
        let loops = ["exists", "all", "map", "filter", "exists_one"];
        let (one, two) = (inner.clone(), (inner.clone(), inner.clone()));
        let operator = (prop::sample::select(operators.to_vec()), two.clone());
        let function = (prop::sample::select(functions.to_vec()), one.clone());
        let each = (prop::sample::select(loops.to_vec()), two.clone());
        let compound = prop_oneof![
            4 => operator.prop_map(|(operator, (a, b))| format!("{a} {operator} {b}")),
            2 => function.prop_map(|(function, a)| format!("{function}({a})")),
            3 => each.prop_map(|(each, (a, b))| format!("{a}.{each}(x, {})", b.replace("activity.A", "x"))),
            1 => two.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
            1 => two.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
            1 => two.clone().prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            1 => (one.clone(), two).prop_map(|(a, (b, c))| format!("{a} ? {b} : {c}")),
            1 => one.prop_map(|a| format!("has({a}.A)")),
        ];
        compound.prop_map(|text| format!("dyn({text})"))
    });
    prop_oneof![whole.clone(), (whole.clone(), whole).prop_map(|(a, b)| format!("{a} == {b}"))].boxed()
}

fn any_data() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            (inner.clone(), inner).prop_map(|(a, b)| json!({"A": a, "B": b})),
        ]
    });
    (value.clone(), value).prop_map(|(a, l)| json!({"A": a, "L": l})).boxed()
}

proptest! {
    #[test]
    fn garbage_is_refused_or_judged(
        tokens in prop::collection::vec(prop::sample::select(TOKENS.to_vec()), 0..60),
        activity in any_data(),
    ) {
        Condition(tokens.concat()).judge(&data(activity));
    }

    #[test]
    fn any_text_is_refused_or_judged(text in "\\PC{0,300}") {
        Condition(text).judge(&Map::new());
    }

    #[test]
    fn expressions_are_refused_or_judged(text in texts(), activity in any_data()) {
        Condition(text).judge(&data(activity));
    }
}
