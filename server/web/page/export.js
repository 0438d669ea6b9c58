// Results as files.
import { make } from "./dom.js";

// A spreadsheet takes a cell that begins so for a formula: a quote makes it text.
const cell = (value) => {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t\r]/.test(text) && typeof value !== "number" ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export function csv(pictures) {
  const rows = [["file", "model", "version", "rank", "label", "index", "probability", "error"]];
  for (const { file, answer, predictions, error } of pictures) {
    const head = [file.name, answer?.model, answer?.version];
    if (!predictions?.length) rows.push([...head, "", "", "", "", error]);
    predictions?.forEach(({ label, index, probability }, i) => rows.push([...head, i + 1, label, index, probability, ""]));
  }
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

export const json = (pictures) => `${JSON.stringify(pictures.map(({ file, answer, predictions, error }) => (
  { file: file.name, model: answer?.model, version: answer?.version, predictions, error, timing: answer?.timing,
    batch_size: answer?.batch_size, device: answer?.device })), null, 2)}\n`;

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
