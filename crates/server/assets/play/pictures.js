// Small pictures: one line each, in the colour of the text around them.

import { svg } from "/assets/base/dom.js";

const PATHS = {
  FIRST_COME: "M13 2 4 14h6l-1 8 9-12h-6l1-8Z",
  LOTTERY: "M4 7h16v4a2 2 0 0 0 0 4v4H4v-4a2 2 0 0 0 0-4V7Zm10 0v2m0 3v2m0 3v2",
  CLAIM: "M4 11h16v9H4v-9Zm-1-4h18v4H3V7Zm9 0v13M12 7S8 7 8 4.500 12 3 12 7Zm0 0s4 0 4-2.500S12 3 12 7Z",
  ATTENDANCE: "M5 5h14v15H5V5Zm0 5h14M9 3v4m6-4v4m-6 8 2 2 4-4",
  RANDOM: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 0v18M3 12h18M5.600 5.600l12.800 12.800M18.400 5.600 5.600 18.400",
  events: "M4 5h7v6H4V5Zm9 0h7v6h-7V5ZM4 13h7v6H4v-6Zm9 0h7v6h-7v-6Z",
  history: "M4 12a8 8 0 1 0 3-6.200L4 8m0-4v4h4m4-1v5l3 2",
  coupons: "M4 7h16v4a2 2 0 0 0 0 4v4H4v-4a2 2 0 0 0 0-4V7Zm5 9 6-6m-5.500.500h.010m5 5h.010",
  points: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm-2.500 13V8h3.500a2.500 2.500 0 0 1 0 5H9.500",
  won: "M5 13l4 4L19 7",
  lost: "M6 12h12",
  wait: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Z",
  flame: "M12 3c1 4 5 5.500 5 10a5 5 0 0 1-10 0c0-2 1-3 2-4 .500 1.500 1 2 2 2.500C11 8.500 10.500 6 12 3Z",
  link: "M14 4h6v6m0-6-9 9M9 5H5v14h14v-4",
};

export function picture(name, size = 20) {
  return svg("svg", { class: "picture", viewBox: "0 0 24 24", width: size, height: size, "aria-hidden": "true", focusable: "false" },
    svg("path", { d: PATHS[name] ?? PATHS.events }));
}
