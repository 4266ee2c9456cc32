// Small pictures of numbers.

import { h, s, setAttribute } from "./dom.js";

/** A line of the last values, for one figure; `add` takes the next value and drops the oldest. */
export function sparkline(label, length = 60) {
  const area = s("path", { class: "area" });
  const line = s("path", {});
  const element = s(
    "svg",
    { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("path", { class: "ground", d: "M0 19.5H100" }),
    area,
    line,
  );
  const values = [];
  const add = (value) => {
    values.push(value);
    if (values.length > length) values.shift();
    const top = Math.max(...values) || 1;
    const x = (place) => ((place / (length - 1)) * 100).toFixed(1);
    const points = values.map((each, place) => `${x(place)} ${(19 - (each / top) * 17).toFixed(1)}`);
    setAttribute(line, "d", `M${points.join("L")}`);
    setAttribute(area, "d", `M0 20L${points.join("L")}L${x(values.length - 1)} 20Z`);
  };
  return { element, add };
}

/** Busy, backpressured and idle as parts of one bar; the figures stand beside it. */
export function loadBar() {
  const parts = ["is-busy", "is-backpressured"].map((name) => h("i", { class: name }));
  return h("div", { class: "bar", role: "img" }, ...parts);
}

export function setLoadBar(bar, busy, backpressured) {
  const share = (value) => `${Math.max(0, Math.min(100, value * 100)).toFixed(1)}%`;
  const [first, second] = bar.children;
  first.style.width = share(busy);
  second.style.width = share(backpressured);
  const words = `busy ${share(busy)}, backpressured ${share(backpressured)}`;
  setAttribute(bar, "aria-label", words);
  setAttribute(bar, "title", words);
}

/** One thin column per value, from the largest to the smallest: the steeper, the more skew. One path for all. */
export function skewStrip() {
  const columns = s("path", {});
  const average = s("line", { class: "average", x1: 0, x2: 1_000 });
  const element = s(
    "svg",
    { class: "skew", viewBox: "0 0 1000 40", preserveAspectRatio: "none", role: "img" },
    columns,
    average,
  );
  const show = (values, label) => {
    const ranked = [...values].sort((one, other) => other - one);
    const top = ranked[0] || 1;
    const step = 1_000 / ranked.length;
    const width = Math.max(step * 0.8, step - 4);
    const column = (value, place) => {
      const height = (value / top) * 39;
      return `M${(place * step).toFixed(1)} ${(40 - height).toFixed(1)}h${width.toFixed(1)}V40h-${width.toFixed(1)}Z`;
    };
    setAttribute(columns, "d", ranked.map(column).join(""));
    const mean = ranked.reduce((sum, value) => sum + value, 0) / ranked.length;
    const y = (40 - (mean / top) * 39).toFixed(1);
    setAttribute(average, "y1", y);
    setAttribute(average, "y2", y);
    setAttribute(element, "aria-label", label);
  };
  return { element, show };
}

export function legend(entries) {
  return h(
    "div",
    { class: "legend" },
    entries.map(([name, text]) => h("span", {}, h("i", { class: name }), text)),
  );
}
