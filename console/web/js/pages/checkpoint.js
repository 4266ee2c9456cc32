// One checkpoint: why it took as long as it did, and what each subtask did meanwhile.

import { get, path } from "../api.js";
import { legend } from "../charts.js";
import { pause } from "../connection.js";
import { fact, h, reconcile, setAttribute, setText } from "../dom.js";
import { bytes, count, duration, time, utc } from "../format.js";
import { poll } from "../poll.js";
import { rowsTable } from "../rows.js";
import { badge, chainName, note, setBadge } from "../words.js";

const EVERY_MS = 1_000;
const PHASES = [
  ["start-delay", "start delay: until the first barrier"],
  ["alignment", "alignment: until the last barrier"],
  ["sync", "synchronous part"],
  ["async", "asynchronous part before the upload"],
  ["upload", "upload"],
  ["acknowledge", "other, until acknowledged"],
];

export function checkpointDetail(jid, id, { close, signal, job }) {
  const leave = new AbortController();
  const complete = new AbortController();
  signal.addEventListener("abort", () => leave.abort(), { signal: leave.signal });
  leave.signal.addEventListener("abort", () => complete.abort());
  const state = badge("");
  const problem = h("div", {});
  const facts = checkpointFacts();
  const way = h("div", { class: "way" });
  const vertices = h("div", { class: "vertices" });
  const element = h(
    "section",
    { class: "card", "aria-label": `Checkpoint ${id}` },
    h("header", {}, h("h2", {}, `Checkpoint #${id}`), state, h("button", { type: "button", class: "quiet icon push", "aria-label": "Close the checkpoint", onclick: close }, "✕")),
    h("div", { class: "body detail" }, problem, facts.element, way, h("div", {}, h("h3", {}, "Subtasks"), legend(PHASES)), vertices),
  );
  const names = new Map(job().vertices.map((vertex) => [vertex.id, chainName(vertex.name)]));
  let opened = null;
  const read = async (asked) => {
    const [found, critical] = await Promise.all([
      get(path`jobs/${jid}/checkpoints/details/${id}`, asked),
      criticalPath(jid, id, asked),
    ]);
    return { found, critical };
  };
  const show = ({ found, critical }) => {
    problem.replaceChildren();
    setBadge(state, found.status);
    facts.show(found);
    showWay(way, critical);
    const parts = Object.values(found.tasks);
    const slowest = parts.reduce((worst, each) => (each.end_to_end_duration > (worst?.end_to_end_duration ?? -1) ? each : worst), null);
    opened ??= slowest?.id ?? null;
    const whole = Math.max(found.end_to_end_duration, 1);
    reconcile(
      vertices,
      parts,
      (part) => part.id,
      (part) => vertexPart(jid, id, part.id, names.get(part.id) ?? part.id, part.id === opened, leave.signal),
      (shown, part) => shown.fill(part, whole),
    );
    if (found.status !== "IN_PROGRESS") complete.abort();
  };
  const fail = (error) => {
    problem.replaceChildren(note("bad", error.message));
    return error.kind === "missing";
  };
  poll(read, { show, fail, everyMs: () => EVERY_MS, signal: complete.signal });
  return { element, close: () => leave.abort() };
}

async function criticalPath(jid, id, signal) {
  try {
    return await get(path`jobs/${jid}/checkpoints/details/${id}/critical-path`, signal);
  } catch (error) {
    if (error.kind === "unreachable" || !error.kind) throw error;
    return { problem: error.message };
  }
}

function checkpointFacts() {
  const element = h("dl", { class: "facts" });
  const what = fact(element, "What");
  const taken = fact(element, "Triggered");
  const took = fact(element, "Duration");
  const acknowledged = fact(element, "Subtasks acknowledged");
  const added = fact(element, "Added to storage");
  const size = fact(element, "State, all");
  const processed = fact(element, "Processed during alignment");
  const persisted = fact(element, "Records stored with it");
  const why = h("div", {});
  const where = h("p", { class: "soft small mono wrap" });
  const show = (found) => {
    setText(what, found.checkpoint_type.toLowerCase().replaceAll("_", " "));
    setText(taken, time(found.trigger_timestamp));
    setAttribute(taken, "title", utc(found.trigger_timestamp));
    setText(took, duration(found.end_to_end_duration));
    setText(acknowledged, `${count(found.num_acknowledged_subtasks)} of ${count(found.num_subtasks)}`);
    setText(added, bytes(found.checkpointed_size));
    setText(size, bytes(found.state_size));
    setText(processed, bytes(found.processed_data));
    setText(persisted, bytes(found.persisted_data));
    setText(where, found.external_path ?? "");
    if (found.failure_message && !why.childElementCount) why.replaceChildren(note("bad", found.failure_message));
  };
  return { element: h("div", { class: "facts-block" }, element, why, where), show };
}

/** The critical path: what came after what, on the clock of the checkpoint, each with its reason. */
function showWay(element, critical) {
  const text = JSON.stringify(critical);
  if (element.dataset.shown === text) return;
  element.dataset.shown = text;
  if (critical.problem) {
    element.replaceChildren(h("h3", {}, "Critical path"), h("p", { class: "soft" }, critical.problem));
    return;
  }
  if (!critical.steps.length) {
    element.replaceChildren(h("h3", {}, "Critical path"), h("p", { class: "soft" }, "Not known: no subtask has acknowledged, or the details of so old a checkpoint are not kept."));
    return;
  }
  const whole = Math.max(critical.duration_ms, ...critical.steps.map((step) => step.start_ms + step.duration_ms), 0.001);
  const longest = Math.max(...critical.steps.map((step) => step.duration_ms));
  element.replaceChildren(
    h("h3", {}, "Critical path"),
    note("", critical.cause),
    h("ol", { class: "steps" }, critical.steps.map((step) => wayStep(step, whole, step.duration_ms === longest))),
  );
}

function wayStep(step, whole, isLongest) {
  const bar = h("i", { class: PHASE_OF[partOf(step.name)] ?? "acknowledge" });
  bar.style.left = `${(step.start_ms / whole) * 100}%`;
  bar.style.width = `max(2px, ${(step.duration_ms / whole) * 100}%)`;
  return h(
    "li",
    { "data-longest": String(isLongest) },
    h("div", { class: "step-name" }, h("strong", {}, STEP_WORDS[partOf(step.name)] ?? partOf(step.name)), step.subtask_name && h("span", { class: "soft" }, ` ${step.subtask_name}`)),
    h("div", { class: "track", "aria-hidden": "true" }, bar),
    h("div", { class: "number" }, duration(step.duration_ms)),
    step.cause && h("p", { class: "step-cause soft" }, step.cause),
  );
}

const PHASE_OF = {
  start_delay: "start-delay",
  alignment: "alignment",
  prepare: "sync",
  sync: "sync",
  async: "async",
  upload: "upload",
};
const STEP_WORDS = {
  start_delay: "start delay",
  sync: "synchronous part",
  async: "asynchronous part",
  acknowledge: "acknowledgement",
  notify: "notification",
  clean_up: "clean-up",
};

/** Steps are named after their spans: `checkpoint.alignment`. */
function partOf(name) {
  return name.replace(/^checkpoint\./, "");
}

/** One vertex's line, which opens to a line for each of its subtasks. */
function vertexPart(jid, checkpointId, vertexId, name, isOpen, signal) {
  const words = h("span", { class: "soft small" });
  const place = h("div", { class: "subtasks" });
  const summary = h("summary", {}, h("strong", {}, name), " ", words);
  const element = h("details", { class: "vertex-part", open: isOpen }, summary, place);
  let whole = 1, acknowledged = -1, rows = null;
  const load = async () => {
    if (!element.open) return;
    try {
      const found = await get(path`jobs/${jid}/checkpoints/details/${checkpointId}/subtasks/${vertexId}`, signal);
      rows ??= rowsTable(phaseColumns(() => whole), { label: `Subtasks of ${name}`, rows: 12 });
      if (!rows.element.isConnected) place.replaceChildren(rows.element);
      rows.show(found.subtasks.map(phaseRow));
    } catch (error) {
      if (signal.aborted && !error.kind) return;
      if (!error.kind) throw error;
      place.replaceChildren(note("bad", error.message));
    }
  };
  element.addEventListener("toggle", load);
  element.fill = (part, total) => {
    whole = total;
    setText(words, `${count(part.num_acknowledged_subtasks)} of ${count(part.num_subtasks)} · ${duration(part.end_to_end_duration)} · ${bytes(part.checkpointed_size)}`);
    if (part.num_acknowledged_subtasks !== acknowledged) load();
    acknowledged = part.num_acknowledged_subtasks;
  };
  return element;
}

function phaseRow(subtask) {
  if (subtask.status !== "completed") return { index: subtask.index, parts: [], ms: null, bytes: null };
  const { sync, async: both, upload } = subtask.checkpoint;
  const parts = [subtask.start_delay, subtask.alignment.duration, sync, Math.max(0, both - upload), upload];
  const rest = subtask.end_to_end_duration - parts.reduce((sum, part) => sum + part, 0);
  return { index: subtask.index, parts: [...parts, Math.max(0, rest)], ms: subtask.end_to_end_duration, bytes: subtask.checkpointed_size };
}

function phaseColumns(whole) {
  const text = (of) => (cell, row) => setText(cell, of(row));
  return [
    { title: "#", width: "38px", isNumber: true, value: (row) => -row.index, fill: text((row) => String(row.index)) },
    {
      title: "From the trigger to the acknowledgement",
      width: "minmax(120px, 1fr)",
      create: () => h("div", { class: "phases", role: "img" }, PHASES.map(([name]) => h("i", { class: name }))),
      fill: (cell, row) => {
        const bars = cell.firstElementChild;
        [...bars.children].forEach((bar, place) => (bar.style.width = `${((row.parts[place] ?? 0) / whole()) * 100}%`));
        const words = row.ms === null
          ? "not acknowledged"
          : PHASES.map(([name], place) => `${name.replace("-", " ")} ${duration(row.parts[place])}`).join(", ");
        setAttribute(bars, "aria-label", words);
        setAttribute(cell, "title", words);
      },
    },
    { title: "Duration", width: "78px", isNumber: true, value: (row) => row.ms ?? Infinity, fill: text((row) => duration(row.ms)) },
    { title: "Size", width: "78px", isNumber: true, value: (row) => row.bytes ?? -1, fill: text((row) => bytes(row.bytes)) },
  ];
}
