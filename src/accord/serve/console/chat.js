/* In: content parts of one question. Out: what the streamed answer brings, piece by piece.
   The format is OpenAI's: chunks of chat.completion with delta.content and delta.audio, then usage, then [DONE]. */

import { headers } from "./key.js";
import { errorOf, events } from "./sse.js";

let model = null;

/* The service wants a key, or another one. */
export class Locked extends Error {}

/* Calls onText(text), onAudio(base64) and onEnd({reason, usage}); throws with a text for people, or AbortError. */
export async function ask({ content, speak, signal }, { onText, onAudio, onEnd }) {
  model ??= await modelServed(signal);
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(question({ content, speak })),
    signal,
  });
  if (response.status === 404) model = null;
  await refuse(response);
  const end = { reason: null, usage: null };
  for await (const data of events(response)) {
    if (data === "[DONE]") return onEnd(end);
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    end.usage = chunk.usage ?? end.usage;
    for (const choice of chunk.choices ?? []) take(choice, { end, onText, onAudio });
  }
  throw new Error("The answer broke off: the service closed the stream before its end. Ask again.");
}

async function refuse(response) {
  if (response.ok) return;
  const text = await errorOf(response);
  throw response.status === 401 ? new Locked(text) : new Error(text);
}

/* The one model name that the service answers to; asked again after a 404, since another service may be up by now. */
async function modelServed(signal) {
  const response = await fetch("v1/models", { headers: headers(), signal });
  await refuse(response);
  return (await response.json()).data[0].id;
}

function question({ content, speak }) {
  const body = { model, messages: [{ role: "user", content }], stream: true, stream_options: { include_usage: true } };
  if (!speak) return { ...body, modalities: ["text"] };
  return { ...body, modalities: ["text", "audio"], audio: { voice: "default", format: "pcm16" } };
}

function take({ delta, finish_reason: reason }, { end, onText, onAudio }) {
  end.reason = reason ?? end.reason;
  const text = delta?.content || delta?.audio?.transcript; // a spoken answer's text is the transcript of its sound
  if (text) onText(text);
  if (delta?.audio?.data) onAudio(delta.audio.data);
}
