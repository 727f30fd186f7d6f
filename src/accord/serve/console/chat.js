/* In: content parts of one question. Out: what the streamed answer brings, piece by piece.
   The format is OpenAI's: chunks of chat.completion with delta.content and delta.audio, then usage, then [DONE]. */

import { headers } from "./key.js";
import { errorOf, events } from "./sse.js";

/* The service wants a key, or another one. */
export class Locked extends Error {}

/* Calls onText(text), onAudio(base64) and onEnd({reason, usage}); throws with a text for people, or AbortError. */
export async function ask({ model, content, speak, signal }, { onText, onAudio, onEnd }) {
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(question({ model, content, speak })),
    signal,
  });
  if (response.status === 401) throw new Locked(await errorOf(response));
  if (!response.ok) throw new Error(await errorOf(response));
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

function question({ model, content, speak }) {
  const body = { model, messages: [{ role: "user", content }], stream: true, stream_options: { include_usage: true } };
  if (!speak) return { ...body, modalities: ["text"] };
  return { ...body, modalities: ["text", "audio"], audio: { voice: "alloy", format: "pcm16" } };
}

function take({ delta, finish_reason: reason }, { end, onText, onAudio }) {
  end.reason = reason ?? end.reason;
  if (delta?.content) onText(delta.content);
  if (delta?.audio?.data) onAudio(delta.audio.data);
}
