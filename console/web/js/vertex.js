// One task: its operators, its figures, and its subtasks with the differences between them.

import { get, path } from "./api.js";
import { loadBar, setLoadBar, skewStrip } from "./charts.js";
import { fact, h, setAttribute, setText } from "./dom.js";
import { bytes, count, duration, percent, rate, shortDuration, time, utc } from "./format.js";
import { watermarkWords } from "./graph.js";
import { poll } from "./poll.js";
import { rowsTable } from "./rows.js";
import { stagesSection } from "./stages.js";
import { badge, chainName, isEndOfStream, lagMs, lower, setBadge, stateOf } from "./words.js";

const PLACES_MS = 3_000;

export function vertexPanel(jid, node, { close, fail, signal }) {
  const leave = new AbortController();
  signal.addEventListener("abort", () => leave.abort(), { signal: leave.signal });
  const state = badge("");
  const figures = vertexFacts();
  const skew = skewStrip();
  const skewText = h("p", { class: "small soft" });
  const stages = stagesSection();
  const rows = rowsTable(subtaskColumns(), { label: `Subtasks of ${chainName(node.description)}`, rows: 14 });
  const element = h(
    "section",
    { class: "card panel", "aria-label": "Task" },
    h(
      "header",
      {},
      h("h2", {}, chainName(node.description)),
      state,
      h("button", { type: "button", class: "quiet icon push", "aria-label": "Close the task", onclick: close }, "✕"),
    ),
    h(
      "div",
      { class: "body" },
      operatorList(node.operators ?? []),
      figures.element,
      stages.element,
      h("div", {}, h("h3", {}, "Records per second by subtask"), skew.element, skewText),
      rows.element,
    ),
  );
  let details = new Map();
  const read = (asked) => get(path`jobs/${jid}/vertices/${node.id}`, asked);
  const everyMs = () => PLACES_MS;
  const showDetails = (vertex) => (details = new Map(vertex.subtasks.map((each) => [each.subtask, each])));
  poll(read, { show: showDetails, fail, everyMs, signal: leave.signal });
  return {
    element,
    close: () => {
      leave.abort();
      element.remove();
    },
    show: (live) => {
      const vertex = live.vertices.find((each) => each.id === node.id);
      if (!vertex) return;
      setBadge(state, vertex.status);
      figures.show(vertex, live.now);
      stages.show(vertex.whole_stages, vertex.stages);
      const { subtasks } = vertex;
      const flows = subtasks.records_in.map((records, index) => Math.max(records, vertex.total_records_in ? 0 : subtasks.records_out[index]));
      const words = skewWords(flows);
      skew.show(flows, words);
      setText(skewText, words);
      rows.show(subtaskRows(vertex, live.now, details));
    },
  };
}

function operatorList(operators) {
  const item = (operator) => h("li", {}, operator.name, " ", h("span", { class: "soft small" }, "uid ", h("code", {}, operator.uid)));
  return h("ul", { class: "chain" }, operators.map(item));
}

function vertexFacts() {
  const element = h("dl", { class: "facts" });
  const load = fact(element, "Busy · waits · idle", "mean over the subtasks; backpressured tasks wait for those after them");
  const received = fact(element, "In");
  const sent = fact(element, "Out");
  const volume = fact(element, "Bytes in · out");
  const watermark = fact(element, "Watermark, the lowest");
  const state = fact(element, "State", "estimated, of all subtasks");
  const queued = fact(element, "Queued", "bytes that wait in front of the task");
  const timers = fact(element, "Timers");
  const late = fact(element, "Late records");
  const totals = fact(element, "Records in · out so far");
  const show = (vertex, nowMs) => {
    setText(load, `${percent(vertex.busy)} · ${percent(vertex.backpressured)} · ${percent(vertex.idle)}`);
    setText(received, rate(vertex.records_in));
    setText(sent, rate(vertex.records_out));
    setText(volume, `${bytes(vertex.bytes_in)}/s · ${bytes(vertex.bytes_out)}/s`);
    setText(watermark, watermarkWords(vertex.watermark, nowMs).replace(/^watermark:? /, ""));
    setText(state, vertex.state_bytes === null ? "none" : bytes(vertex.state_bytes));
    setText(queued, bytes(vertex.queued_bytes));
    setText(timers, count(vertex.timers));
    setText(late, count(vertex.late_records));
    setText(totals, `${count(vertex.total_records_in)} · ${count(vertex.total_records_out)}`);
  };
  return { element, show };
}

function skewWords(flows) {
  const sum = flows.reduce((total, each) => total + each, 0);
  if (!sum) return "No records right now.";
  const mean = sum / flows.length;
  const most = Math.max(...flows);
  const index = flows.indexOf(most);
  if (flows.length === 1) return `${rate(most)} in one subtask.`;
  const share = most / mean;
  const verdict = share < 1.3 ? "even" : share < 2 ? "a little uneven" : "skewed";
  return `${verdict}: subtask ${index} has ${rate(most)}, ${share.toFixed(1)} times the mean (dashed).`;
}

function subtaskRows({ subtasks, ...vertex }, nowMs, details) {
  return [...subtasks.states].map((letter, index) => {
    const more = details.get(index);
    return {
      index,
      state: stateOf(letter),
      busy: subtasks.busy[index] / 1_000,
      backpressured: subtasks.backpressured[index] / 1_000,
      recordsIn: subtasks.records_in[index],
      recordsOut: subtasks.records_out[index],
      watermark: subtasks.watermarks[index],
      lag: lagMs(subtasks.watermarks[index], nowMs),
      host: more?.endpoint ?? "",
      attempt: more?.attempt ?? null,
      process: more?.pid ?? 0,
      name: vertex.name,
    };
  });
}

function subtaskColumns() {
  const text = (of) => (cell, row) => setText(cell, of(row));
  return [
    { title: "#", width: "30px", isNumber: true, value: (row) => -row.index, fill: text((row) => String(row.index)) },
    { title: "State", width: "minmax(54px, 0.8fr)", fill: text((row) => lower(row.state)) },
    {
      title: "Load",
      width: "minmax(46px, 1.1fr)",
      value: (row) => row.busy,
      create: loadBar,
      fill: (cell, row) => setLoadBar(cell.firstElementChild, row.busy, row.backpressured),
    },
    { title: "In", width: "62px", isNumber: true, value: (row) => row.recordsIn, fill: text((row) => rate(row.recordsIn)) },
    { title: "Out", width: "62px", isNumber: true, value: (row) => row.recordsOut, fill: text((row) => rate(row.recordsOut)) },
    {
      title: "Lag",
      width: "64px",
      isNumber: true,
      value: (row) => row.lag ?? -Infinity,
      fill: (cell, row) => {
        setText(cell, isEndOfStream(row.watermark) ? "at the end" : shortDuration(row.lag));
        const lag = row.lag === null ? "" : `, lag ${duration(row.lag)}`;
        setAttribute(cell, "title", row.watermark === null ? "no watermark" : `watermark ${time(row.watermark)} (${utc(row.watermark)})${lag}`);
      },
    },
    {
      title: "Where",
      width: "minmax(52px, 1fr)",
      fill: (cell, row) => {
        setText(cell, row.host);
        const parts = [row.host, row.process ? `process ${row.process}` : "", row.attempt ? `attempt ${row.attempt}` : ""];
        setAttribute(cell, "title", parts.filter(Boolean).join(", "));
      },
    },
  ];
}
