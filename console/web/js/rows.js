// A table of which only the rows in sight are in the page, so that its length does not matter.

import { h, setAttribute } from "./dom.js";

const ROW_PX = 28;
const BEYOND = 6;
const GAP_PX = 9;

/**
 * @param {{title: string, width: string, isNumber?: boolean, value?: (row: any) => number,
 *   create?: () => Node, fill: (cell: Element, row: any) => void}[]} columns `value` makes a column sortable.
 * @param {{label: string, rows: number, onChoose?: (row: any) => void, isChosen?: (row: any) => boolean,
 *   sortBy?: string}} options `rows`: how many are in sight at most.
 */
export function rowsTable(columns, options) {
  const template = columns.map((column) => column.width).join(" ");
  const state = { rows: [], sorted: [], by: options.sortBy ?? null, isDescending: true };
  const head = h("div", { class: "rows-head", role: "row" });
  head.style.gridTemplateColumns = template;
  const headers = columns.map((column) => header(column, state, () => show(state.rows)));
  head.append(...headers);
  const space = h("div", { role: "rowgroup" });
  const body = h("div", { class: "rows-body", tabindex: "0", "aria-label": options.label }, space);
  const element = h("div", { class: "rows", role: "table", "aria-label": options.label }, head, body);
  head.style.minWidth = body.style.minWidth = `${leastWidth(columns)}px`;
  const pool = [];

  const draw = () => {
    const first = Math.max(0, Math.floor(body.scrollTop / ROW_PX) - BEYOND);
    const needed = Math.min(state.sorted.length - first, options.rows + 2 * BEYOND);
    while (pool.length < needed) pool.push(space.appendChild(newRow(columns, template, options)));
    while (pool.length > Math.max(needed, 0)) pool.pop().remove();
    pool.forEach((line, place) => fillRow(line, columns, state.sorted[first + place], first + place, options));
  };
  const show = (rows) => {
    state.rows = rows;
    const column = columns.find((each) => each.title === state.by);
    const sign = state.isDescending ? -1 : 1;
    state.sorted = column
      ? [...rows].sort((one, other) => sign * (column.value(one) - column.value(other)))
      : rows;
    headers.forEach((each, place) => {
      const direction = state.isDescending ? "descending" : "ascending";
      setAttribute(each, "aria-sort", columns[place].title === state.by ? direction : null);
    });
    setAttribute(element, "aria-rowcount", rows.length + 1);
    space.style.height = `${rows.length * ROW_PX}px`;
    body.style.height = `${Math.max(1, Math.min(rows.length, options.rows)) * ROW_PX}px`;
    draw();
  };
  body.addEventListener("scroll", draw, { passive: true });
  return { element, show };
}

// Of all columns with their gaps; where there is less room, the table scrolls sideways.
function leastWidth(columns) {
  const widths = columns.map((column) => Number(/(\d+)px/.exec(column.width)?.[1] ?? 0));
  return widths.reduce((sum, each) => sum + each + GAP_PX, GAP_PX);
}

function header(column, state, again) {
  const place = { class: column.isNumber ? "number" : "", role: "columnheader" };
  if (!column.value) return h("div", place, column.title);
  const sort = () => {
    state.isDescending = state.by === column.title ? !state.isDescending : true;
    state.by = column.title;
    again();
  };
  return h("div", place, h("button", { type: "button", onclick: sort, title: "Sort" }, column.title));
}

function newRow(columns, template, options) {
  const cells = columns.map((column) =>
    h("div", { class: column.isNumber ? "number" : "", role: "cell" }, column.create?.()),
  );
  const line = h("div", { class: "rows-row", role: "row" }, ...cells);
  line.style.gridTemplateColumns = template;
  if (options.onChoose) {
    const choose = () => options.onChoose(line.row);
    line.classList.add("choosable");
    line.addEventListener("click", choose);
  }
  return line;
}

function fillRow(line, columns, row, index, options) {
  line.row = row;
  line.style.transform = `translateY(${index * ROW_PX}px)`;
  setAttribute(line, "aria-rowindex", index + 2);
  if (options.isChosen) setAttribute(line, "aria-selected", options.isChosen(row));
  columns.forEach((column, place) => column.fill(line.children[place], row));
}
