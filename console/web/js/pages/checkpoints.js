// The history of checkpoints: how long they took and how they ended, their percentiles, and one of them in full.

import { get, path } from "../api.js";
import { legend } from "../charts.js";
import { h, setAttribute, setText } from "../dom.js";
import { bytes, count, duration, shortTime, time, utc } from "../format.js";
import { poll } from "../poll.js";
import { rowsTable } from "../rows.js";
import { checkpointTimeline } from "../timeline.js";
import { isOver, lower } from "../words.js";
import { checkpointDetail } from "./checkpoint.js";

const EVERY_MS = 1_000;
const SELDOM_MS = 10_000;
const PAGE = 100;

export function checkpointsTab(body, { jid, signal, fail, live }) {
  const address = `#/jobs/${encodeURIComponent(jid)}/checkpoints`;
  const choose = (id) => (location.hash = id === chosen ? address : `${address}/${id}`);
  const timeline = checkpointTimeline(choose);
  const list = rowsTable(historyColumns(address), { label: "Checkpoints, the newest first", rows: 16, onChoose: (row) => choose(row.id), isChosen: (row) => row.id === chosen });
  const pages = pager((to) => turn(to));
  const none = h("div", { class: "body soft" }, "No checkpoint yet. Without an interval (execution.checkpointing.interval) there are only those that are asked for.");
  const chart = h("div", { class: "body" }, timeline.element, timelineLegend());
  const top = h("section", { class: "card", "aria-label": "Timeline" }, h("header", {}, h("h2", {}, "Timeline"), pages.element), none, chart);
  const history = h("section", { class: "card", "aria-label": "History" }, h("header", {}, h("h2", {}, "History")), h("div", { class: "body" }, list.element));
  const side = h("div", {});
  const split = h("div", { class: "checkpoint-split" }, history, side);
  body.append(top, split);
  const summary = summaryCard();
  let chosen = null, offset = 0, found = null, detail = null, asked = new AbortController();

  const show = (data) => {
    found = data;
    const isEmpty = data.history.length === 0 && data.page.offset === 0;
    none.hidden = !isEmpty;
    chart.hidden = isEmpty;
    split.hidden = isEmpty;
    timeline.show(data.history, chosen);
    list.show(data.history);
    pages.show(data.page);
    summary.show(data);
  };
  // A page of older checkpoints stands still: it would shift with every new one.
  const start = () => {
    asked.abort();
    asked = new AbortController();
    signal.addEventListener("abort", () => asked.abort(), { signal: asked.signal });
    const read = (stop) => get(path`jobs/${jid}/checkpoints` + `?offset=${offset}&limit=${PAGE}`, stop);
    const everyMs = () => (offset > 0 || isOver(live().state) ? SELDOM_MS : EVERY_MS);
    poll(read, { show, fail, everyMs, signal: asked.signal });
  };
  const turn = (to) => {
    offset = to;
    start();
  };
  const openDetail = () => {
    detail?.close();
    detail = chosen === null ? null : checkpointDetail(jid, chosen, { close: () => choose(chosen), signal, job: live });
    side.replaceChildren(detail ? detail.element : summary.element);
    if (found) show(found);
  };
  start();
  side.replaceChildren(summary.element);
  return {
    route: ([id]) => {
      const wanted = /^\d+$/.test(id ?? "") ? Number(id) : null;
      if (wanted === chosen) return;
      chosen = wanted;
      openDetail();
    },
  };
}

function timelineLegend() {
  return legend([
    ["outcome completed", "completed"],
    ["outcome in_progress", "in progress"],
    ["outcome failed", "✕ failed"],
    ["outcome savepoint", "savepoint"],
    ["size", "bytes added to storage"],
  ]);
}

function pager(turn) {
  const words = h("span", { class: "soft small", role: "status" });
  const button = (text) => h("button", { type: "button" }, text);
  const older = button("← Older"), newer = button("Newer →"), newest = button("Newest");
  let page = { offset: 0, limit: PAGE, total: 0 };
  const moving = (element, to) =>
    element.addEventListener("click", () => element.getAttribute("aria-disabled") !== "true" && turn(to()));
  moving(older, () => page.offset + PAGE);
  moving(newer, () => Math.max(0, page.offset - PAGE));
  moving(newest, () => 0);
  const element = h("div", { class: "buttons push pager" }, words, older, newer, newest);
  const show = (now) => {
    page = now;
    const last = Math.min(page.total, page.offset + page.limit);
    setText(words, page.total ? `${count(page.offset + 1)} to ${count(last)} of ${count(page.total)}` : "");
    setAttribute(older, "aria-disabled", String(page.offset + page.limit >= page.total));
    [newer, newest].forEach((each) => setAttribute(each, "aria-disabled", String(page.offset === 0)));
  };
  return { element, show };
}

function historyColumns(address) {
  const text = (of) => (cell, row) => setText(cell, of(row));
  return [
    {
      title: "Id",
      width: "58px",
      create: () => h("a", { onclick: (event) => event.stopPropagation() }),
      fill: (cell, row) => {
        setText(cell.firstElementChild, `#${row.id}`);
        setAttribute(cell.firstElementChild, "href", `${address}/${row.id}`);
      },
    },
    {
      title: "Outcome",
      width: "100px",
      create: () => h("span", {}),
      fill: (cell, row) => {
        const signs = { COMPLETED: "✓", FAILED: "✕", IN_PROGRESS: "◔" };
        setText(cell.firstElementChild, `${signs[row.status]} ${lower(row.status)}${row.is_savepoint ? " ◆" : ""}`);
        setAttribute(cell.firstElementChild, "class", `word ${row.status.toLowerCase()}`);
        setAttribute(cell, "title", row.failure_message ?? row.checkpoint_type.toLowerCase().replaceAll("_", " "));
      },
    },
    {
      title: "Taken",
      width: "minmax(66px, 1fr)",
      isNumber: true,
      fill: (cell, row) => {
        setText(cell, shortTime(row.trigger_timestamp));
        setAttribute(cell, "title", utc(row.trigger_timestamp));
      },
    },
    { title: "Duration", width: "68px", isNumber: true, fill: text((row) => duration(row.end_to_end_duration)) },
    { title: "New", width: "72px", isNumber: true, fill: text((row) => bytes(row.checkpointed_size)) },
  ];
}

const SUMMARISED = [
  ["Duration", "end_to_end_duration", duration],
  ["Start delay, longest", "start_delay", duration],
  ["Alignment, longest", "alignment_duration", duration],
  ["Synchronous part, longest", "sync_duration", duration],
  ["Asynchronous part, longest", "async_duration", duration],
  ["State, all", "state_size", bytes],
  ["Added to storage", "checkpointed_size", bytes],
  ["Processed during alignment", "processed_data", bytes],
  ["Records stored with it", "persisted_data", bytes],
];
const PERCENTILES = ["min", "p50", "p90", "p95", "p99", "max", "avg"];

function summaryCard() {
  const counts = h("span", { class: "soft small push" });
  const cells = SUMMARISED.map(() => PERCENTILES.map(() => h("td", { class: "number" })));
  const rows = SUMMARISED.map(([title], row) => h("tr", {}, h("th", { scope: "row" }, title), cells[row]));
  const heads = PERCENTILES.map((name) => h("th", { scope: "col", class: "number" }, name));
  const table = h("table", { class: "summary" }, h("thead", {}, h("tr", {}, h("td", {}), heads)), h("tbody", {}, rows));
  const hint = h("p", { class: "soft small" });
  const element = h(
    "section",
    { class: "card", "aria-label": "Summary" },
    h("header", {}, h("h2", {}, "Summary"), counts),
    h("div", { class: "scroll" }, table),
    h("div", { class: "body" }, hint),
  );
  const show = ({ counts: so, summary, latest }) => {
    setText(counts, `${count(so.completed)} completed · ${count(so.failed)} failed · ${count(so.in_progress)} in progress · restored ${count(so.restored)} times`);
    table.hidden = summary === null;
    SUMMARISED.forEach(([, name, shown], row) =>
      PERCENTILES.forEach((part, column) => setText(cells[row][column], summary ? shown(summary[name][part]) : "–")),
    );
    const restored = latest.restored ? ` Last restored: #${latest.restored.id}, ${time(latest.restored.restore_timestamp)}.` : "";
    setText(hint, `Over the completed checkpoints in the history. Choose one for its subtasks and its critical path.${restored}`);
  };
  return { element, show };
}
