// Elements, made of names, attributes and text. Nothing here parses markup, so whatever a name or a note contains stays text.

const SVG = "http://www.w3.org/2000/svg";
const ADDRESSES = new Set(["href", "src", "action", "formaction"]);

function checkAttribute(name, value) {
  if (/^on/i.test(name) || name === "style" || name === "srcdoc") throw new Error(`the attribute ${name} is not allowed`);
  if (ADDRESSES.has(name) && !/^(#|\/(?!\/))/.test(value)) throw new Error(`${name} must lead to this server`);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else if (name !== "value" || !("value" in element)) {
      const text = value === true ? "" : String(value);
      checkAttribute(name, text);
      element.setAttribute(name, text);
    }
  }
  append(element, children);
  // A choice can only be made among options that are there.
  if (properties?.value !== undefined && "value" in element) element.value = properties.value ?? "";
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** h("p", { class: "note", on: { click } }, "text", child) */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Puts these in place of what is there. */
export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

let counter = 0;
/** An id that no other element has, to tie a label to its field. */
export function uniqueId(prefix = "id") {
  counter += 1;
  return `${prefix}-${counter}`;
}
