// What one answer says: the best classes as bars, the time of every stage as a strip, batch size and device.
import { make, percent, plural, time, wide } from "./dom.js";
import { explainer } from "./explain.js";

const STAGES = [
  ["decode_us", "decoding"],
  ["wait_us", "waiting"],
  ["queue_us", "queue"],
  ["input_us", "copy in"],
  ["compute_us", "computing"],
  ["output_us", "copy out"],
];

const bars = (predictions) => make("ul", { class: "bars", "aria-label": "Best classes" }, ...predictions.map(({ label, probability }) =>
  make("li", {}, make("span", {}, label), make("span", { class: "number" }, percent(probability)),
    make("span", { class: "bar", "aria-hidden": "true" }, wide(make("i"), Math.min(1, probability ?? 0))))));

function strip(timing) {
  const sum = STAGES.reduce((all, [name]) => all + timing[name], 0);
  return [
    make("div", { class: "strip", "aria-hidden": "true" }, ...STAGES.map(([name], i) =>
      wide(make("i", { class: `fill${i + 1}` }), sum === 0 ? 0 : timing[name] / sum))),
    make("ul", { class: "legend", "aria-label": "Time of every stage" }, ...STAGES.map(([name, title], i) =>
      make("li", {}, make("i", { class: `fill${i + 1}`, "aria-hidden": "true" }), `${title} ${time(timing[name])}`))),
  ];
}

const facts = (pairs) => make("dl", {}, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

function details({ model, version, timing, batch_size: batch, device, retries, cached, pictures }) {
  const pairs = [["Model", `${model}, version ${version}`], ["In all", time(timing.total_us)]];
  if (pictures > 1) pairs.push(["Request", `with ${plural(pictures, "picture")}; decoding is the sum of all`]);
  if (batch) pairs.push(["Batch", plural(batch, "image")]);
  if (device) pairs.push(["Device", device]);
  if (retries) pairs.push(["Repeated", plural(retries, "time")]);
  if (cached) pairs.push(["From the cache", plural(cached, "image")]);
  return [facts(pairs), ...strip(timing)];
}

// A canvas has one place in the document: this is a copy of it.
function copy(canvas) {
  const other = make("canvas", { width: canvas.width, height: canvas.height, "aria-hidden": "true" });
  other.getContext("2d").drawImage(canvas, 0, 0);
  return other;
}

export function showAnswer(element, picture) {
  const { file, canvas, predictions, error, answer } = picture;
  // Kept while the answer is: a map stays when other pictures are answered, or were looked at.
  if (picture.explained !== answer) Object.assign(picture, { explained: answer, explainer: explainer(picture) });
  element.replaceChildren(
    make("div", {}, canvas ? copy(canvas) : make("p", { class: "muted" }, "This browser cannot show the picture."), picture.explainer),
    make("div", {}, make("h2", {}, file.name),
      error ? make("p", { class: "bad" }, error) : undefined,
      predictions?.length === 0 ? make("p", {}, "No class reaches the threshold.") : undefined,
      predictions?.length > 0 ? bars(predictions) : undefined,
      ...(answer ? details(answer) : [])));
  element.hidden = false;
}
