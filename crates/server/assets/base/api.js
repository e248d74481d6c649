// Calls of the API: problems become errors with their code, lists come page by page, sessions prove themselves.

import { t } from "/assets/base/i18n.js";

/** What the API refused, or that it could not be reached. */
export class ApiError extends Error {
  constructor(problem, status) {
    super(problem.detail ?? problem.title ?? problem.code);
    this.code = problem.code ?? "UNKNOWN";
    this.title = problem.title ?? "";
    this.detail = problem.detail ?? "";
    this.status = status;
    this.trace = problem.instance ?? "";
    this.fields = problem.fields ?? [];
    this.problem = problem;
  }
}

const PAGE_FIRST = 50;
const PAGE_NEXT = 100;

let csrfToken = null;
const signedOut = new Set();

export function setCsrfToken(token) {
  csrfToken = token;
}

/** Called when a session has ended, or was never there. */
export function onSignedOut(listener) {
  signedOut.add(listener);
}

function address(path, query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") parameters.set(name, value);
  }
  const text = parameters.toString();
  return text ? `${path}?${text}` : path;
}

async function read(response) {
  const kind = response.headers.get("content-type") ?? "";
  if (response.status === 204 || !/\bjson\b/.test(kind)) return null;
  try {
    return await response.json();
  } catch {
    return null;
  }
}

async function send(method, path, { query, body, headers = {}, signal } = {}) {
  const sent = { accept: "application/json", ...headers };
  if (method !== "GET" && csrfToken) sent["x-csrf-token"] = csrfToken;
  if (body !== undefined) sent["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(address(path, query), {
      method, headers: sent, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ code: "UNREACHABLE", title: t("error.unreachable"), detail: t("error.unreachable.detail") }, 0);
  }
  const answer = await read(response);
  if (response.ok) return { status: response.status, body: answer, headers: response.headers };
  const problem = answer ?? { code: `HTTP_${response.status}`, title: response.statusText, instance: response.headers.get("x-request-id") };
  const error = new ApiError(problem, response.status);
  if (response.status === 401) for (const listener of signedOut) listener(error);
  throw error;
}

/** A part of an address: any id, safely. */
export function part(text) {
  return encodeURIComponent(text);
}

/** A key that no other call has. */
export function newKey() {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const api = {
  send,
  async get(path, query, options) {
    return (await send("GET", path, { query, ...options })).body;
  },
  async post(path, body, options) {
    return (await send("POST", path, { body: body ?? {}, ...options })).body;
  },
  async patch(path, body, options) {
    return (await send("PATCH", path, { body, ...options })).body;
  },
  async put(path, body, options) {
    return (await send("PUT", path, { body, ...options })).body;
  },
  async delete(path, options) {
    return (await send("DELETE", path, options)).body;
  },
  /** One page of a list: { items, nextCursor }. Whoever asks for more than the first one gets more at a time. */
  async page(path, query, cursor, options) {
    const limit = cursor ? Math.max(PAGE_NEXT, query.limit ?? 0) : query.limit ?? PAGE_FIRST;
    return (await send("GET", path, { query: { ...query, limit, cursor }, ...options })).body;
  },
};
