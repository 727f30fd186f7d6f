/* In: snapshots and the shares of each replica. Out: the live drawing: boxes of HTML over lines of SVG.
   The drawing is laid out again only when the graph, the number of replicas or the room changes. */

import { h, setAttribute, svg } from "./dom.js";
import { layout } from "./layout.js";
import { card } from "./card.js";

const NARROW_PX = 760; // below this, one scrolls down rather than sideways, whatever the graph
const ACROSS = { rail: 5, gapMin: 74, laneCross: 26, itemGap: 14 };
const DOWN = { rail: 5, gapMin: 62, laneCross: 22, itemGap: 8 };

export class Graph {
  #holder;
  #lines = svg("svg", { "aria-hidden": "true", focusable: "false" });
  #cards = new Map();
  #shape = "";
  #status = null;

  constructor(holder) {
    this.#holder = holder;
    holder.append(this.#lines);
    new ResizeObserver(() => this.#place()).observe(holder.parentElement);
  }

  show(status, shares) {
    this.#status = status;
    const shape = JSON.stringify([status.graph, status.replicas.map((replica) => [replica.stage, replica.replica])]);
    if (shape !== this.#shape) this.#build(status, shape);
    for (const stage of status.graph.stages) {
      const replicas = status.replicas.filter((replica) => replica.stage === stage.name);
      this.#cards.get(stage.name).update(replicas, shares);
    }
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#place();
    }
  }

  #build(status) {
    for (const { node } of this.#cards.values()) node.remove();
    this.#cards = new Map(status.graph.stages.map((stage) => [stage.name, card(stage)]));
    for (const { node } of this.#cards.values()) this.#holder.append(node);
  }

  #place() {
    if (!this.#status || !this.#cards.size) return;
    const width = this.#holder.parentElement.clientWidth;
    const sizes = [...this.#cards].map(([name, { node }]) => [name, { wide: node.offsetWidth, high: node.offsetHeight }]);
    const across = this.#laid(sizes, ({ wide, high }) => ({ main: wide, cross: high }), { ...ACROSS, main: width });
    const downwards = this.#laid(sizes, ({ wide, high }) => ({ main: high, cross: wide }), { ...DOWN, main: 0 });
    const down = across.main > width && (downwards.cross <= width || width < NARROW_PX);
    setAttribute(this.#holder, "data-flow", down ? "down" : "across");
    this.#draw(down ? downwards : across, { down, width, rail: (down ? DOWN : ACROSS).rail });
  }

  #laid(sizes, turned, room) {
    return layout(this.#status.graph, new Map(sizes.map(([name, size]) => [name, turned(size)])), room);
  }

  #draw(plan, { down, width, rail }) {
    const shift = down ? Math.max(0, (width - plan.cross) / 2) : 0;
    const point = ([main, cross]) => (down ? [cross + shift, main] : [main, cross]);
    for (const [name, at] of plan.boxes) {
      const [left, top] = point([at.main, at.cross]);
      this.#cards.get(name).node.style.translate = `${Math.round(left)}px ${Math.round(top)}px`;
    }
    const [wide, high] = down ? [Math.max(width, plan.cross), plan.main] : [plan.main, plan.cross];
    Object.assign(this.#holder.style, { width: `${Math.ceil(wide)}px`, height: `${Math.ceil(high)}px` });
    setAttribute(this.#lines, "viewBox", `0 0 ${Math.ceil(wide)} ${Math.ceil(high)}`);
    const ends = rails(plan, { rail, point });
    this.#lines.replaceChildren(...ends, ...plan.lines.flatMap((line) => drawn(line, { down, point })));
    this.#label(plan.lines, { down, point });
  }

  #label(lines, { down, point }) {
    const taken = [];
    for (const { edge, path } of lines) {
      const node = label(edge, down);
      this.#lines.append(node);
      const size = node.getBBox();
      const gap = edge.target === "door" ? path.slice(-2) : path.slice(0, 2);
      const spots = [0.5, 0.32, 0.68, 0.2, 0.8].map((part) => spot(gap.map(point), { part, down }));
      const free = spots.find((at) => !taken.some((other) => overlap(other, at, size))) ?? spots[0];
      taken.push({ ...free, width: size.width, height: size.height });
      setAttribute(node, "transform", `translate(${free.x.toFixed(1)} ${free.y.toFixed(1)})`);
    }
  }
}

/* The client's side: requests come in at one rail, answers leave at the other. */
function rails(plan, { rail, point }) {
  return [rail, plan.main - rail].map((main) => {
    const [[x1, y1], [x2, y2]] = [point([main, 0]), point([main, plan.cross])];
    return svg("line", { class: "rail", x1, y1, x2, y2 });
  });
}

function drawn({ edge, path }, { down, point }) {
  const parts = [];
  for (let at = 0; at < path.length; at += 2) {
    const [from, to] = [point(path[at]), point(path[at + 1])];
    parts.push(at ? `L${from}` : `M${from}`, curve(from, to, down));
  }
  const line = svg("path", { class: "edge", d: parts.join(" ") });
  const [tipX, tipY] = point(path.at(-1));
  const tip = down ? `M${tipX - 4} ${tipY - 6}l4 6l4 -6` : `M${tipX - 6} ${tipY - 4}l6 4l-6 4`;
  const marks = [line, svg("path", { class: "tip", d: tip })];
  if (edge.source === "door") {
    const [cx, cy] = point(path[0]);
    marks.push(svg("circle", { class: "port", cx, cy, r: 3 }));
  }
  return marks;
}

function curve([x1, y1], [x2, y2], down) {
  if (down) return `C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
  return `C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;
}

/* The name, and what it carries where the name doesn't say so. */
function label(edge, down) {
  const text = svg("text", { class: "label", "text-anchor": "middle" });
  text.append(svg("tspan", { class: "name", x: 0, y: down ? 0 : -6 }, edge.name));
  if (edge.payload !== edge.name) text.append(svg("tspan", { class: "payload", x: 0, y: 12 }, edge.payload));
  return text;
}

/* A point on the curve of a gap: the same Bezier as `curve`, at `part`. */
function spot([[x1, y1], [x2, y2]], { part, down }) {
  const ease = part * part * (3 - 2 * part);
  const middle = (a, b) => a + (b - a) * (1.5 * part * (1 - part) + part ** 3);
  if (down) return { x: x1 + (x2 - x1) * ease, y: middle(y1, y2) };
  return { x: middle(x1, x2), y: y1 + (y2 - y1) * ease };
}

function overlap(one, at, size) {
  return Math.abs(one.x - at.x) < (one.width + size.width) / 2 + 4 && Math.abs(one.y - at.y) < (one.height + size.height) / 2;
}

/* The same graph in words, for those who don't see the drawing. */
export function graphInWords(graph) {
  return h(
    "ul",
    {},
    ...graph.edges.map((edge) =>
      h("li", {}, `${edge.name} carries ${edge.payload} from ${client(edge.source)} to ${client(edge.target)}`),
    ),
  );
}

const client = (name) => (name === "door" ? "the client" : name);
