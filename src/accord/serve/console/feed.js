/* In: the service's SSE stream of snapshots. Out: each ServiceStatus, and what the connection is doing.
   Invariant: at most one stream is open; none while the tab is hidden; a silent stream counts as lost. */

import { askForKey, headers } from "./key.js";
import { errorOf, events } from "./sse.js";

const INTERVAL_S = 1;
const SILENCE_MS = 8000;
const BACKOFF_MS = [500, 1000, 2000, 4000, 8000];

/* `onStatus(status)` for each snapshot; `onState({kind, text, retry_ms})` with kind live, paused, locked or lost. */
export function startFeed({ onStatus, onState }) {
  let failures = 0;
  let timer = 0;
  let open = null;

  function close() {
    clearTimeout(timer);
    open?.abort();
    open = null;
  }

  function connect() {
    close();
    if (document.hidden) return onState({ kind: "paused", text: "Paused while this tab is hidden" });
    open = new AbortController();
    read(open).catch((error) => error);
  }

  async function read(mine) {
    let reason = "the service closed the stream";
    try {
      const answer = await stream(mine);
      if (answer === "locked") return;
    } catch (error) {
      reason = error instanceof TypeError ? "nothing answers at this address" : error.message;
    }
    if (open !== mine) return; // closed on purpose, by a newer connection or a hidden tab
    close();
    const retry_ms = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] * (0.8 + 0.4 * Math.random());
    failures += 1;
    timer = setTimeout(connect, retry_ms);
    onState({ kind: "lost", text: reason, retry_ms });
  }

  async function stream(mine) {
    let silence = setTimeout(() => mine.abort(new Error("the service fell silent")), SILENCE_MS);
    try {
      const response = await fetch(`status/stream?interval=${INTERVAL_S}`, { headers: headers(), signal: mine.signal });
      if (response.status === 401) {
        askForKey(connect);
        onState({ kind: "locked", text: "an API key is needed" });
        return "locked";
      }
      if (!response.ok) throw new Error(await errorOf(response));
      for await (const data of events(response)) {
        clearTimeout(silence);
        silence = setTimeout(() => mine.abort(new Error("the service fell silent")), SILENCE_MS);
        failures = 0;
        onStatus(JSON.parse(data));
        onState({ kind: "live", text: "Live" });
      }
    } finally {
      clearTimeout(silence);
    }
    return "ended";
  }

  document.addEventListener("visibilitychange", connect);
  connect();
  return { retry: connect };
}
