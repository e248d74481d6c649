//! README.md in Korean says the same: the same commands, and the same figures in the same tables.

use std::path::Path;

const ENGLISH: &str = "README.md";
const KOREAN: &str = "README.ko.md";
const FIGURES: &str = "docs/figures.md";

/// A line of a document, and its number.
type Line<'t> = (usize, &'t str);

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// The lines of every block of commands, without what is said about them.
fn commands(text: &str) -> Vec<Line<'_>> {
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in lines(text) {
        match line.strip_prefix("```") {
            Some(kind) => inside = !inside && kind == "sh",
            None if inside => found.push((number, line.split(" # ").next().unwrap_or_default().trim_end())),
            None => {}
        }
    }
    found
}

/// The rows of every table, without the rule beneath its head.
fn tables(text: &str) -> Vec<Vec<Line<'_>>> {
    let mut found: Vec<Vec<Line<'_>>> = Vec::new();
    let mut last = 0;
    for (number, line) in lines(text).filter(|(_, line)| line.starts_with('|')) {
        if last + 1 != number {
            found.push(Vec::new());
        }
        last = number;
        if !line.starts_with("|---")
            && let Some(table) = found.last_mut()
        {
            table.push((number, line));
        }
    }
    found
}

/// The figures of each cell, in order of their size: another language may have another order of words.
fn figures(row: &str) -> Vec<Vec<String>> {
    let cell = |text: &str| {
        let is_of_figure = |character: char| character.is_ascii_digit() || ".,".contains(character);
        let parts = text.split(|character| !is_of_figure(character));
        let mut figures: Vec<_> = parts
            .map(|part| part.trim_matches(['.', ',']).to_owned())
            .filter(|part| !part.is_empty())
            .collect();
        figures.sort();
        figures
    };
    row.trim_matches('|').split('|').map(cell).collect()
}

#[test]
fn the_korean_readme_has_the_same_commands() {
    let (english, korean) = (document(ENGLISH), document(KOREAN));
    let (ours, theirs) = (commands(&english), commands(&korean));
    for ((number, command), (there, other)) in ours.iter().zip(&theirs) {
        assert_eq!(command, other, "{ENGLISH}:{number} and {KOREAN}:{there} are other commands");
    }
    assert_eq!(ours.len(), theirs.len(), "one of {ENGLISH} and {KOREAN} has commands that the other lacks");
    assert!(ours.len() > 10, "{ours:?}");
}

#[test]
fn the_korean_readme_has_the_same_figures() {
    let (english, korean) = (document(ENGLISH), document(KOREAN));
    let (ours, theirs) = (tables(&english), tables(&korean));
    let mut different = Vec::new();
    for (table, other) in ours.iter().zip(&theirs) {
        let (number, head) = table[0];
        assert_eq!(
            table.len(),
            other.len(),
            "the tables at {ENGLISH}:{number} and {KOREAN}:{} have other rows: {head}",
            other[0].0
        );
        for ((number, row), (there, translated)) in table.iter().zip(other) {
            if figures(row) != figures(translated) {
                different.push(format!("{ENGLISH}:{number}: {row}\n{KOREAN}:{there}: {translated}"));
            }
        }
    }
    let count = different.len();
    assert!(
        different.is_empty(),
        "{count} rows have other figures; put those of {ENGLISH} into {KOREAN}:\n\n{}",
        different.join("\n\n")
    );
    assert_eq!(ours.len(), theirs.len(), "one of {ENGLISH} and {KOREAN} has a table that the other lacks");
    assert!(ours.len() > 2);
}

/// README names a few figures out of many: whoever measures again changes them in both places.
#[test]
fn the_headlines_are_figures_of_the_page_that_explains_them() {
    let (readme, page) = (document(ENGLISH), document(FIGURES));
    let known: Vec<String> = lines(&page).flat_map(|(_, line)| figures(line)).flatten().collect();
    let headlines = tables(&readme).pop().expect("README has tables");
    let mut seen = 0;
    for (number, row) in headlines {
        // What a row is about stands in its first cell.
        for figure in figures(row).into_iter().skip(1).flatten() {
            assert!(known.contains(&figure), "{ENGLISH}:{number}: {figure} is not in {FIGURES}");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} figures");
}

#[test]
fn what_counts_as_a_figure() {
    for (row, expected) in [
        ("| a | 1 (93,012/s) | p50 / p99 |", vec![vec![], vec!["1", "93,012"], vec!["50", "99"]]),
        ("| 1.9 s, twice. | ≤ 13 ms |", vec![vec!["1.9"], vec!["13"]]),
    ] {
        assert_eq!(figures(row), expected);
    }
}
