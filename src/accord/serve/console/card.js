/* In: one stage, then its replicas as they are now. Out: the box that shows them.
   Each replica: what it does, a bar of its last seconds, a ribbon of its last minute, and what it holds. */

import { bytes, count, h, percent, plural, setAttribute, setText, svg } from "./dom.js";
import { ACTIVITIES } from "./shares.js";

const MINUTE = 60;

export function card(stage) {
  const list = h("ul", { class: "replicas" });
  const kind = stage.capabilities.join(" + ");
  const head = h("header", {}, h("h3", {}, stage.name), h("p", { class: "kind", title: `needs ${kind}; batching: ${stage.batching}` }, kind));
  const none = h("p", { class: "none" }, "no replica");
  const node = h("article", { class: "stage", "aria-label": `Stage ${stage.name}`, "data-stage": stage.name }, head, list, none);
  const rows = new Map();
  return {
    node,
    update(replicas, shares) {
      none.hidden = replicas.length > 0;
      for (const replica of replicas) {
        if (!rows.has(replica.replica)) {
          rows.set(replica.replica, row(replica));
          list.append(rows.get(replica.replica).node);
        }
        rows.get(replica.replica).update(replica, shares);
      }
    },
  };
}

function row(first) {
  const state = h("span", { class: "state" });
  const active = h("span", { class: "active" });
  const segments = ACTIVITIES.map((activity) => h("i", { "data-activity": activity }));
  const bar = h("div", { class: "bar", role: "img" }, ...segments);
  const paths = ACTIVITIES.map((activity) => svg("path", { "data-activity": activity }));
  const ribbon = svg("svg", { class: "ribbon", viewBox: `0 0 ${MINUTE} 1`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...paths);
  const memory = h("span", { title: "resident memory" });
  const arena = h("span", { title: "occupancy of the shared-memory arena" });
  const restarts = h("span", { title: "restarts since the service started" });
  const node = h(
    "li",
    { class: "replica", "data-replica": first.replica },
    h("div", { class: "line" }, h("span", { class: "number", title: "replica" }, `#${first.replica}`), state),
    bar,
    ribbon,
    h("div", { class: "line small" }, active, memory, arena, restarts),
  );
  return {
    node,
    update(replica, shares) {
      const lives = replica.health === "ready" || replica.health === "draining";
      setAttribute(node, "data-health", replica.health);
      setAttribute(node, "data-activity", lives ? replica.activity : "none");
      setText(state, replica.health === "ready" ? replica.activity : replica.health);
      setText(active, `${count(replica.active)} active`);
      showBar({ bar, segments }, shares.recent(replica));
      showRibbon(paths, shares.minute(replica));
      setText(memory, bytes(replica.memory_bytes));
      setText(arena, `arena ${replica.arena_bytes ? percent(replica.arena_used_bytes / replica.arena_bytes) : "–"}`);
      setText(restarts, plural(replica.restarts, "restart"));
      restarts.classList.toggle("warn", replica.restarts > 0);
    },
  };
}

function showBar({ bar, segments }, recent) {
  const shares = recent ?? ACTIVITIES.map(() => 0);
  segments.forEach((segment, index) => {
    segment.style.flexGrow = shares[index].toFixed(4);
  });
  setAttribute(bar, "aria-label", recent ? inWords(recent) : "no measurement yet");
  setAttribute(bar, "title", recent ? `last 5 s: ${inWords(recent)}` : "no measurement yet");
}

export function inWords(shares) {
  return ACTIVITIES.map((activity, index) => `${activity} ${percent(shares[index])}`).join(", ");
}

/* One column for each second, now at the right; a column is the five shares stacked, busy at the bottom. */
function showRibbon(paths, minute) {
  const strokes = ACTIVITIES.map(() => "");
  const shown = minute.slice(-MINUTE);
  shown.forEach((shares, index) => {
    let top = 1;
    shares?.forEach((share, activity) => {
      top -= share;
      if (share > 0.004) strokes[activity] += `M${MINUTE - shown.length + index} ${top.toFixed(3)}h1v${share.toFixed(3)}h-1z`;
    });
  });
  paths.forEach((path, index) => setAttribute(path, "d", strokes[index]));
}
