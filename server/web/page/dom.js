// Elements. Text is always set as text: nothing that a server, a model or a file's name says becomes markup.

export const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

// make("li", {class: "x", click: handler}, child, "text")
export const make = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

export const draw = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// An element whose width is a share of its parent's. Set by the object model: the policy allows no style attributes.
export function wide(element, share) {
  element.style.width = `${(100 * share).toFixed(2)}%`;
  return element;
}

const places = (number, digits) => number.toLocaleString("en", { maximumFractionDigits: digits });

export function time(us) {
  if (us < 1000) return `${places(us, us < 10 ? 1 : 0)} µs`;
  if (us < 1e6) return `${places(us / 1000, us < 1e5 ? 2 : 0)} ms`;
  return `${places(us / 1e6, 2)} s`;
}

export const count = (number) => places(number, number < 10 ? 2 : number < 100 ? 1 : 0);

export const plural = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

export const percent = (probability) => (probability === null ? "not a number" : `${places(100 * probability, 2)} %`);
