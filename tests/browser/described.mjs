// Whether a call of a page is one that /openapi.json describes: its path, its method and the names in its query.

/** Reads the server's own description: a function that says what a call has that is not in it, or null. */
export async function readDescription(address) {
  const { paths } = await (await fetch(`${address}/openapi.json`)).json();
  const described = Object.entries(paths).map(([template, methods]) => ({
    // `{…}` is one part of a path, whatever is in it.
    expression: new RegExp(`^${template.split(/\{\w+\}/).map((text) => text.replace(/[.*+?^$()|[\]\\]/g, "\\$&")).join("[^/]+")}$`),
    literal: !template.includes("{"),
    methods,
  })).sort((one, other) => Number(other.literal) - Number(one.literal));
  return (method, url) => {
    const { pathname, searchParams } = new URL(url);
    const found = described.filter(({ expression }) => expression.test(pathname));
    if (found.length === 0) return `no path ${pathname}`;
    // Where two paths fit, the one without a gap is meant.
    const operation = found[0].methods[method.toLowerCase()];
    if (!operation) return `no ${method} ${pathname}`;
    const known = new Set((operation.parameters ?? []).filter((parameter) => parameter.in === "query").map((parameter) => parameter.name));
    const strange = [...searchParams.keys()].filter((name) => !known.has(name));
    return strange.length > 0 ? `no ${strange.join(", ")} in the query of ${method} ${pathname}` : null;
  };
}

/** What a page asks for as a program does, in contrast to its own files. */
export const isCall = (request) => ["fetch", "xhr", "eventsource", "websocket", "ping"].includes(request.resourceType());
