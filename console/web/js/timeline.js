// Checkpoints side by side: height is duration, colour and shape are outcome, the strip below is size.

import { h, s, setAttribute } from "./dom.js";
import { bytes, duration, time } from "./format.js";

const HEIGHT = 150;
const STRIP = 30;
const LEFT = 58;
const FOOT = 18;
const GAP = 10;

/** @param {(checkpointId: number) => void} choose */
export function checkpointTimeline(choose) {
  const grid = s("g", { class: "grid" });
  const bars = s("g", {});
  const mark = s("rect", { class: "chosen", rx: 2 });
  const total = HEIGHT + GAP + STRIP + FOOT;
  const svg = s("svg", { class: "timeline", height: total, tabindex: "0", role: "group", "aria-roledescription": "chart" }, mark, grid, bars);
  const element = h("div", { class: "timeline-frame" }, svg);
  let checkpoints = [], chosen = null;

  const step = () => (svg.clientWidth - LEFT) / Math.max(checkpoints.length, 40);
  const draw = () => {
    if (!svg.clientWidth || !checkpoints.length) return;
    const most = Math.max(...checkpoints.map((each) => each.end_to_end_duration), 1);
    const largest = Math.max(...checkpoints.map((each) => each.checkpointed_size), 1);
    const top = niceTop(most);
    grid.replaceChildren(...gridLines(top, largest, svg.clientWidth, checkpoints, step()));
    bars.replaceChildren(...checkpoints.map((each, place) => bar(each, LEFT + place * step(), step(), top, largest)));
    const at = checkpoints.findIndex((each) => each.id === chosen);
    mark.toggleAttribute("hidden", at < 0);
    setAttribute(mark, "width", at < 0 ? 0 : step());
    setAttribute(mark, "height", HEIGHT + GAP + STRIP);
    setAttribute(mark, "x", LEFT + Math.max(at, 0) * step());
  };
  svg.addEventListener("click", (event) => {
    const at = Math.floor((event.clientX - svg.getBoundingClientRect().left - LEFT) / step());
    if (checkpoints[at]) choose(checkpoints[at].id);
  });
  svg.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!direction || !checkpoints.length) return;
    event.preventDefault();
    const at = checkpoints.findIndex((each) => each.id === chosen);
    const next = at < 0 ? checkpoints.length - 1 : Math.min(checkpoints.length - 1, Math.max(0, at + direction));
    choose(checkpoints[next].id);
  });
  new ResizeObserver(draw).observe(element);
  return {
    element,
    /** @param {object[]} history the newest first, as the server gives it. */
    show: (history, chosenId) => {
      checkpoints = [...history].reverse();
      chosen = chosenId;
      const words = `Timeline of ${checkpoints.length} checkpoints, the newest on the right. Arrow keys choose one.`;
      setAttribute(svg, "aria-label", words);
      draw();
    },
  };
}

/** 1, 2 or 5 times a power of ten, not below the value. */
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= value);
}

function gridLines(top, largest, width, checkpoints, step) {
  const made = [0, 0.5, 1].flatMap((part) => {
    const y = Math.round(HEIGHT - (HEIGHT - 8) * part) + 0.5;
    const text = s("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, duration(top * part));
    return [s("line", { x1: LEFT, x2: width, y1: y, y2: y }), text];
  });
  const strip = s("text", { x: LEFT - 8, y: HEIGHT + GAP + 10, "text-anchor": "end" }, bytes(largest));
  const last = Math.max(LEFT + step * checkpoints.length, LEFT + 170);
  const foot = HEIGHT + GAP + STRIP + FOOT - 4;
  const from = s("text", { x: LEFT, y: foot }, time(checkpoints[0].trigger_timestamp));
  const to = s("text", { x: last, y: foot, "text-anchor": "end" }, time(checkpoints.at(-1).trigger_timestamp));
  return [...made, strip, from, ...(checkpoints.length > 1 ? [to] : [])];
}

function bar(each, x, step, top, largest) {
  const width = Math.max(1, Math.min(step * 0.76, 22));
  const left = x + (step - width) / 2;
  const tall = Math.max(2, (each.end_to_end_duration / top) * (HEIGHT - 8));
  const size = each.checkpointed_size ? Math.max(1, (each.checkpointed_size / largest) * STRIP) : 0;
  const kind = each.status.toLowerCase();
  const parts = [
    s("rect", { class: `outcome ${kind}`, x: left, y: HEIGHT - tall, width, height: tall, rx: Math.min(2, width / 3) }),
    s("rect", { class: "size", x: left, y: HEIGHT + GAP + STRIP - size, width, height: size }),
  ];
  const middle = x + step / 2;
  if (kind === "failed") {
    const y = HEIGHT - tall - 7;
    const r = Math.min(3.5, width / 2);
    parts.push(s("path", { class: "cross", d: `M${middle - r} ${y - r}l${2 * r} ${2 * r}M${middle + r} ${y - r}l${-2 * r} ${2 * r}` }));
  }
  if (each.is_savepoint) {
    const y = HEIGHT - tall - (kind === "failed" ? 18 : 7);
    parts.push(s("path", { class: "diamond", d: `M${middle} ${y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5Z` }));
  }
  return s("g", {}, s("title", {}, barWords(each)), ...parts);
}

function barWords(each) {
  const what = each.is_savepoint ? "savepoint" : "checkpoint";
  const parts = [`#${each.id}, ${what}, ${each.status.toLowerCase().replace("_", " ")}`, time(each.trigger_timestamp)];
  parts.push(duration(each.end_to_end_duration), `${bytes(each.checkpointed_size)} new`);
  if (each.failure_message) parts.push(each.failure_message);
  return parts.join(", ");
}
