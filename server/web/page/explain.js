// Explain: where in a picture the network found a class. The daemon draws a class activation map where the network has one;
// of others parts of the picture are covered, and what the class loses by that is the map (occlusion).
import { make, percent } from "./dom.js";
import { send } from "./pictures.js";
import { ask, modelPath } from "./server.js";

const CELLS = 6; // of occlusion, along each side
const COVER = 2; // cells that are covered at a time, along each side: with the whole picture one form of 26
const SIDE = 512; // pixels of a covered picture's longer side, at most: networks see less
const EXACT = 1 << 14; // pixels up to which it is not compressed with loss

const PLACES = [["upper left", "upper middle", "upper right"], ["middle left", "middle", "middle right"], ["lower left", "lower middle", "lower right"]];

const blank = (width, height) => make("canvas", { width, height });

// A map: levels from 0 to 1, row after row, and the box of the picture that it covers.
function placeOf({ levels, width, height, box: [left, top, right, bottom] }) {
  const best = levels.indexOf(Math.max(...levels));
  const third = (from, to, part) => Math.max(0, Math.min(2, Math.floor(3 * (from + (to - from) * part))));
  return PLACES[third(top, bottom, (Math.floor(best / width) + .5) / height)][third(left, right, (best % width + .5) / width)];
}

// From nothing over violet and red to yellow, ever lighter.
function heat({ levels, width, height }) {
  const canvas = blank(width, height);
  const image = new ImageData(width, height);
  levels.forEach((level, i) => image.data.set([Math.min(255, 90 + 330 * level), Math.max(0, 440 * level - 200), Math.max(0, 160 - 160 * level), 210 * level], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function paint(canvas, picture, map) {
  const context = canvas.getContext("2d");
  const { width, height } = Object.assign(canvas, { width: picture.width, height: picture.height });
  const [left, top, right, bottom] = map.box;
  context.filter = "grayscale(1) brightness(.8)"; // where the browser knows filters
  context.drawImage(picture, 0, 0);
  context.filter = "none";
  context.imageSmoothingQuality = "high";
  context.drawImage(heat(map), left * width, top * height, (right - left) * width, (bottom - top) * height);
}

async function levelsOf(url) {
  const bytes = Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = blank(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  return { levels: Array.from({ length: data.length / 4 }, (_, i) => data[4 * i] / 255), width: canvas.width, height: canvas.height };
}

async function activation({ file }, path, index) {
  const answer = await ask(`${path}?explain=cam&class=${index}`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" }, patient: true });
  const { png, box } = answer.results[0].explanation;
  return { ...(await levelsOf(png)), box };
}

// The picture with a grey square over some cells; without x the picture as it is.
function covered(bitmap, x, y) {
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = blank(Math.max(1, Math.round(bitmap.width * scale)), Math.max(1, Math.round(bitmap.height * scale)));
  const { width, height } = canvas;
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, width, height);
  context.fillStyle = "#808080";
  if (x !== undefined) context.fillRect(x * width / CELLS, y * height / CELLS, COVER * width / CELLS, COVER * height / CELLS);
  const [type, name] = width * height <= EXACT ? ["image/png", "png"] : ["image/jpeg", "jpg"];
  return new Promise((resolve, reject) => canvas.toBlob((blob) => {
    if (blob) resolve({ file: new File([blob], `${x}-${y}.${name}`, { type }), x, y });
    else reject(new Error("this browser cannot write a covered picture"));
  }, type, .95));
}

// The covered pictures' predictions, of all classes.
async function occluded({ file }, path) {
  const bitmap = await createImageBitmap(file);
  const wanted = [covered(bitmap)];
  for (let y = 0; y <= CELLS - COVER; y++) for (let x = 0; x <= CELLS - COVER; x++) wanted.push(covered(bitmap, x, y));
  const pictures = await Promise.all(wanted);
  bitmap.close();
  await send(pictures, `${path}?top=1000&threshold=0`, () => {});
  const failed = pictures.find(({ error }) => error);
  if (failed) throw new Error(failed.error);
  return pictures;
}

// What the class loses where cells are covered, in the mean over the pictures that cover a cell.
function occlusion([whole, ...pictures], index) {
  const probability = ({ predictions }) => predictions.find((one) => one.index === index)?.probability ?? 0;
  const sums = new Array(CELLS * CELLS).fill(0);
  const counts = new Array(CELLS * CELLS).fill(0);
  for (const picture of pictures) {
    for (let y = picture.y; y < picture.y + COVER; y++) for (let x = picture.x; x < picture.x + COVER; x++) {
      sums[y * CELLS + x] += probability(whole) - probability(picture);
      counts[y * CELLS + x]++;
    }
  }
  const losses = sums.map((sum, i) => Math.max(0, sum / counts[i]));
  const most = Math.max(...losses);
  return { levels: losses.map((loss) => (most > 0 ? loss / most : 0)), width: CELLS, height: CELLS, box: [0, 0, 1, 1], most };
}

// The controls and the map for a picture that was answered; nothing where this browser cannot show it.
export function explainer(picture) {
  const { canvas, predictions, answer } = picture;
  if (!canvas || !answer || !predictions?.length) return undefined;
  const path = `${modelPath(answer.model, answer.version)}/classify`;
  const status = make("p", { class: "status", role: "status" });
  const shown = make("canvas", { role: "img", hidden: true });
  const select = make("select", {}, ...predictions.map(({ label }, i) => make("option", { value: i }, label)));
  let pictures; // of occlusion, once they were asked about

  async function explain() {
    const { label, index } = predictions[select.value];
    let map;
    let sentence;
    button.disabled = true;
    status.classList.remove("bad");
    status.textContent = "Looking …";
    try {
      if (!pictures) {
        try {
          map = await activation(picture, path, index);
          sentence = `Class activation map: the ${placeOf(map)} speaks most for ${label}.`;
        } catch (error) {
          if (error.status !== 400) throw error;
          status.textContent = "This network has no class activation map: covering parts of the picture …";
          pictures = await occluded(picture, path);
        }
      }
      if (pictures) {
        map = occlusion(pictures, index);
        sentence = map.most > 0 ? `Occlusion: covering the ${placeOf(map)} takes most from ${label}, ${percent(map.most)}.` : `Occlusion: covering one part takes nothing from ${label}.`;
      }
      paint(shown, canvas, map);
      shown.setAttribute("aria-label", sentence);
      shown.hidden = false;
      status.textContent = sentence;
    } catch (error) {
      status.classList.add("bad");
      status.textContent = error.message;
    }
    button.disabled = false;
  }

  const button = make("button", { type: "button", click: explain }, "Explain");
  select.addEventListener("change", () => {
    if (!shown.hidden) explain();
  });
  return make("div", { class: "explain" }, make("div", { class: "row fields" }, make("label", {}, "Where is ", select), button), status, shown);
}
