/* In: snapshots. Out: the objectives against what was measured, the totals, and every replica as a table.
   A figure without samples is shown as a dash, never as zero. */

import { bytes, count, h, percent, seconds, setAttribute, setText } from "./dom.js";
import { ACTIVITIES } from "./shares.js";

const METRICS = {
  ttft: "First text",
  tpot: "Each further token",
  first_audio: "First audio",
  latency: "Whole answer",
  rtf: "Real-time factor",
};
const TOTALS = ["done", "active", "queued", "failed", "cancelled", "refused", "replayed"];
const BAD = new Set(["failed", "refused"]);

export function showTotals(list, totals) {
  if (!list.children.length) {
    for (const name of TOTALS) list.append(h("div", { "data-total": name }, h("dt", {}, name), h("dd", {})));
  }
  for (const item of list.children) {
    const value = totals[item.dataset.total];
    setText(item.lastChild, count(value));
    item.classList.toggle("bad", BAD.has(item.dataset.total) && value > 0);
    item.classList.toggle("zero", value === 0);
  }
}

export function showObjectives(body, objectives) {
  if (body.children.length !== Math.max(1, objectives.length)) body.replaceChildren(...objectives.map(emptyRow));
  if (!objectives.length) body.replaceChildren(h("tr", {}, h("td", { colspan: 5, class: "none" }, "The intent states no objectives.")));
  objectives.forEach((each, index) => showObjective(body.children[index].cells, each));
}

function emptyRow() {
  const meter = h("div", { class: "meter", "aria-hidden": "true" }, h("i"), h("b"));
  return h("tr", {}, h("th", { scope: "row" }), h("td"), h("td", {}, h("span"), meter), h("td", {}, h("span", { class: "verdict" })), h("td"));
}

function showObjective([name, wanted, got, verdict, samples], { objective, measured, samples: number }) {
  const figure = objective.metric === "rtf" ? (value) => Number(value.toPrecision(3)).toString() : seconds;
  if (!name.children.length) name.append(h("span"), h("small"));
  setText(name.firstChild, METRICS[objective.metric] ?? objective.metric);
  setText(name.lastChild, `${objective.metric} p${objective.percentile}`);
  setText(wanted, `≤ ${figure(objective.bound)}`);
  setText(got.firstChild, measured === null ? "–" : figure(measured));
  const met = measured === null ? "waiting" : measured <= objective.bound ? "met" : "missed";
  setText(verdict.firstChild, met === "waiting" ? "no sample" : met);
  setAttribute(verdict.firstChild, "data-verdict", met);
  setText(samples, count(number));
  const scale = Math.max(objective.bound * 1.25, measured ?? 0);
  const [fill, mark] = got.lastChild.children;
  fill.style.width = `${(100 * (measured ?? 0)) / scale}%`;
  mark.style.insetInlineStart = `${(100 * objective.bound) / scale}%`;
  setAttribute(got.lastChild, "data-verdict", met);
}

export function showTable(body, replicas, shares) {
  while (body.rows.length > replicas.length) body.lastChild.remove();
  while (body.rows.length < replicas.length) body.append(h("tr", {}, h("th", { scope: "row" }), ...Array.from({ length: 14 }, () => h("td"))));
  replicas.forEach((replica, index) => {
    const recent = shares.recent(replica);
    const cells = [
      `${replica.stage} #${replica.replica}`,
      replica.health,
      replica.activity,
      ...ACTIVITIES.map((_, at) => (recent ? percent(recent[at]) : "–")),
      count(replica.active),
      count(replica.served),
      count(replica.restarts),
      bytes(replica.memory_bytes),
      bytes(replica.arena_used_bytes),
      bytes(replica.arena_bytes),
      String(replica.pid),
    ];
    cells.forEach((text, at) => setText(body.rows[index].cells[at], text));
  });
}
