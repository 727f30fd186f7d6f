/* In: the API key that a person types, if the service asks for one. Out: request headers.
   The key lives in this page's memory only: never in storage, a cookie or an address. */

import { byId } from "./dom.js";

let key = "";
const waiting = new Set();

export function headers(more = {}) {
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

/* Shows the field, and calls `again` once the person has given a key. */
export function askForKey(again) {
  waiting.add(again);
  setTextOfReason();
  if (byId("key-form").hidden) {
    byId("key-form").hidden = false;
    byId("key").focus();
  }
}

function setTextOfReason() {
  byId("key-reason").textContent = key ? "The service refused this API key." : "This service asks for an API key.";
}

export function startKeyForm() {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    key = byId("key").value.trim();
    byId("key").value = "";
    byId("key-form").hidden = true;
    const again = [...waiting];
    waiting.clear();
    for (const call of again) call();
  });
}
