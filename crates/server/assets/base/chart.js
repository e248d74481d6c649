// Small charts that move: lines over the last minutes, and bars for parts of a whole. Plain SVG, drawn again on each change.

import { h, replace, svg } from "/assets/base/dom.js";
import { compact, number } from "/assets/base/format.js";

const WIDTH = 600;
const HEIGHT = 140;
/** The picture is stretched to its place; the names of the axis stand beside it. */
const ROOM = { left: 0, right: 6, top: 10, bottom: 8 };

function niceTop(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((top) => top >= value);
}

/** How much a chart shows when it has just begun. */
const SPAN_MIN = 20_000;

/**
 * A line over time. push(value, at) adds a point; what is older than `span` leaves on the left.
 *   label: what it shows, for those who hear it; tone: a class of its colour; text(value): how a value is written
 */
export function lineChart({ label, span = 120_000, tone = "accent", text = number, fill = true }) {
  const points = [];
  const grid = svg("g", { class: "chart-grid" });
  const area = svg("path", { class: `chart-area tone-${tone}` });
  const line = svg("path", { class: `chart-line tone-${tone}` });
  // A line without length has round ends: a dot that is not stretched with the picture.
  const dot = svg("path", { class: `chart-dot tone-${tone}` });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label, preserveAspectRatio: "none" }, grid, fill && area, line, dot);
  const axis = h("div", { class: "chart-axis", "aria-hidden": "true" });
  const element = h("div", { class: "chart-box" }, picture, axis);

  function draw(now) {
    while (points.length > 2 && points[1].at < now - span) points.shift();
    const top = niceTop(Math.max(0, ...points.map((point) => point.value)));
    const shown = Math.max(SPAN_MIN, Math.min(span, now - (points[0]?.at ?? now)));
    const x = (at) => ROOM.left + (1 - Math.min(1, (now - at) / shown)) * (WIDTH - ROOM.left - ROOM.right);
    const y = (value) => HEIGHT - ROOM.bottom - (value / top) * (HEIGHT - ROOM.top - ROOM.bottom);
    replace(grid, [0, 0.5, 1].map((part) => svg("line", { x1: ROOM.left, x2: WIDTH - ROOM.right, y1: y(top * part), y2: y(top * part) })));
    replace(axis, [1, 0.5, 0].map((part) => h("span", {}, compact(top * part))));
    if (points.length === 0) return;
    const last = points.at(-1);
    const path = points.map((point) => `${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`);
    path.push(`${x(now).toFixed(1)} ${y(last.value).toFixed(1)}`);
    line.setAttribute("d", `M${path.join("L")}`);
    area.setAttribute("d", `M${path.join("L")}L${x(now).toFixed(1)} ${y(0)}L${x(points[0].at).toFixed(1)} ${y(0)}Z`);
    dot.setAttribute("d", `M${x(now).toFixed(1)} ${y(last.value).toFixed(1)}h0.01`);
    picture.setAttribute("aria-label", `${label}: ${text(last.value)}`);
    element.dataset.points = String(points.length);
  }

  draw(Date.now());
  return {
    element,
    push(value, at = Date.now()) {
      points.push({ value, at });
      draw(at);
    },
    /** Moves on without a new point. */
    tick(now = Date.now()) {
      draw(now);
    },
  };
}

/** Parts of a whole as one bar with a legend. set([{ name, value, tone }]) */
export function shareBar({ label }) {
  const bar = svg("svg", { class: "share", viewBox: "0 0 1000 12", preserveAspectRatio: "none", role: "img", "aria-label": label });
  const legend = h("ul", { class: "legend" });
  const element = h("div", { class: "share-box" }, bar, legend);
  return {
    element,
    set(parts) {
      const whole = parts.reduce((sum, part) => sum + part.value, 0);
      let from = 0;
      const pieces = parts.filter((part) => part.value > 0).map((part) => {
        const width = (part.value / whole) * 1000;
        const piece = svg("rect", { class: `tone-${part.tone}`, x: from, y: 0, width, height: 12 });
        from += width;
        return piece;
      });
      replace(bar, svg("rect", { class: "share-ground", x: 0, y: 0, width: 1000, height: 12 }), pieces);
      bar.setAttribute("aria-label", `${label}: ${parts.map((part) => `${part.name} ${number(part.value)}`).join(", ")}`);
      replace(legend, parts.map((part) => h("li", {}, h("span", { class: `swatch tone-${part.tone}` }), h("span", {}, part.name), h("b", {}, number(part.value)))));
    },
  };
}

/** How full something is. set(part, whole) */
export function meter({ label, tone = "accent" }) {
  const filled = svg("rect", { class: `tone-${tone}`, x: 0, y: 0, width: 0, height: 12, rx: 6 });
  const element = svg("svg", { class: "meter", viewBox: "0 0 1000 12", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "share-ground", x: 0, y: 0, width: 1000, height: 12 }), filled);
  return {
    element,
    set(part, whole) {
      const width = whole > 0 ? Math.max(0, Math.min(1, part / whole)) * 1000 : 0;
      filled.setAttribute("width", width);
      element.setAttribute("aria-label", `${label}: ${number(part)} / ${number(whole)}`);
    },
  };
}
