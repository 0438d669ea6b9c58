// The key that requests are sent with. It is kept in this tab alone (sessionStorage), and never shown again.
import { byId } from "./dom.js";

const NAME = "convoyd-key";
let waiting; // the promise of the dialog that is open
let memory = "";

// Storage may be forbidden: the key then lasts until the page is reloaded.
function stored(write) {
  try {
    if (write !== undefined) {
      if (write === "") sessionStorage.removeItem(NAME);
      else sessionStorage.setItem(NAME, write);
    }
    return sessionStorage.getItem(NAME) ?? "";
  } catch {
    return memory;
  }
}

export const key = () => stored() || memory;

function use(text) {
  memory = text;
  stored(text);
  byId("key-button").textContent = text === "" ? "Key" : "Key is set";
}

// Asks for a key, once at a time. True when the user gave one.
export function askForKey(reason) {
  waiting ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    byId("key-reason").textContent = reason;
    byId("key-input").value = "";
    byId("key-forget").hidden = key() === "";
    let given = false;
    const submit = (event) => {
      event.preventDefault();
      const text = byId("key-input").value.trim();
      if (text === "") return;
      given = true;
      use(text);
      dialog.close();
    };
    const forget = () => {
      use("");
      given = true;
      dialog.close();
    };
    const cancel = () => dialog.close();
    const done = new AbortController();
    byId("key-form").addEventListener("submit", submit, { signal: done.signal });
    byId("key-forget").addEventListener("click", forget, { signal: done.signal });
    byId("key-cancel").addEventListener("click", cancel, { signal: done.signal });
    dialog.addEventListener("close", () => {
      done.abort();
      byId("key-input").value = "";
      waiting = undefined;
      resolve(given);
    }, { once: true });
    dialog.showModal();
  });
  return waiting;
}

// changed() is called after the user gave another key, or took it away.
export function startKey(changed) {
  use(key());
  byId("key-button").addEventListener("click", async () => {
    if (await askForKey("The server's operator gives keys. One with the role admin may load and unload models.")) changed();
  });
}
