// A chart of a few curves over the window of history.js. Everything that it shows stands beside it as text, too.
import { draw, make } from "./dom.js";
import { MINUTES } from "./history.js";

const HEIGHT = 100;
const WIDTH = 300;
const STROKES = 6;

// A round number, at least as much as most.
function ceiling(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= most * 0.999);
}

// The path of the points, in pieces where values lack.
function path(points, top) {
  let text = "";
  let pen = "M";
  points.forEach(({ at, value }, i) => {
    if (value === undefined) {
      pen = "M";
      return;
    }
    const place = `${(at * WIDTH).toFixed(1)} ${(HEIGHT - (HEIGHT * Math.min(value, top)) / top).toFixed(1)}`;
    text += `${pen}${place}`;
    // A point between two gaps would not be seen.
    if (pen === "M" && points[i + 1]?.value === undefined) text += `l.1 0`;
    pen = "L";
  });
  return text;
}

export class Chart {
  // written(value): the value as text, with its unit. least: what the axis reaches at least.
  constructor(title, written, least = 0) {
    this.written = written;
    this.least = least;
    this.top = make("span");
    this.legend = make("ul", { class: "legend" });
    this.svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: nothing yet` });
    this.title = title;
    this.element = make("figure", {}, make("figcaption", {}, title, this.top), this.svg,
      make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}, `${MINUTES} min ago`), make("span", {}, "now")), this.legend);
  }

  // curves: [{name, points}]
  show(curves) {
    const values = curves.flatMap(({ points }) => points.map(({ value }) => value).filter((value) => value !== undefined));
    const top = ceiling(Math.max(this.least, ...values));
    this.top.textContent = `up to ${this.written(top)}`;
    const said = [];
    const lines = [];
    const rows = curves.map(({ name, points }, i) => {
      const stroke = `line stroke${(i % STROKES) + 1}`;
      const value = points[points.length - 1]?.value;
      const text = value === undefined ? "–" : this.written(value);
      said.push(`${name} ${value === undefined ? "none" : text}`);
      lines.push(draw("path", { class: stroke, d: path(points, top) }));
      return make("li", {}, draw("svg", { viewBox: "0 0 24 10", "aria-hidden": "true" }, draw("path", { class: stroke, d: "M0 5H24" })), `${name}: ${text}`);
    });
    this.svg.replaceChildren(draw("path", { class: "mesh", d: `M0 ${HEIGHT / 2}H${WIDTH}` }), ...lines);
    this.svg.setAttribute("aria-label", `${this.title}, now: ${said.join(", ")}`);
    this.legend.replaceChildren(...rows);
  }
}
