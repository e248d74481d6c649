//! The figures as a picture.

use super::Figure;
use std::fmt::Write;
use std::path::Path;

const LEFT: f64 = 190.0;
const WIDTH: f64 = 420.0;
const BAR: f64 = 13.0;
const COLOURS: [&str; 2] = ["#2f6f4f", "#8fbfa3"];

/// Bars for each target: its throughput against that of the handler that does nothing, with plenty of stock.
pub(super) fn save(path: &Path, figures: &[Figure]) -> Result<(), Box<dyn std::error::Error>> {
    let Some(stock) = figures.iter().map(|figure| figure.stock).max() else { return Ok(()) };
    let shown: Vec<_> = figures.iter().filter(|figure| !figure.open_loop && figure.stock == stock).collect();
    let (mut names, mut crowds) = (Vec::new(), Vec::new());
    for figure in &shown {
        if !names.contains(&figure.target) {
            names.push(figure.target.clone());
        }
        if !crowds.contains(&figure.connections) {
            crowds.push(figure.connections);
        }
    }
    let scale = shown.iter().map(|figure| figure.ratio).fold(1.0, f64::max);
    let mut bars = String::new();
    let mut top = 46.0;
    for name in &names {
        let of_target = shown.iter().filter(|figure| figure.target == *name);
        let first = top;
        for figure in of_target {
            let colour =
                crowds.iter().position(|crowd| *crowd == figure.connections).unwrap_or(0) % COLOURS.len();
            let length = figure.ratio / scale * WIDTH;
            writeln!(
                bars,
                r#"<rect x="{LEFT}" y="{top}" width="{length:.1}" height="{BAR}" fill="{}"/><text x="{:.1}" y="{:.1}">{:.2}</text>"#,
                COLOURS[colour],
                LEFT + length + 6.0,
                top + BAR - 2.5,
                figure.ratio
            )?;
            top += BAR + 1.0;
        }
        let middle = f64::midpoint(first, top) + 4.0;
        writeln!(bars, r#"<text x="{}" y="{middle:.1}" text-anchor="end">{name}</text>"#, LEFT - 8.0)?;
        top += 9.0;
    }
    let crowds: Vec<_> = crowds.iter().map(usize::to_string).collect();
    let svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{height:.0}" font-family="sans-serif" font-size="12" fill="#222">
<rect width="100%" height="100%" fill="#fff"/>
<text x="12" y="20" font-size="14">Applications to a drop, against a handler that only checks the token</text>
<text x="12" y="36" fill="#666">bars: {} connections; one run on one machine</text>
{bars}</svg>
"##,
        crowds.join(" and "),
        height = top + 6.0,
    );
    std::fs::write(path, svg)?;
    println!("drawn as {}", path.display());
    Ok(())
}
