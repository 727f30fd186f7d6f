/* In: a graph, the measured size of each stage's box, the room there is. Out: where boxes, lines and labels go.
   Pure geometry. `main` runs along the flow (rightwards, or downwards on a narrow screen), `cross` across it. */

import { DOOR, layered } from "./layers.js";

const PORT_GAP = 18;
const ROUNDS = 61; // odd, so that the last one runs with the flow

/* `sizes`: name -> {main, cross}. `room`: {main, rail, gapMin, laneCross, itemGap}.
   Returns {main, cross, boxes: name -> {main, cross}, lines: [{edge, path: [[main, cross]]}]}; each pair of
   points of a path is one gap between layers, to be joined by a curve. */
export function layout(graph, sizes, room) {
  const { layers, chains } = layered(graph);
  for (const item of layers.flat()) {
    const size = item.lane ? { main: 0, cross: room.laneCross } : sizes.get(item.id);
    Object.assign(item, { depthMain: size.main, size: size.cross, at: 0 });
  }
  const span = placeMain(layers, room);
  const cross = placeCross(layers, room.itemGap);
  const ports = portsOf(chains);
  const boxes = new Map();
  for (const item of layers.flat()) {
    if (!item.lane) boxes.set(item.id, { main: item.start, cross: item.at - item.size / 2 });
  }
  const lines = chains.map((chain, index) => ({ edge: chain.edge, path: pathOf(chain, ports[index], { span, room }) }));
  return { main: span, cross, boxes, lines };
}

function placeMain(layers, room) {
  const widths = layers.map((layer) => Math.max(...layer.map((item) => item.depthMain)));
  const taken = widths.reduce((sum, width) => sum + width, 2 * room.rail);
  const gap = Math.max(room.gapMin, (room.main - taken) / (layers.length + 1));
  let start = room.rail + gap;
  layers.forEach((layer, index) => {
    for (const item of layer) {
      item.start = start + (item.lane ? 0 : (widths[index] - item.depthMain) / 2);
      item.end = item.lane ? start + widths[index] : item.start + item.depthMain;
    }
    start += widths[index] + gap;
  });
  return start + room.rail;
}

/* Each layer in turn moves towards its neighbours as far as order and gaps allow. */
function placeCross(layers, gap) {
  for (const layer of layers) settle(layer, layer.map(() => 0), gap);
  for (let round = 0; round < ROUNDS; round += 1) {
    const order = round % 2 ? [...layers].reverse() : layers;
    for (const layer of order) settle(layer, layer.map(pull), gap);
  }
  const low = Math.min(...layers.flat().map((item) => item.at - item.size / 2));
  const high = Math.max(...layers.flat().map((item) => item.at + item.size / 2));
  for (const item of layers.flat()) item.at -= low;
  return high - low;
}

/* Lanes pull hardest: a long line should be straight. */
function pull(item) {
  let sum = 0;
  let weight = 0;
  for (const other of [...item.before, ...item.after]) {
    const each = item.lane && other.lane ? 8 : item.lane || other.lane ? 1 : 4;
    sum += each * other.at;
    weight += each;
  }
  return weight ? sum / weight : item.at;
}

/* Least squares under the order: pool neighbours that would overlap (isotonic regression on shifted centres). */
function settle(layer, wanted, gap) {
  const pools = [];
  let offset = 0;
  layer.forEach((item, index) => {
    if (index) offset += (layer[index - 1].size + item.size) / 2 + gap;
    pools.push({ sum: wanted[index] - offset, count: 1, items: [{ item, offset }] });
    while (pools.length > 1 && mean(pools.at(-2)) > mean(pools.at(-1))) {
      const upper = pools.pop();
      const lower = pools.at(-1);
      lower.sum += upper.sum;
      lower.count += upper.count;
      lower.items.push(...upper.items);
    }
  });
  for (const pool of pools) for (const { item, offset: shift } of pool.items) item.at = mean(pool) + shift;
}

const mean = (pool) => pool.sum / pool.count;

/* Several lines on one side of a box leave it side by side, in the order of where they go. */
function portsOf(chains) {
  const ports = chains.map((chain) => chain.items.map((item) => ({ in: item.at, out: item.at })));
  const sides = new Map();
  chains.forEach((chain, index) => {
    chain.items.forEach((item, place) => {
      if (item.lane) return;
      const note = (side, other) => {
        const key = `${side} ${item.id}`;
        if (!sides.has(key)) sides.set(key, []);
        sides.get(key).push({ port: ports[index][place], side, towards: other?.at ?? item.at, item });
      };
      if (place > 0 || chain.edge.source === DOOR) note("in", chain.items[place - 1]);
      if (place < chain.items.length - 1 || chain.edge.target === DOOR) note("out", chain.items[place + 1]);
    });
  });
  for (const lines of sides.values()) {
    lines.sort((one, other) => one.towards - other.towards);
    const step = Math.min(PORT_GAP, (lines[0].item.size - 16) / lines.length);
    lines.forEach((line, index) => {
      line.port[line.side] = line.item.at + (index - (lines.length - 1) / 2) * step;
    });
  }
  return ports;
}

function pathOf(chain, ports, { span, room }) {
  const path = [];
  chain.items.forEach((item, index) => {
    const opens = index === 0 && chain.edge.source !== DOOR;
    const ends = index === chain.items.length - 1 && chain.edge.target !== DOOR;
    if (!opens) path.push([item.start, ports[index].in]);
    if (!ends) path.push([item.end, ports[index].out]);
  });
  if (chain.edge.source === DOOR) path.unshift([room.rail, ports[0].in]);
  if (chain.edge.target === DOOR) path.push([span - room.rail, ports.at(-1).out]);
  return path;
}
