// Requests to the daemon that served this page. Paths are relative to the page, which may lie below a prefix.
import { askForKey, key } from "./key.js";

const TRIES = 4;
const MOST_WAIT_S = 10;

// An answer that is an error, or none at all (status 0). body: what came, where it was JSON.
export class ServerError extends Error {
  constructor(status, sentence, body) {
    super(sentence);
    this.status = status;
    this.body = body;
  }
}

const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

async function send(path, options) {
  const headers = { ...options.headers };
  if (key() !== "") headers.Authorization = `Bearer ${key()}`;
  try {
    return await fetch(path, { method: options.method ?? "GET", body: options.body, headers, cache: "no-store", credentials: "same-origin" });
  } catch {
    throw new ServerError(0, "the server does not answer: is it running, and can this machine reach it?");
  }
}

// Asks, and gives the answer's JSON. quiet: a 401 does not open the dialog. patient: what is refused for a moment (429, 503
// with Retry-After) is asked again.
export async function ask(path, options = {}) {
  for (let tried = 1; ; tried++) {
    const response = await send(path, options);
    const body = await response.json().catch(() => undefined);
    if (response.ok) return body;
    const sentence = body?.error ?? `the server, or a proxy before it, answers ${response.status}`;
    if (response.status === 401 && !options.quiet && (await askForKey(sentence))) {
      options.keyed?.();
      continue;
    }
    const after = Number(response.headers.get("Retry-After"));
    if (options.patient && (response.status === 429 || response.status === 503) && after > 0 && after <= MOST_WAIT_S && tried < TRIES) {
      await wait(after);
      continue;
    }
    throw new ServerError(response.status, sentence, body);
  }
}

export const modelPath = (model, version) =>
  `v2/models/${encodeURIComponent(model)}` + (version ? `/versions/${encodeURIComponent(version)}` : "");
