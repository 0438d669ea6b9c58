// The page: three views, one of which is shown, named by the fragment of the URL.
import { byId } from "./dom.js";
import { startKey } from "./key.js";
import { pollNow, startLive } from "./live.js";
import { showModels, startModels } from "./models.js";
import { ask } from "./server.js";
import { readModels, startTry } from "./try.js";

const VIEWS = ["try", "live", "models"];

// moved: the user chose it, so the focus goes there, too.
function show(moved) {
  const wanted = location.hash.slice(1);
  const view = VIEWS.includes(wanted) ? wanted : VIEWS[0];
  for (const name of VIEWS) {
    byId(`view-${name}`).hidden = name !== view;
    const link = document.querySelector(`nav a[href="#${name}"]`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "models") showModels();
  if (moved) byId(`${view}-title`).focus();
}

// quiet: the views' own requests ask for the key.
async function readRelease() {
  const server = await ask("v2", { quiet: true }).catch(() => undefined);
  byId("release").textContent = server?.version ?? "";
}

function readAll() {
  readRelease();
  pollNow();
  readModels();
  show(false);
}

startTry();
startModels();
startLive();
startKey(readAll);
addEventListener("hashchange", () => show(true));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("main section:not([hidden]) h1").focus();
});
readAll();
