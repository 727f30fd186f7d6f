/* In: what a person types, attaches or records. Out: the answer as it streams, read and heard.
   Invariant: at most one question is under way; stopping it aborts the request and the sound at once. */

import { attachment } from "./attach.js";
import { ask, Locked } from "./chat.js";
import { byId, h, plural, seconds, setText } from "./dom.js";
import { askForKey } from "./key.js";
import { Player } from "./player.js";
import { startRecorder } from "./recorder.js";

const ATTACHED_MOST = 8;
const LOG_MOST = 50;

let attached = [];
let running = null;
const player = new Player(showButtons);

export function startAsking() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  byId("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && stop());
  byId("stop").addEventListener("click", stop);
  startAttaching();
  startRecorder(byId("record"), { onFile: (file) => attach([file]), onError: showError });
}

function startAttaching() {
  const field = byId("file");
  byId("attach").addEventListener("click", () => field.click());
  field.addEventListener("change", () => {
    attach([...field.files]);
    field.value = "";
  });
  document.addEventListener("paste", (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    attach([...event.clipboardData.files]);
  });
  const panel = byId("ask").parentElement;
  for (const kind of ["dragenter", "dragover"]) document.addEventListener(kind, (event) => drag(event, panel, true));
  for (const kind of ["dragleave", "drop"]) document.addEventListener(kind, (event) => drag(event, panel, false));
  document.addEventListener("drop", (event) => attach([...event.dataTransfer.files]));
}

function drag(event, panel, over) {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  panel.classList.toggle("dropping", over);
}

async function attach(files) {
  showError("");
  for (const file of files) {
    try {
      const item = await attachment(file);
      if (attached.length >= ATTACHED_MOST) throw new Error(`At most ${ATTACHED_MOST} files go with one question.`);
      attached.push(item);
    } catch (error) {
      showError(error.message);
    }
  }
  showAttached();
}

function showAttached() {
  byId("attached").replaceChildren(
    ...attached.map((item) => {
      const remove = h("button", { type: "button", "aria-label": `Remove ${item.name}` }, "×");
      remove.addEventListener("click", () => {
        attached = attached.filter((other) => other !== item);
        showAttached();
        byId("question").focus();
      });
      return h("li", {}, ...shown(item), remove);
    }),
  );
}

function shown(item) {
  const sign = item.url ? h("img", { src: item.url, alt: "" }) : h("span", { class: "wave", "aria-hidden": "true" }, "♪");
  return [sign, h("span", { class: "name" }, item.name), h("small", {}, item.detail)];
}

function submit() {
  if (running) return;
  const text = byId("question").value.trim();
  if (!text && !attached.length) return showError("Type a question, or attach a picture or a sound.");
  showError("");
  const asked = { text, items: attached };
  byId("question").value = "";
  attached = [];
  showAttached();
  send(asked);
}

async function send(asked) {
  player.open();
  const controller = new AbortController();
  running = controller;
  showButtons();
  const content = [...asked.items.map((item) => item.part), ...(asked.text ? [{ type: "text", text: asked.text }] : [])];
  const answer = startAnswer(asked);
  try {
    const speak = byId("speak").checked && !byId("speak-label").hidden;
    await ask({ content, speak, signal: controller.signal }, answer);
  } catch (error) {
    if (controller.signal.aborted) answer.onStopped();
    else {
      answer.onFailed();
      showError(error instanceof TypeError ? "The service can't be reached. Your question is back in the box." : error.message);
      giveBack(asked);
      if (error instanceof Locked) askForKey(submit);
    }
  } finally {
    running = null;
    answer.over();
    showButtons();
  }
}

/* A question that failed isn't lost: it returns to the box, unless the person has begun another. */
function giveBack({ text, items }) {
  if (!byId("question").value) byId("question").value = text;
  if (!attached.length) attached = items;
  showAttached();
}

function startAnswer({ text, items }) {
  const said = h("p", { class: "said" });
  const note = h("p", { class: "note" }, "waiting for the first word");
  const box = h("div", { class: "answer", "aria-busy": "true" }, said, note);
  const asked = h("div", { class: "asked" }, ...items.map((item) => h("span", { class: "chip" }, ...shown(item))), h("p", {}, text));
  const log = byId("log");
  log.tabIndex = 0; // now there is something to scroll
  log.append(h("li", {}, asked, box));
  while (log.children.length > LOG_MOST) log.firstChild.remove();
  log.scrollTop = log.scrollHeight;
  const figures = new Figures();
  const refresh = (end) => {
    setText(note, figures.inWords(end));
    log.scrollTop = log.scrollHeight;
  };
  return {
    onText(piece) {
      figures.mark("text");
      said.append(piece);
      refresh();
    },
    onAudio(base64) {
      figures.mark("audio");
      player.push(base64);
      refresh();
    },
    onEnd: refresh,
    onStopped: () => setText(note, `stopped · ${figures.inWords()}`),
    onFailed: () => setText(note, "failed"),
    over: () => box.setAttribute("aria-busy", "false"),
  };
}

/* Times as this page saw them, from the press of the button. */
class Figures {
  #from = performance.now();
  #marks = new Map();

  mark(kind) {
    if (!this.#marks.has(kind)) this.#marks.set(kind, (performance.now() - this.#from) / 1000);
  }

  inWords(end) {
    const words = [];
    if (this.#marks.has("text")) words.push(`first text ${seconds(this.#marks.get("text"))}`);
    if (this.#marks.has("audio")) words.push(`first audio ${seconds(this.#marks.get("audio"))}`);
    if (player.scheduled_s) words.push(`${player.scheduled_s.toFixed(1)} s of speech`);
    if (player.gaps) words.push(plural(player.gaps, "gap"));
    if (end?.usage) words.push(plural(end.usage.completion_tokens, "token"));
    if (end) words.push(`whole answer ${seconds((performance.now() - this.#from) / 1000)}`);
    if (end?.reason === "length") words.push("cut at the token limit");
    return words.join(" · ");
  }
}

function stop() {
  running?.abort();
  player.stop();
  showButtons();
}

function showButtons() {
  const busy = running !== null;
  const stopHadFocus = document.activeElement === byId("stop");
  byId("stop").hidden = !busy && !player.playing;
  setText(byId("stop"), busy ? "Stop" : "Stop the sound");
  byId("send").setAttribute("aria-disabled", String(busy)); // a disabled button would lose the focus
  if (byId("stop").hidden && stopHadFocus) byId("send").focus();
}

function showError(text) {
  byId("error").hidden = !text;
  setText(byId("error"), text);
}
