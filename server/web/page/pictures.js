// Pictures of the user: what is shown of them, and how they are sent.
import { make } from "./dom.js";
import { ask } from "./server.js";

const THUMBNAIL = 320;
// A form of pictures is one request; so many, and so many bytes, are far below the limits of a daemon as it ships.
const MOST_PICTURES = 32;
const MOST_BYTES = 8 << 20;
const AT_ONCE = 2;

// A small copy, drawn; undefined for what this browser cannot read (the daemon may all the same).
export async function thumbnail(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    return undefined;
  }
  const scale = Math.min(1, THUMBNAIL / Math.max(bitmap.width, bitmap.height));
  const canvas = make("canvas", { width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale)), "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas;
}

// Groups of pictures that go into one request each.
export function groups(pictures) {
  const made = [];
  let bytes = 0;
  for (const picture of pictures) {
    const group = made[made.length - 1];
    if (group === undefined || group.length === MOST_PICTURES || bytes + picture.file.size > MOST_BYTES) {
      made.push([picture]);
      bytes = picture.file.size;
    } else {
      group.push(picture);
      bytes += picture.file.size;
    }
  }
  return made;
}

function bodyOf(group) {
  // Without a name for the type the daemon tells it by the content, which it does anyway.
  if (group.length === 1) return { body: group[0].file, headers: { "Content-Type": "application/octet-stream" } };
  const form = new FormData();
  for (const { file } of group) form.append("image", file, file.name);
  return { body: form };
}

function take(group, answer) {
  group.forEach((picture, i) => {
    const { predictions, error } = answer.results[i];
    picture.predictions = predictions;
    picture.error = error;
    picture.answer = { ...answer, results: undefined, pictures: group.length };
  });
}

async function sendGroup(group, path, told) {
  try {
    take(group, await ask(path, { method: "POST", ...bodyOf(group), patient: true }));
  } catch (error) {
    if (error.status === 413 && group.length > 1) {
      // This daemon takes less at once.
      const half = group.length >> 1;
      await sendGroup(group.slice(0, half), path, told);
      await sendGroup(group.slice(half), path, told);
      return;
    }
    if (error.body?.results?.length === group.length && error.body.timing) take(group, error.body);
    for (const picture of group) picture.error ??= error.message;
  }
  told(group);
}

// Sends them; told(group) is called when the pictures of a request have predictions and an answer, or an error.
export async function send(pictures, path, told) {
  const left = groups(pictures);
  const next = async () => {
    for (let group = left.shift(); group !== undefined; group = left.shift()) await sendGroup(group, path, told);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
}
