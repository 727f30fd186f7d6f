/* In: stages and edges of a graph. Out: layers of items in an order with few crossings, and each edge as a chain.
   The door is no item: it is the rail before the first layer and the rail after the last. An edge that skips
   layers gets a lane, a thin item, in each of them, so that it never runs behind a box. */

export const DOOR = "door";

/* Returns {layers: [[item]], chains: [{edge, items}]}; an item is {id, lane, before: [], after: []}. */
export function layered(graph) {
  const depth = depths(graph);
  const last = Math.max(0, ...depth.values());
  const layers = Array.from({ length: last + 1 }, () => []);
  const boxes = new Map();
  for (const stage of graph.stages) {
    const item = { id: stage.name, lane: false, before: [], after: [] };
    boxes.set(stage.name, item);
    layers[depth.get(stage.name)].push(item);
  }
  const chains = graph.edges.map((edge) => chainOf(edge, { depth, last, layers, boxes }));
  for (let sweep = 0; sweep < 4; sweep += 1) {
    for (const layer of layers.slice(1)) sortBy(layer, "before", layers);
    for (const layer of layers.slice(0, -1).reverse()) sortBy(layer, "after", layers);
  }
  for (const layer of layers.slice(1)) sortBy(layer, "before", layers);
  return { layers, chains };
}

/* The longest path from the door; the graph has no cycles, so as many rounds as stages are enough. */
function depths(graph) {
  const depth = new Map(graph.stages.map((stage) => [stage.name, 0]));
  const inner = graph.edges.filter((edge) => edge.source !== DOOR && edge.target !== DOOR);
  for (let round = 0; round < graph.stages.length; round += 1) {
    for (const { source, target } of inner) depth.set(target, Math.max(depth.get(target), depth.get(source) + 1));
  }
  return depth;
}

function chainOf(edge, { depth, last, layers, boxes }) {
  const from = edge.source === DOOR ? -1 : depth.get(edge.source);
  const to = edge.target === DOOR ? last + 1 : depth.get(edge.target);
  const items = edge.source === DOOR ? [] : [boxes.get(edge.source)];
  for (let at = from + 1; at < to; at += 1) {
    const lane = { id: `${edge.name}@${at}`, lane: true, before: [], after: [] };
    layers[at].push(lane);
    items.push(lane);
  }
  if (edge.target !== DOOR) items.push(boxes.get(edge.target));
  for (let at = 1; at < items.length; at += 1) {
    items[at].before.push(items[at - 1]);
    items[at - 1].after.push(items[at]);
  }
  return { edge, items };
}

/* Barycentres; an item without neighbours on that side keeps its place, and ties keep their order. */
function sortBy(layer, side, layers) {
  const places = new Map(layers.flatMap((each) => each.map((item, place) => [item, place / Math.max(1, each.length - 1)])));
  const wanted = new Map(
    layer.map((item) => {
      const near = item[side].map((other) => places.get(other));
      return [item, near.length ? near.reduce((sum, place) => sum + place, 0) / near.length : places.get(item)];
    }),
  );
  layer.sort((one, other) => wanted.get(one) - wanted.get(other));
}
