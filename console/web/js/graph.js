// The graph of a job: boxes for tasks, arrows between them, and the figures of this second in both.

import { loadBar, setLoadBar } from "./charts.js";
import { h, s, setAttribute, setText } from "./dom.js";
import { duration, percent, rate, time } from "./format.js";
import { layeredLayout } from "./layout.js";
import { chainName, isEndOfStream, lagMs, lower } from "./words.js";

const SHOWN_OPERATORS = 4;
const MARGIN = 14;
const ZOOMS = [0.4, 0.5, 0.6, 0.7, 0.85, 1, 1.2, 1.5];

/**
 * @param {{nodes: object[]}} plan the `plan` of a job's document.
 * @param {(vertexId: string) => void} choose
 * @returns {{element: Element, tools: Element, show: (live: object) => void, mark: (vertexId: string | null) => void}}
 */
export function jobGraph(plan, choose) {
  const boxes = new Map(plan.nodes.map((node) => [node.id, nodeBox(node, choose)]));
  const edges = plan.nodes.flatMap((node) =>
    (node.inputs ?? []).map((input) => ({ source: input.id, target: node.id, strategy: input.ship_strategy })),
  );
  const arrows = edges.map((edge) => edgeArrow(edge));
  const lines = s("svg", { class: "edges", "aria-hidden": "true" }, arrowHeads(), arrows.map((arrow) => arrow.line));
  const plane = h(
    "div",
    { class: "plane" },
    lines,
    arrows.map((arrow) => arrow.label),
    [...boxes.values()].map((box) => box.element),
  );
  const sheet = h("div", { class: "sheet" }, plane);
  const view = h("div", { class: "view", role: "group", "aria-label": "Graph of the job" }, sheet);
  const zoom = zooming(view, sheet, plane);
  const place = () => zoom.resize(arrange(view, plan, boxes, edges, arrows, lines));
  // A box grows when its text needs another line.
  const sizes = new ResizeObserver(place);
  for (const element of [view, ...[...boxes.values()].map((box) => box.element)]) sizes.observe(element);

  return {
    element: view,
    tools: zoom.buttons,
    show: (live) => {
      const vertices = new Map(live.vertices.map((vertex) => [vertex.id, vertex]));
      for (const [id, box] of boxes) if (vertices.has(id)) box.show(vertices.get(id), live);
      arrows.forEach((arrow, index) => arrow.show(edgeRate(edges[index], edges, vertices), vertices));
    },
    mark: (id) => {
      for (const [known, box] of boxes) setAttribute(box.element, "aria-pressed", String(known === id));
    },
  };
}

function nodeBox(node, choose) {
  const operators = node.operators ?? [];
  const hidden = operators.length - SHOWN_OPERATORS;
  const names = operators.slice(0, hidden > 0 ? SHOWN_OPERATORS - 1 : SHOWN_OPERATORS).map((each) => each.name);
  if (hidden > 0) names.push(`and ${hidden + 1} more`);
  const title = operators[0]?.name ?? node.description;
  const state = h("span", { class: "node-state" });
  const bar = loadBar();
  const load = h("span", { class: "node-load" });
  const received = h("b", {});
  const sent = h("b", {});
  const watermark = h("span", { class: "node-watermark" });
  const element = h(
    "button",
    { type: "button", class: "node", "aria-pressed": "false", onclick: () => choose(node.id) },
    h(
      "span",
      { class: "node-title" },
      h("strong", { title: chainName(node.description) }, title),
      h("span", { class: "node-parallelism", title: "parallelism" }, `×${node.parallelism}`),
    ),
    operators.length > 1 && h("span", { class: "node-chain" }, names.slice(1).map((name) => h("span", { title: name }, name))),
    bar,
    h("span", { class: "node-line" }, load, state),
    h("span", { class: "node-line" }, node.inputs?.length ? h("span", {}, "in ", received) : null, h("span", {}, "out ", sent)),
    watermark,
  );
  const show = (vertex, live) => {
    setLoadBar(bar, vertex.busy, vertex.backpressured);
    setText(load, loadWords(vertex));
    setText(state, vertex.status === "RUNNING" ? "" : lower(vertex.status));
    setText(received, rate(vertex.records_in));
    setText(sent, rate(vertex.records_out));
    setText(watermark, watermarkWords(vertex.watermark, live.now));
    setAttribute(element, "data-strain", strainOf(vertex));
    setAttribute(element, "data-status", vertex.status);
  };
  return { node, element, show };
}

/** What is worth a frame of its own: a task that cannot go faster, or one that has to wait for such a task. */
function strainOf(vertex) {
  if (vertex.backpressured_max >= 0.5) return "backpressured";
  return vertex.busy_max >= 0.9 ? "busy" : "none";
}

function loadWords(vertex) {
  const busy = `busy ${percent(vertex.busy)}`;
  return vertex.backpressured >= 0.005 ? `${busy} · waits ${percent(vertex.backpressured)}` : busy;
}

export function watermarkWords(watermarkMs, nowMs) {
  if (watermarkMs === null || watermarkMs === undefined) return "no watermark";
  if (isEndOfStream(watermarkMs)) return "watermark: end of input";
  const lag = lagMs(watermarkMs, nowMs);
  return `watermark ${time(watermarkMs)}${lag === null ? "" : ` · lag ${duration(lag)}`}`;
}

function edgeArrow(edge) {
  const line = s("path", { class: "edge", "marker-end": "url(#head)" });
  const flow = h("b", {});
  const label = h("div", { class: "edge-label" }, h("span", {}, lower(edge.strategy)), flow);
  const show = (records, vertices) => {
    setText(flow, records === null ? "" : rate(records));
    const width = 1.25 + 0.55 * Math.log10(1 + (records ?? 0));
    setAttribute(line, "stroke-width", width.toFixed(2));
    const isHeldUp = (vertices.get(edge.source)?.backpressured_max ?? 0) >= 0.5;
    setAttribute(line, "data-strain", isHeldUp ? "backpressured" : "none");
    setAttribute(line, "marker-end", isHeldUp ? "url(#head-held)" : "url(#head)");
  };
  return { line, label, show };
}

function arrowHeads() {
  const head = (id) =>
    s(
      "marker",
      { id, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { d: "M0 1L9 5L0 9Z", class: id }),
    );
  return s("defs", {}, head("head"), head("head-held"));
}

// Tasks count what they receive and send over all their inputs and outputs; of one arrow that is known where it is
// the only one at either end.
function edgeRate(edge, edges, vertices) {
  const into = edges.filter((other) => other.target === edge.target);
  if (into.length === 1) return vertices.get(edge.target)?.records_in ?? null;
  const from = edges.filter((other) => other.source === edge.source);
  return from.length === 1 ? (vertices.get(edge.source)?.records_out ?? null) : null;
}

function arrange(view, plan, boxes, edges, arrows, lines) {
  const isDown = view.clientWidth < 720;
  const sizes = plan.nodes.map(({ id }) => {
    const { element } = boxes.get(id);
    return { id, width: element.offsetWidth, height: element.offsetHeight };
  });
  const { places, paths, width, height } = layeredLayout(sizes, edges, {
    isDown,
    layerGap: isDown ? 70 : 118,
    nodeGap: 26,
  });
  for (const [id, { x, y }] of places) {
    Object.assign(boxes.get(id).element.style, { left: `${x + MARGIN}px`, top: `${y + MARGIN}px` });
  }
  arrows.forEach((arrow, index) => {
    const points = paths[index].map(({ x, y }) => ({ x: x + MARGIN, y: y + MARGIN }));
    setAttribute(arrow.line, "d", curve(points, isDown));
    const middle = labelPlace(points);
    Object.assign(arrow.label.style, { left: `${middle.x}px`, top: `${middle.y}px` });
  });
  const size = { width: Math.ceil(width + 2 * MARGIN), height: Math.ceil(height + 2 * MARGIN) };
  setAttribute(lines, "width", size.width);
  setAttribute(lines, "height", size.height);
  return size;
}

function curve(points, isDown) {
  let made = `M${points[0].x} ${points[0].y}`;
  for (let place = 1; place < points.length; place += 1) {
    const [from, to] = [points[place - 1], points[place]];
    const x = (from.x + to.x) / 2, y = (from.y + to.y) / 2;
    made += isDown
      ? `C${from.x} ${y} ${to.x} ${y} ${to.x} ${to.y}`
      : `C${x} ${from.y} ${x} ${to.y} ${to.x} ${to.y}`;
  }
  return made;
}

// The middle of the last stretch, so that arrows into one box keep their labels apart.
function labelPlace(points) {
  const [from, to] = points.slice(-2);
  return { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
}

function zooming(view, sheet, plane) {
  let size = { width: 1, height: 1 };
  let chosen = null;
  let shown = 1;
  const fit = () => Math.min(1, Math.max(ZOOMS[0], (view.clientWidth - 2) / size.width));
  const apply = () => {
    shown = chosen ?? fit();
    plane.style.transform = `scale(${shown})`;
    Object.assign(plane.style, { width: `${size.width}px`, height: `${size.height}px` });
    Object.assign(sheet.style, { width: `${size.width * shown}px`, height: `${size.height * shown}px` });
  };
  const step = (direction) => {
    const further = direction > 0 ? ZOOMS.find((each) => each > shown + 0.01) : ZOOMS.findLast((each) => each < shown - 0.01);
    chosen = further ?? shown;
    apply();
  };
  const button = (text, label, onclick) =>
    h("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick }, text);
  const buttons = h(
    "div",
    { class: "zoom" },
    button("−", "Zoom out", () => step(-1)),
    button("fit", "Fit the graph into the page", () => { chosen = null; apply(); }),
    button("+", "Zoom in", () => step(1)),
  );
  const resize = (newSize) => { size = newSize; apply(); };
  return { buttons, resize };
}

/** Which task holds the others up, in one sentence, or `null`. */
export function bottleneck(plan, live) {
  const vertices = new Map(live.vertices.map((vertex) => [vertex.id, vertex]));
  let worst = null;
  for (const node of plan.nodes) {
    const vertex = vertices.get(node.id);
    if (!vertex || vertex.backpressured_max >= 0.5) continue;
    const waiting = (node.inputs ?? []).map((input) => vertices.get(input.id)).filter((each) => each?.backpressured_max >= 0.5);
    if (waiting.length && (!worst || vertex.busy_max > worst.vertex.busy_max)) worst = { vertex, waiting };
  }
  if (!worst) return null;
  const { vertex, waiting } = worst;
  const before = waiting.map((each) => chainName(each.name)).join(" and ");
  const one = vertex.parallelism > 1 && vertex.busy_max > vertex.busy + 0.2 ? "one of its subtasks is" : "it is";
  return `${chainName(vertex.name)} is the bottleneck: ${one} busy ${percent(vertex.busy_max)} of the time, and ${before} `
    + `${waiting.length > 1 ? "wait" : "waits"} for it.`;
}

/** All records that sources emit, or all that sinks take, per second. */
export function throughput(plan, live) {
  const vertices = new Map(live.vertices.map((vertex) => [vertex.id, vertex]));
  const sources = plan.nodes.filter((node) => !(node.inputs ?? []).length);
  return sources.reduce((sum, node) => sum + (vertices.get(node.id)?.records_out ?? 0), 0);
}

