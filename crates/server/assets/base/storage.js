// What a browser remembers of a person's taste. It may refuse to; then the page works without.

export function recall(name) {
  try {
    return localStorage.getItem(`guerdon.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(`guerdon.${name}`);
    else localStorage.setItem(`guerdon.${name}`, value);
  } catch {
    // Nothing depends on it.
  }
}
