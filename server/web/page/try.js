// The view Try it: pictures in, classes out.
import { showAnswer } from "./answer.js";
import { curlLine, pythonLines } from "./commands.js";
import { byId, make, percent, plural } from "./dom.js";
import { csv, download, json } from "./export.js";
import { key } from "./key.js";
import { onTotals } from "./live.js";
import { send, thumbnail } from "./pictures.js";
import { ask, modelPath } from "./server.js";

let models = []; // [{name, version, state, reason}], as /v2/models has them
let pictures = []; // [{file, canvas, tile, predictions, error, answer}]
let chosen; // of pictures: whose answer is shown
let run = 0; // the number of the last sending: answers to an earlier one are stale
let shownFrame = 0;

const say = (sentence, bad = false) => {
  byId("try-status").textContent = sentence;
  byId("try-status").classList.toggle("bad", bad);
};

const option = (value, text) => make("option", { value }, text);

function showVersions() {
  const name = byId("model").value;
  const versions = models.filter((model) => model.name === name && model.state === "READY").map(({ version }) => version);
  byId("version").replaceChildren(option("", "highest"), ...versions.map((version) => option(version, version)));
}

export async function readModels() {
  try {
    ({ models } = await ask("v2/models"));
  } catch (error) {
    say(error.message, true);
    return;
  }
  const select = byId("model");
  const before = select.value;
  const names = [...new Set(models.filter(({ state }) => state === "READY").map(({ name }) => name))];
  select.replaceChildren(option("", "the default"), ...names.map((name) => option(name, name)));
  if (names.includes(before)) select.value = before;
  showVersions();
  if (pictures.length === 0) say(names.length > 0 ? "" : "No model is ready: the view Models says why.");
}

function path() {
  const model = byId("model").value;
  const top = Math.min(1000, Math.max(1, Math.round(Number(byId("top").value)) || 5));
  return `${model === "" ? "" : `${modelPath(model, byId("version").value)}/`}classify?top=${top}`;
}

const confidence = ({ predictions }) => predictions?.[0]?.probability ?? -1;

function ordered() {
  const order = byId("order").value;
  if (order === "sent") return pictures;
  // What has no answer comes last, either way.
  return [...pictures].sort((a, b) => {
    const [left, right] = [confidence(a), confidence(b)];
    if (left < 0 || right < 0) return right - left;
    return order === "falling" ? right - left : left - right;
  });
}

function tileOf(picture) {
  const { file, canvas, predictions, error } = picture;
  const best = predictions?.[0];
  picture.tile ??= make("button", { type: "button", click: () => choose(picture) });
  picture.tile.replaceChildren(canvas ?? make("span", { class: "none" }), make("span", {}, file.name),
    make("span", { class: error ? "bad" : "muted" }, error ?? (best ? `${best.label} ${percent(best.probability)}` : predictions ? "no class" : "…")));
  picture.tile.setAttribute("aria-pressed", String(picture === chosen));
  return picture.tile;
}

function showCommands() {
  byId("commands").hidden = pictures.length === 0;
  const url = new URL(path(), document.baseURI).href;
  const names = pictures.map(({ file }) => file.name);
  if (names.length === 0) return;
  byId("curl").textContent = curlLine(url, names, key() !== "");
  byId("python").textContent = pythonLines(url, names, key() !== "");
}

function showAll() {
  const focused = document.activeElement;
  byId("many").hidden = pictures.length < 2;
  if (pictures.length > 1) byId("grid").replaceChildren(...ordered().map((picture) => make("li", {}, tileOf(picture))));
  if (byId("grid").contains(focused)) focused.focus();
  if (chosen && (chosen.predictions || chosen.error)) showAnswer(byId("answer"), chosen);
  else byId("answer").hidden = true;
  showCommands();
}

// Many answers come at about the same time, and are shown together.
function showSoon() {
  if (shownFrame === 0) shownFrame = requestAnimationFrame(() => {
    shownFrame = 0;
    showAll();
  });
}

function choose(picture) {
  chosen = picture;
  showAll();
}

async function classify(some) {
  const mine = ++run;
  let answered = 0;
  for (const picture of some) {
    picture.predictions = picture.error = picture.answer = undefined;
  }
  say(`Asking about ${plural(some.length, "picture")} …`);
  showSoon();
  // Each sending has copies of its own, so that a stale answer changes nothing that is shown.
  const copies = some.map(({ file }) => ({ file }));
  await send(copies, path(), (group) => {
    if (mine !== run) return;
    for (const { file, predictions, error, answer } of group) {
      const picture = some[copies.findIndex((copy) => copy.file === file)];
      Object.assign(picture, { predictions, error, answer });
    }
    answered += group.length;
    if (answered < some.length) say(`${answered} of ${some.length} answered …`);
    showSoon();
  });
  if (mine !== run) return;
  const failed = some.filter(({ error }) => error).length;
  const first = some[0];
  if (some.length === 1) say(first.error ?? (first.predictions[0] ? `${first.predictions[0].label}, ${percent(first.predictions[0].probability)}` : "no class"), Boolean(first.error));
  else say(`${plural(some.length, "picture")} answered` + (failed > 0 ? `, ${failed} of them with an error` : ""));
}

async function add(files) {
  const added = [...files].map((file) => ({ file }));
  if (added.length === 0) return;
  // Pictures that wait for an answer are asked about again together with the new ones.
  const waiting = pictures.filter(({ predictions, error }) => !predictions && !error);
  pictures.push(...added);
  chosen = added[0];
  const asked = classify([...waiting, ...added]);
  for (const picture of added) {
    picture.canvas = await thumbnail(picture.file);
    showSoon();
  }
  await asked;
}

function clear() {
  run++;
  pictures = [];
  chosen = undefined;
  say("");
  showAll();
}

function again() {
  if (pictures.length > 0) classify(pictures);
}

async function copyText(button) {
  const pre = byId(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(pre.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  } catch {
    // Not over plain HTTP: the text is selected, so that the user copies it.
    getSelection().selectAllChildren(pre);
  }
}

const filesOf = (transfer) => [...(transfer?.files ?? [])];

function startDropping() {
  const zone = byId("drop");
  addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) zone.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    location.hash = "#try";
    add(filesOf(event.dataTransfer));
  });
  addEventListener("paste", (event) => {
    const files = filesOf(event.clipboardData);
    if (files.length === 0) return;
    event.preventDefault();
    location.hash = "#try";
    add(files);
  });
}

export function startTry() {
  for (const id of ["choose", "photograph"]) {
    byId(id).addEventListener("change", ({ target }) => {
      add(target.files);
      target.value = ""; // the same picture may be chosen again
    });
  }
  byId("model").addEventListener("change", () => {
    showVersions();
    again();
  });
  for (const id of ["version", "top"]) byId(id).addEventListener("change", again);
  byId("order").addEventListener("change", showAll);
  byId("csv").addEventListener("click", () => download("convoyd.csv", "text/csv", csv(ordered())));
  byId("json").addEventListener("click", () => download("convoyd.json", "application/json", json(ordered())));
  byId("clear").addEventListener("click", clear);
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copyText(button));
  startDropping();
  // At the daemon's start, until every model can be chosen.
  onTotals(() => {
    if (models.some(({ state }) => state === "LOADING")) readModels();
  });
}
