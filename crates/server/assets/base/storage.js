// What a browser remembers of a person's taste, and that they are signed in. It may refuse to; then the page works without.

/** Whether it remembers at all. */
export function remembers() {
  try {
    localStorage.setItem("guerdon.remembers", "yes");
    return localStorage.getItem("guerdon.remembers") === "yes";
  } catch {
    return false;
  }
}

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
