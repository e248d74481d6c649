//! Figures as a table for people and as JSON for machines.

use serde::Serialize;
use std::path::Path;

/// Prints rows in columns, the first row being the heads.
pub(crate) fn print_table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        println!("{}", cells.join("  "));
    }
}

pub(crate) fn save<T: Serialize>(path: &Path, figures: &T) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = serde_json::to_string_pretty(figures)?;
    text.push('\n');
    std::fs::write(path, text)?;
    println!("saved as {}", path.display());
    Ok(())
}

/// The middle one of several measurements.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
