// The server's time. A countdown that trusts the clock of the phone it runs on would open too early or too late.

import { api } from "/assets/base/api.js";

const SAMPLES = 3;
// Between the server's time and the browser's count of milliseconds, which no change of its clock moves.
let offset = Date.now() - performance.now();

/** Asks the server a few times, and believes the answer that came back soonest. */
export async function setClock() {
  let best = null;
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    const sent = performance.now();
    const { now } = await api.get("/v1/time");
    const took = performance.now() - sent;
    if (!best || took < best.took) best = { took, offset: now + took / 2 - performance.now() };
  }
  offset = best.offset;
}

export function now() {
  return performance.now() + offset;
}

/** Runs at once and then four times a second, until the signal: for what counts down. */
export function everyTick(run, signal) {
  const timer = setInterval(() => run(now()), 250);
  signal.addEventListener("abort", () => clearInterval(timer));
  run(now());
}

/** Runs again and again while somebody looks, after pauses that are never the same for everybody. */
export function nowAndThen(run, least, signal) {
  let timer = null;
  const plan = () => {
    timer = setTimeout(async () => {
      if (!document.hidden) await run();
      if (!signal.aborted) plan();
    }, least + Math.random() * least);
  };
  const seen = () => {
    if (!document.hidden && !signal.aborted) run();
  };
  document.addEventListener("visibilitychange", seen);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
  });
  plan();
}
