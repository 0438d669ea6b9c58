// The view Models: what is served, what each model takes and gives, its layers with their times; loading and unloading.
import { byId, count, make, percent, plural, time, wide } from "./dom.js";
import { onTotals } from "./live.js";
import { ask, modelPath } from "./server.js";
import { readModels } from "./try.js";

const MOST_LABELS = 1000; // of an answer of /classify

let mayLoad; // undefined: not known
let shown = new Map(); // of a version, as text, to its element
let moving = false; // a version is being loaded or unloaded
let summed = false; // the status has nothing to say but how many are ready

const say = (sentence, bad = false) => {
  byId("models-status").textContent = sentence;
  byId("models-status").classList.toggle("bad", bad);
};

const shape = (dims) => dims.map((size) => (size === -1 ? "N" : size)).join(" × ");

const rows = (pairs) => make("dl", {}, ...pairs.filter(([, value]) => value !== "" && value !== undefined)
  .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));

const tensors = (list) => list.map(({ name, datatype, shape: dims }) => `${name}, ${datatype}, ${shape(dims)}`).join("; ");

function describe(metadata, config) {
  const word = (name) => config.parameters?.[name]?.string_value;
  return rows([
    ["Input", tensors(metadata.inputs)],
    ["Order of axes", config.input[0].format.replace("FORMAT_", "")],
    ["Resizing", [word("resize"), word("interpolation")].filter(Boolean).join(", ")],
    ["Output", tensors(metadata.outputs)],
    ["Probabilities", word("activation")],
    ["Labels", config.output[0].label_filename || "none: classes have numbers"],
    ["Precision", metadata.precision],
    ["Images a batch", `up to ${config.max_batch_size}`],
    ["Platform", metadata.platform],
  ]);
}

// Any picture will do: the time of a layer does not depend on it.
function testPicture() {
  const canvas = make("canvas", { width: 64, height: 64 });
  const context = canvas.getContext("2d");
  for (let x = 0; x < 8; x++) {
    for (let y = 0; y < 8; y++) {
      context.fillStyle = `rgb(${32 * x} ${32 * y} ${(x + y) % 2 ? 200 : 60})`;
      context.fillRect(8 * x, 8 * y, 8, 8);
    }
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function layerTable({ layers, timing, device }) {
  const sum = layers.reduce((all, { us }) => all + us, 0);
  const most = Math.max(...layers.map(({ us }) => us));
  return [
    make("p", {}, `${plural(layers.length, "layer")}, ${time(sum)} of ${time(timing.total_us)}, one image, on ${device}.`),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Layers" }, make("table", {},
      make("thead", {}, make("tr", {}, ...["Layer", "Kernel", "Time", "Share"].map((title) => make("th", { scope: "col", class: title === "Time" ? "number" : "" }, title)))),
      make("tbody", {}, ...layers.map(({ name, kernel, us }) => make("tr", {}, make("td", {}, name), make("td", {}, kernel),
        make("td", { class: "number" }, time(us)),
        make("td", { class: "share" }, percent(sum === 0 ? 0 : us / sum),
          make("span", { class: "bar", "aria-hidden": "true" }, wide(make("i"), most === 0 ? 0 : us / most)))))))),
  ];
}

function labelList(predictions) {
  const sorted = [...predictions].sort((a, b) => a.index - b.index);
  return make("details", {}, make("summary", {}, `Labels (${sorted.length === MOST_LABELS ? `the first ${MOST_LABELS} by probability` : count(sorted.length)})`),
    make("ol", { class: "labels", start: "0" }, ...sorted.map(({ label, index }) => make("li", { value: String(index) }, label))));
}

async function profile(model, version, button, place) {
  button.disabled = true;
  place.replaceChildren(make("p", { class: "muted" }, "Timing …"));
  try {
    const answer = await ask(`${modelPath(model, version)}/classify?profile=1&threshold=0&top=${MOST_LABELS}`,
      { method: "POST", body: await testPicture(), patient: true });
    place.replaceChildren(...layerTable(answer), labelList(answer.results[0].predictions));
  } catch (error) {
    place.replaceChildren(make("p", { class: "bad" }, error.message));
  }
  button.disabled = false;
}

async function fillDetails(model, version, place) {
  try {
    const [metadata, config] = await Promise.all([ask(modelPath(model, version)), ask(`${modelPath(model, version)}/config`)]);
    const layers = make("div", { "aria-live": "polite" });
    const button = make("button", { type: "button", click: () => profile(model, version, button, layers) }, "Time the layers, list the labels");
    place.replaceChildren(describe(metadata, config), make("p", {}, button), layers);
  } catch (error) {
    place.replaceChildren(make("p", { class: "bad" }, error.message));
  }
}

async function control(name, verb) {
  say(`${verb === "load" ? "Loading" : "Unloading"} ${name} …`);
  try {
    await ask(`v2/repository/models/${encodeURIComponent(name)}/${verb}`, { method: "POST" });
    await read(`${name} is ${verb}ed`);
    readModels();
  } catch (error) {
    await read();
    summed = false;
    say(error.message, true);
  }
}

function entry({ name, version, state, reason }) {
  const place = make("div", { class: "body" });
  const ready = state === "READY";
  const inside = make("div", {});
  const details = make("details", {}, make("summary", {}, make("b", {}, name), `version ${version}`,
    make("span", { class: `state ${ready ? "well" : state === "FAILED" || state === "UNAVAILABLE" ? "bad" : "muted"}` }, state)), place);
  if (reason) place.append(make("p", { class: ready ? "" : "muted" }, reason));
  place.append(inside);
  if (mayLoad !== false) {
    place.append(make("p", { class: "row" }, make("button", { type: "button", click: () => control(name, "load") }, ready ? `Load ${name} again` : `Load ${name}`),
      ready ? make("button", { type: "button", click: () => control(name, "unload") }, `Unload ${name}`) : undefined));
  }
  details.addEventListener("toggle", () => {
    if (details.open && ready && inside.childElementCount === 0) fillDetails(name, version, inside);
  });
  return details;
}

const summary = (entries) => `${entries.filter(({ state }) => state === "READY").length} of ${plural(entries.length, "version")} ready.` +
  (mayLoad === false ? " Loading and unloading: not here, or not with this key." : "");

// The index has every version, with Triton's states; the list of models says which of them FAILED. again: of the page's own accord.
async function read(sentence = "", again = false) {
  try {
    const [index, { models }] = await Promise.all([ask("v2/repository/index", { method: "POST" }), ask("v2/models")]);
    const failed = new Set(models.filter(({ state }) => state === "FAILED").map(({ name, version }) => `${name}/${version}`));
    const entries = index.map((model) => (failed.has(`${model.name}/${model.version}`) ? { ...model, state: "FAILED" } : model));
    // What is the same keeps its element, and stays open.
    const elements = entries.map((model) => [JSON.stringify([model, mayLoad]), model]).map(([text, model]) => [text, shown.get(text) ?? entry(model)]);
    const before = [...shown.keys()].join();
    shown = new Map(elements);
    if ([...shown.keys()].join() !== before) byId("model-list").replaceChildren(...shown.values());
    moving = entries.some(({ state }) => state.endsWith("LOADING"));
    if (again && !summed) return;
    summed = sentence === "";
    say(sentence || summary(entries));
  } catch (error) {
    say(error.message, true);
  }
}

export const showModels = () => read();

export function startModels() {
  byId("refresh").addEventListener("click", () => read());
  onTotals(({ may_load: may }) => {
    const changed = may !== mayLoad;
    mayLoad = may;
    if ((changed || moving) && !byId("view-models").hidden) read("", true);
  });
}
