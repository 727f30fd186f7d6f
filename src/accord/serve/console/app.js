/* In: the service's own API, at the address that served this page. Out: the live console.
   This module only wires the others together. */

import { byId, setAttribute, setText, span } from "./dom.js";
import { startAsking } from "./ask.js";
import { startFeed } from "./feed.js";
import { showObjectives, showTable, showTotals } from "./figures.js";
import { Graph, graphInWords } from "./graph.js";
import { startKeyForm } from "./key.js";
import { Shares } from "./shares.js";

const shares = new Shares();
const graph = new Graph(byId("drawing"));
let told = "";
let ready = false;

function show(status) {
  shares.add(status);
  graph.show(status, shares);
  document.title = `${status.name} · Accord`;
  setText(byId("service"), status.name);
  setText(byId("model"), status.graph.model);
  setText(byId("uptime"), `up ${span(status.uptime_s)}`);
  ready = status.ready;
  setAttribute(document.body, "data-ready", String(ready));
  showTotals(byId("totals"), status.totals);
  showObjectives(byId("objectives"), status.objectives);
  showTable(byId("replica-table"), status.replicas, shares);
  const shape = JSON.stringify(status.graph);
  if (shape !== told) showGraphOnce(status.graph);
  told = shape;
}

function showGraphOnce(stages) {
  byId("edges-in-words").replaceChildren(graphInWords(stages));
  byId("speak-label").hidden = !stages.edges.some((edge) => edge.target === "door" && edge.payload === "pcm");
}

let countdown = 0;

function connection({ kind, text, retry_ms: retryMs }) {
  clearInterval(countdown);
  setAttribute(document.body, "data-connection", kind);
  byId("retry").hidden = kind !== "lost";
  setText(byId("connection-text"), kind === "lost" ? "Not connected" : kind === "live" && !ready ? "Starting" : text);
  byId("lost").hidden = kind !== "lost";
  if (kind !== "lost") return;
  const until = Date.now() + retryMs;
  setText(byId("lost-reason"), `Not connected: ${text}. What you see is as it was last known.`);
  const tell = () => setText(byId("lost-when"), `Trying again in ${Math.max(0, Math.ceil((until - Date.now()) / 1000))} s`);
  tell();
  countdown = setInterval(tell, 500);
}

startKeyForm();
const feed = startFeed({ onStatus: show, onState: connection });
byId("retry").addEventListener("click", feed.retry);
startAsking();
