// Places the boxes of a directed graph in layers, after Sugiyama, Tagawa and Toda (1981): layers by the longest
// path, order within a layer by barycentres, places across by least squares that keep order and distance.

/**
 * @param {{id: string, width: number, height: number}[]} nodes
 * @param {{source: string, target: string}[]} edges of an acyclic graph; one that closes a cycle is left out.
 * @param {{isDown: boolean, layerGap: number, nodeGap: number}} options `isDown`: layers from top to bottom.
 * @returns {{places: Map<string, {x: number, y: number}>, paths: {x: number, y: number}[][], width: number,
 *   height: number}} Left upper corners of the boxes, and for each edge the points it goes through.
 */
export function layeredLayout(nodes, edges, options) {
  const boxes = new Map(nodes.map((node) => [node.id, sized(node, options.isDown)]));
  const kept = edges.filter((edge) => boxes.has(edge.source) && boxes.has(edge.target));
  const layerOf = longestPaths([...boxes.keys()], kept);
  const layers = [];
  for (const [id, layer] of layerOf) (layers[layer] ??= []).push(boxes.get(id));
  const chains = kept.map((edge) => withBends(edge, boxes, layerOf, layers));
  const before = new Map(), after = new Map();
  for (const chain of chains) {
    for (let place = 1; place < chain.length; place += 1) {
      push(after, chain[place - 1], chain[place]);
      push(before, chain[place], chain[place - 1]);
    }
  }
  order(layers, before, after);
  placeAcross(layers, before, after, options.nodeGap);
  const depth = placeAlong(layers, options.layerGap);
  return result(nodes, boxes, chains, depth, options.isDown);
}

// `across` runs along a layer, `along` from layer to layer; which of them is x is decided at the end.
function sized(node, isDown) {
  const [breadth, depth] = isDown ? [node.width, node.height] : [node.height, node.width];
  return { id: node.id, breadth, depth, across: 0, along: 0 };
}

function push(map, key, value) {
  if (map.has(key)) map.get(key).push(value);
  else map.set(key, [value]);
}

function longestPaths(ids, edges) {
  const sources = new Map();
  for (const edge of edges) push(sources, edge.target, edge.source);
  const layerOf = new Map();
  const open = new Set();
  const layer = (id) => {
    if (layerOf.has(id)) return layerOf.get(id);
    open.add(id);
    const before = (sources.get(id) ?? []).filter((source) => !open.has(source));
    const found = before.length ? 1 + Math.max(...before.map(layer)) : 0;
    open.delete(id);
    layerOf.set(id, found);
    return found;
  };
  ids.forEach(layer);
  return layerOf;
}

function withBends(edge, boxes, layerOf, layers) {
  const chain = [boxes.get(edge.source)];
  for (let layer = layerOf.get(edge.source) + 1; layer < layerOf.get(edge.target); layer += 1) {
    const bend = { id: null, breadth: 24, depth: 0, across: 0, along: 0 };
    layers[layer].push(bend);
    chain.push(bend);
  }
  return [...chain, boxes.get(edge.target)];
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function order(layers, before, after) {
  const rank = new Map();
  const number = (layer) => layer.forEach((box, place) => rank.set(box, place));
  layers.forEach(number);
  const sweep = (layer, neighbours) => {
    const wish = new Map(
      layer.map((box) => [box, mean((neighbours.get(box) ?? [box]).map((other) => rank.get(other)))]),
    );
    layer.sort((one, other) => wish.get(one) - wish.get(other) || rank.get(one) - rank.get(other));
    number(layer);
  };
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(layers, after, rank);
  for (let round = 0; round < 8 && fewest > 0; round += 1) {
    layers.forEach((layer) => sweep(layer, before));
    [...layers].reverse().forEach((layer) => sweep(layer, after));
    const found = crossings(layers, after, rank);
    if (found < fewest) [best, fewest] = [layers.map((layer) => [...layer]), found];
  }
  best.forEach((layer, index) => (layers[index] = layer));
}

function crossings(layers, after, rank) {
  let found = 0;
  for (const layer of layers) {
    const ends = [];
    for (const box of layer) {
      const targets = (after.get(box) ?? []).map((other) => rank.get(other));
      for (const target of targets) found += ends.filter((end) => end > target).length;
      ends.push(...targets);
    }
  }
  return found;
}

function placeAcross(layers, before, after, gap) {
  for (const layer of layers) spread(layer, layer.map(() => 0), gap);
  const towards = (layer, neighbours) =>
    spread(layer, layer.map((box) => mean((neighbours.get(box) ?? [box]).map((other) => other.across))), gap);
  for (let round = 0; round < 12; round += 1) {
    layers.slice(1).forEach((layer) => towards(layer, before));
    layers.slice(0, -1).reverse().forEach((layer) => towards(layer, after));
  }
}

// The places nearest to the wishes (least squares) that keep the order and the gaps: an isotonic regression
// by pooling adjacent violators (Ayer et al. 1955), after the gaps are taken out.
function spread(layer, wishes, gap) {
  const offsets = [];
  layer.forEach((box, place) => {
    const last = layer[place - 1];
    offsets.push(place ? offsets[place - 1] + (last.breadth + box.breadth) / 2 + gap : 0);
  });
  const pools = [];
  wishes.forEach((wish, place) => {
    pools.push({ sum: wish - offsets[place], size: 1 });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).size > pools.at(-1).sum / pools.at(-1).size) {
      const last = pools.pop();
      pools.at(-1).sum += last.sum;
      pools.at(-1).size += last.size;
    }
  });
  const found = pools.flatMap((pool) => Array(pool.size).fill(pool.sum / pool.size));
  layer.forEach((box, place) => (box.across = found[place] + offsets[place]));
}

function placeAlong(layers, gap) {
  let along = 0;
  for (const layer of layers) {
    const depth = Math.max(...layer.map((box) => box.depth));
    for (const box of layer) Object.assign(box, { along, layerDepth: depth });
    along += depth + gap;
  }
  return along - gap;
}

function result(nodes, boxes, chains, depth, isDown) {
  const all = [...boxes.values(), ...chains.flatMap((chain) => chain.filter((box) => box.id === null))];
  const first = Math.min(...all.map((box) => box.across - box.breadth / 2));
  const last = Math.max(...all.map((box) => box.across + box.breadth / 2));
  const point = (across, along) =>
    isDown ? { x: across - first, y: along } : { x: along, y: across - first };
  const places = new Map(
    nodes.map(({ id }) => [id, point(boxes.get(id).across - boxes.get(id).breadth / 2, boxes.get(id).along)]),
  );
  const paths = chains.map((chain) => [
    point(chain[0].across, chain[0].along + chain[0].depth),
    ...chain.slice(1, -1).flatMap((bend) => [
      point(bend.across, bend.along),
      point(bend.across, bend.along + bend.layerDepth),
    ]),
    point(chain.at(-1).across, chain.at(-1).along),
  ]);
  const breadth = last - first;
  return { places, paths, width: isDown ? breadth : depth, height: isDown ? depth : breadth };
}
