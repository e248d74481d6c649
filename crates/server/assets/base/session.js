// Who is signed in. The token itself stays in a cookie that no script can read.

import { api, setCsrfToken } from "/assets/base/api.js";
import { recall, remember, remembers } from "/assets/base/storage.js";

let session = null;

export function current() {
  return session;
}

export function hasRole(...roles) {
  return session?.roles.some((role) => roles.includes(role)) ?? false;
}

/** May see the console. */
export const mayInspect = () => hasRole("AUDITOR", "OPERATOR", "ADMIN");
/** May change things. */
export const mayOperate = () => hasRole("OPERATOR", "ADMIN");

function keep(next) {
  session = next;
  setCsrfToken(next?.csrfToken ?? null);
  remember("session", next ? "begun" : null);
  return session;
}

export async function signIn(token) {
  return keep(await api.post("/v1/session", { token: token.trim() }));
}

export async function signOut() {
  try {
    await api.delete("/v1/session");
  } finally {
    keep(null);
  }
}

export function forget() {
  keep(null);
}

/** A token that a link brought behind `#token=`; it leaves the address bar before anything else happens. */
export function takeTokenFromAddress() {
  const match = /^#token=([\w.=-]+)$/.exec(location.hash);
  if (!match) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return match[1];
}

/** The present session, or null. A link's token comes first. */
export async function begin() {
  const token = takeTokenFromAddress();
  if (token) return signIn(token);
  // Whoever never signed in here has nothing to ask for.
  if (remembers() && recall("session") === null) return keep(null);
  try {
    return keep(await api.get("/v1/session"));
  } catch (error) {
    if (error.status === 401 || error.status === 403) return keep(null);
    throw error;
  }
}
