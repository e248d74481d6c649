// A lottery's draw: what was promised before anybody entered, one's own receipt, and how to check it all afterwards.

import { api, part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { number } from "/assets/base/format.js";
import { t } from "/assets/base/i18n.js";
import { card } from "/assets/base/ui.js";
import { copyable } from "/assets/play/pieces.js";
import { picture } from "/assets/play/pictures.js";

const STEPS = ["COLLECTING", "ROOTED", "ANNOUNCED"];
const REACHED = { COLLECTING: 1, SEALED: 1, ROOTED: 2, DRAWING: 2, ANNOUNCED: 3, VOID: 0 };

export function drawPart(event, request, signal) {
  const place = h("div", {});
  const base = `/v1/events/${part(event.eventId)}/draw`;
  let shown = "";

  async function refresh() {
    let draw;
    try {
      draw = await api.get(base, {}, { signal });
    } catch {
      return;
    }
    const receipt = request()?.receipt;
    const text = JSON.stringify([draw, receipt]);
    if (text === shown) return;
    shown = text;
    const reached = REACHED[draw.status] ?? 0;
    replace(place, card(t("draw.title"),
      h("p", { class: "muted" }, t("draw.text")),
      h("ol", { class: "steps" }, STEPS.map((step, index) => h("li", { class: index < reached ? "done" : "", "aria-current": index === reached ? "step" : undefined },
        h("span", { class: "step-mark" }, String(index + 1)), h("span", {}, t(`draw.step.${step}`, { entries: draw.entries === undefined ? "" : number(draw.entries) }))))),
      receipt && copyable(t("draw.receipt"), receipt),
      copyable(t("draw.commitment"), draw.commitment),
      draw.root && copyable(t("draw.root"), draw.root),
      draw.seed && copyable(t("draw.seed"), draw.seed),
      draw.status === "ANNOUNCED" && h("p", {}, t("draw.counts", { entries: number(draw.entries), winners: number(draw.winners) })),
      draw.status === "ANNOUNCED" && h("p", { class: "row" },
        receipt && h("a", { class: "button", href: `${base}/proof`, target: "_blank", rel: "noopener" }, picture("link", 16), t("draw.proof")),
        h("a", { class: "button", href: `${base}/document`, target: "_blank", rel: "noopener" }, picture("link", 16), t("draw.document"))),
      !draw.protectsAgainstOperator && h("p", { class: "muted small-text" }, t("draw.note"))));
  }

  refresh();
  return { element: place, refresh };
}
