// The view Live: curves of what the daemon does, from one small document that is asked for every two seconds.
import { Chart } from "./chart.js";
import { byId, count, make, plural, time } from "./dom.js";
import { History } from "./history.js";
import { ask } from "./server.js";

const EVERY_MS = 2000;
const MOST_DEVICES = 6;

const history = new History();
const hearers = [];
let timer;

const aSecond = (value) => `${count(value)}/s`;
const charts = [
  [new Chart("Requests", aSecond, 1), () => [
    { name: "answered", points: history.rate((t) => t.answers["2xx"]) },
    { name: "refused (4xx)", points: history.rate((t) => t.answers["4xx"]) },
    { name: "failed (5xx)", points: history.rate((t) => t.answers["5xx"]) },
  ]],
  [new Chart("Images", aSecond, 1), () => [
    { name: "computed", points: history.rate((t) => t.images) },
    { name: "computed again", points: history.rate((t) => t.retried_images) },
  ]],
  [new Chart("Latency", time), () => [
    { name: "half within", points: history.percentiles(0.5, "latency_us") },
    { name: "90 % within", points: history.percentiles(0.9, "latency_us") },
    { name: "99 % within", points: history.percentiles(0.99, "latency_us") },
  ]],
  [new Chart("Images a batch", count, 1), () => [
    { name: "mean", points: history.ratio((t) => t.images, (t) => batches(t)) },
    { name: "90 % up to", points: history.percentiles(0.9, "batch_size", false) },
  ]],
  [new Chart("Queue", count, 1), () => [
    { name: "images that wait", points: history.curve((t) => t.queue_images) },
    { name: "slots in use", points: history.curve((t) => t.slots_in_use) },
    { name: "connections", points: history.curve((t) => t.connections) },
  ]],
  [new Chart("Batches by device", aSecond, 1), () => history.last.devices.slice(0, MOST_DEVICES).map(({ device }) => (
    { name: device, points: history.rate((t) => of(t, device).batches) }))],
  [new Chart("Restarts of workers", count, 1), () => [
    { name: "since the daemon's start", points: history.curve((t) => t.devices.reduce((sum, { restarts }) => sum + restarts, 0)) },
  ]],
];

const batches = (totals) => totals.batch_size.counts.reduce((sum, number) => sum + number, 0);

// A device that was not there yet has done nothing.
const of = (totals, name) => totals.devices.find(({ device }) => device === name) ?? { batches: 0, restarts: 0 };

// What the GPU's driver says of it; nothing of what it does not.
function health({ utilization_percent: busy, jpeg_percent: jpeg, memory_used_bytes: used, memory_total_bytes: total,
  temperature_celsius: warm, power_milliwatts: power, xid_errors: errors }) {
  const gib = (bytes) => (bytes / 2 ** 30).toFixed(1);
  return [busy === undefined ? "" : `${busy} % busy`, jpeg === undefined ? "" : `JPEG ${jpeg} %`,
    total === undefined ? "" : `${gib(used)} of ${gib(total)} GiB`, warm === undefined ? "" : `${warm} °C`,
    power === undefined ? "" : `${Math.round(power / 1000)} W`, errors ? plural(errors, "error") : ""].filter(Boolean).join(", ");
}

function showDevices({ devices }) {
  byId("devices").tBodies[0].replaceChildren(...devices.map(({ device, up, restarts, batches: number, gpu }) => make("tr", {},
    make("th", { scope: "row" }, device), make("td", { class: up ? "well" : "bad" }, up ? "up" : "down"),
    make("td", {}, number.toLocaleString("en")), make("td", {}, String(restarts)), make("td", {}, health(gpu)))));
}

function showAll() {
  if (byId("view-live").hidden || history.samples.length === 0) return;
  for (const [chart, curves] of charts) chart.show(curves());
  showDevices(history.last);
}

// Only what changed is said aloud.
function say(sentence, bad) {
  const status = byId("live-status");
  if (status.textContent !== sentence) status.textContent = sentence;
  status.classList.toggle("bad", bad);
}

async function poll() {
  clearTimeout(timer);
  try {
    const totals = await ask("totals", { quiet: true });
    history.add(totals);
    say(`${plural(totals.devices.filter(({ up }) => up).length, "worker")} up`, false);
    for (const hear of hearers) hear(totals);
    showAll();
  } catch (error) {
    say(error.status === 401 ? `${error.message} (the button Key, above)` : error.message, true);
  }
  clearTimeout(timer);
  if (document.visibilityState === "visible") timer = setTimeout(poll, EVERY_MS);
}

// hear(totals) is called with each document that came.
export function onTotals(hear) {
  hearers.push(hear);
  if (history.last) hear(history.last);
}

// Asks at once, and from then on: for the start, and for a key that may change what is told.
export const pollNow = poll;

export function startLive() {
  byId("charts").replaceChildren(...charts.map(([chart]) => chart.element));
  document.addEventListener("visibilitychange", poll);
  addEventListener("hashchange", showAll);
}
