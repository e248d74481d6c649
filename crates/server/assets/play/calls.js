// Calls that outlast a lost connection and a busy server: tried again under the same key, after pauses that grow and differ.

import { api, newKey, part } from "/assets/base/api.js";
import { recall, remember } from "/assets/base/storage.js";
import * as session from "/assets/base/session.js";

const PAUSE_MIN = 600;
const PAUSE_MAX = 15_000;
const READ_TRIES = 5;
const WRITE_TRIES = 12;

const listeners = new Set();
let reachable = true;

/** Called with true and false as the server comes and goes. */
export function onConnection(listener) {
  listeners.add(listener);
}

function note(next) {
  if (next === reachable) return;
  reachable = next;
  for (const listener of listeners) listener(next);
}

export function isReachable() {
  return reachable;
}

window.addEventListener("offline", () => note(false));
// Whether it is really back is seen by asking, and not by everybody in the same moment.
window.addEventListener("online", () => setTimeout(() => read("/v1/time").catch(() => {}), Math.random() * PAUSE_MIN));
// A stream has something to tell too.
export const noteStream = (state) => {
  if (state === "live") note(true);
  if (state === "waiting" && !navigator.onLine) note(false);
};

/** Whether the same call may go through a little later. */
function passes(error) {
  if (error.problem?.retryWithSameKey === false) return false;
  return error.status === 0 || [429, 503].includes(error.status) || /^HTTP_50[24]$/.test(error.code);
}

/** Waits, but not when the connection has just come back. */
function pause(failures, signal) {
  const most = Math.min(PAUSE_MAX, PAUSE_MIN * 2 ** failures);
  return new Promise((resolve, reject) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", back);
      resolve();
    };
    const back = () => setTimeout(done, Math.random() * PAUSE_MIN);
    const timer = setTimeout(done, most / 2 + Math.random() * (most / 2));
    window.addEventListener("online", back);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      window.removeEventListener("online", back);
      reject(new DOMException("left", "AbortError"));
    });
  });
}

async function persist(run, { tries, signal, waiting }) {
  for (let failures = 0; ; failures += 1) {
    try {
      const answer = await run();
      note(true);
      return answer;
    } catch (error) {
      if (error.name === "AbortError") throw error;
      note(error.status !== 0);
      if (!passes(error) || failures + 1 >= tries) throw error;
      waiting?.(failures + 1);
      await pause(failures, signal);
    }
  }
}

export function read(path, query, { signal } = {}) {
  return persist(() => api.get(path, query, { signal }), { tries: READ_TRIES, signal });
}

/**
 * Does something once. `what` names it: its key is remembered until there is an answer, so that neither a lost answer nor a
 * reload does it a second time.
 */
export async function once(what, path, { body, headers, signal, waiting } = {}) {
  const name = `key.${session.current()?.userId}.${what}`;
  const key = recall(name) ?? newKey();
  remember(name, key);
  const options = { body, headers: { "idempotency-key": key, ...headers }, signal };
  try {
    const answer = await persist(() => api.send("POST", path, options), { tries: WRITE_TRIES, signal, waiting });
    remember(name, null);
    return answer.body;
  } catch (error) {
    // A refusal is an answer as well.
    if (error.name !== "AbortError" && !passes(error)) remember(name, null);
    throw error;
  }
}

/** Something that the server itself does only once for each person. */
export async function send(path, { body, signal, waiting } = {}) {
  return (await persist(() => api.send("POST", path, { body, signal }), { tries: WRITE_TRIES, signal, waiting })).body;
}

const kept = new Map();

/** What hardly changes, asked for once: an event's name and rewards, a coupon's benefit. */
export function known(path) {
  if (!kept.has(path)) {
    const asked = read(path);
    asked.catch(() => kept.delete(path));
    kept.set(path, asked);
  }
  return kept.get(path);
}

export const knownEvent = (id) => known(`/v1/events/${part(id)}`);
export const knownCoupon = (id) => known(`/v1/coupons/${part(id)}`);
