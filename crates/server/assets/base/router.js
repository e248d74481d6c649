// Pages by the part of the address behind `#`. Each page gets a signal that ends when it is left.

/**
 * routes: [["/events/:id", page], …]; page({ parameters, query, signal }) returns an element, or a promise of one.
 */
export function createRouter({ routes, missing, show }) {
  const compiled = routes.map(([pattern, page]) => {
    const names = [];
    const source = pattern.replace(/:(\w+)/g, (_, name) => {
      names.push(name);
      return "([^/]+)";
    });
    return { expression: new RegExp(`^${source}$`), names, page, pattern };
  });
  let leaving = null;

  function decode(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  function find(path) {
    for (const { expression, names, page, pattern } of compiled) {
      const match = expression.exec(path);
      if (!match) continue;
      const parameters = Object.fromEntries(names.map((name, index) => [name, decode(match[index + 1])]));
      return { page, parameters, pattern };
    }
    return { page: missing, parameters: {}, pattern: null };
  }

  async function go() {
    leaving?.abort();
    leaving = new AbortController();
    const { signal } = leaving;
    const [path, text = ""] = location.hash.replace(/^#/, "").split("?");
    const query = Object.fromEntries(new URLSearchParams(text));
    const found = find(path || "/");
    await show({ ...found, path: path || "/", query, signal });
  }

  window.addEventListener("hashchange", go);
  return { go, stop: () => leaving?.abort() };
}

/** The address of a page: link("/events/:id", …) is written by hand as link`/events/${id}`, each part made safe. */
export function link(texts, ...values) {
  return `#${texts.reduce((whole, text, index) => whole + encodeURIComponent(values[index - 1]) + text)}`;
}

export function navigate(hash) {
  location.hash = hash.replace(/^#/, "");
}

/** Writes filters to the address without going anywhere, so that a reload or a copied link shows the same. */
export function setQuery(query) {
  const [path] = location.hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.set(name, value);
  const text = parameters.toString();
  history.replaceState(null, "", `#${path}${text ? `?${text}` : ""}`);
}
