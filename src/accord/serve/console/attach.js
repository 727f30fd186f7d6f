/* In: files that a person chose, dropped, pasted or recorded. Out: content parts of a chat message.
   What the service reads is sent untouched; anything else is converted here, or refused with a reason. */

import { bytes, seconds } from "./dom.js";
import { toWav } from "./wav.js";

const MOST_BYTES = 23 * 2 ** 20; // as base64 it stays below the 32 MiB that the service takes unless told otherwise
const PICTURES = new Set(["image/png", "image/jpeg", "image/webp"]);

/* Returns {kind, name, detail, url, part}; `url` is a data URL to show a picture by. Throws an Error with a text for people. */
export async function attachment(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name}: ${bytes(file.size)} is more than this page sends; the most is ${bytes(MOST_BYTES)}`);
  if (file.size === 0) throw new Error(`${file.name}: the file is empty; choose another`);
  if (file.type.startsWith("image/")) return picture(file);
  const format = await soundFormat(file);
  if (format || /^(audio|video)\//.test(file.type)) return sound(file, format);
  throw new Error(`${file.name}: neither a picture nor a sound; attach a PNG, JPEG, WebP, WAV, MP3, FLAC or OGG file`);
}

/* By the first bytes: names and types of sound files often lie, and the service refuses a wrong one. */
async function soundFormat(file) {
  const head = new Uint8Array(await file.slice(0, 12).arrayBuffer());
  const word = String.fromCharCode(...head);
  if (word.startsWith("RIFF") && word.endsWith("WAVE")) return "wav";
  if (word.startsWith("fLaC")) return "flac";
  if (word.startsWith("OggS")) return "ogg";
  return word.startsWith("ID3") || (head[0] === 0xff && (head[1] & 0xe6) === 0xe2) ? "mp3" : null;
}

async function sound(file, known) {
  let [format, blob, detail] = [known, file, bytes(file.size)];
  if (!format) {
    const wav = await toWav(file).catch(() => {
      throw new Error(`${file.name}: this browser can't read that sound; attach a WAV, MP3, FLAC or OGG file`);
    });
    [format, blob, detail] = ["wav", wav.blob, seconds(wav.duration_s)];
  }
  const data = (await dataUrl(blob)).split(",", 2)[1];
  return { kind: "sound", name: file.name, detail, url: null, part: { type: "input_audio", input_audio: { data, format } } };
}

async function picture(file) {
  const blob = PICTURES.has(file.type) ? file : await toPng(file);
  const url = await dataUrl(blob);
  return { kind: "picture", name: file.name, detail: bytes(file.size), url, part: { type: "image_url", image_url: { url } } };
}

async function toPng(file) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name}: this browser can't read that picture; attach a PNG, JPEG or WebP file`);
  });
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  bitmap.close();
  return canvas.convertToBlob({ type: "image/png" });
}

function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`the file can't be read: ${reader.error.message}`));
    reader.readAsDataURL(blob);
  });
}
