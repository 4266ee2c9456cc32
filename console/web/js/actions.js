// What can be asked of a job: checkpoint, savepoint, stop, rescale, cancel. Each asks first, shows that it is under
// way, and says what came of it; all need the token.

import { get, patch, path, post, put, token } from "./api.js";
import { pause, wake } from "./connection.js";
import { h, setAttribute, setText } from "./dom.js";
import { duration } from "./format.js";
import { ask, message } from "./messages.js";
import { askForToken } from "./token.js";
import { chainName, isOver, lower } from "./words.js";

const ASK_MS = 400;

/** The buttons of a job, and why they are off where they are. */
export function actionBar(jid) {
  let known = { live: null, job: null, config: null };
  const why = h("span", { class: "soft small", id: "actions-off" });
  const buttons = ACTIONS.map((action) => {
    const button = h("button", { type: "button", "aria-describedby": "actions-off" }, action.label);
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      withToken(() => action.open(jid, known));
    });
    return { action, button };
  });
  const element = h("div", { class: "buttons push", role: "group", "aria-label": "Actions" }, why, buttons.map(({ button }) => button));
  const show = (live, job, config) => {
    known = { live, job, config };
    const reason = reasonAgainst(live, config);
    setText(why, reason);
    for (const { action, button } of buttons) {
      const isOff = Boolean(reason) && !(action.isAlwaysOn && canBeCancelled(live, config));
      setAttribute(button, "aria-disabled", String(isOff));
      setAttribute(button, "title", isOff ? reason : action.title);
    }
  };
  return { element, show };
}

function canBeCancelled(live, config) {
  return !isOver(live.state) && !live.archived && config.features["web-cancel"];
}

function reasonAgainst(live, config) {
  if (isOver(live.state)) return "The job is over: nothing can be asked of it.";
  if (live.archived) return "Told from storage: nothing can be asked of it.";
  if (!config.features["web-cancel"]) return "This console only shows: it was started without a token.";
  return live.state === "RUNNING" ? "" : `Not while the job is ${lower(live.state)}.`;
}

function withToken(then) {
  if (token()) then();
  else askForToken(then, "Actions need the console's token.");
}

const ACTIONS = [
  { label: "Checkpoint now", title: "Take a checkpoint without waiting for the interval", open: openCheckpoint },
  { label: "Savepoint…", title: "Write a savepoint; the job goes on", open: openSavepoint },
  { label: "Rescale…", title: "Change the parallelism of tasks", open: openRescale },
  { label: "Stop…", title: "Stop the job with a savepoint", open: openStop },
  { label: "Cancel…", title: "End the job without a savepoint", open: openCancel, isAlwaysOn: true },
];

function openCheckpoint(jid) {
  run("Checkpoint", () => post(path`jobs/${jid}/checkpoints`, {}), path`jobs/${jid}/checkpoints/`, (done) => [
    `Checkpoint #${done.checkpointId} is complete.`,
  ]);
}

function directoryField(job) {
  const given = job["savepoint-directory"];
  return h(
    "label",
    { class: "field" },
    "Directory",
    h("input", { type: "text", name: "directory", placeholder: given || "such as file:///savepoints", spellcheck: "false", autocomplete: "off" }),
    h("small", {}, given ? "Empty: the directory of the job's settings, as shown." : "The job's settings name none (execution.checkpointing.savepoint-dir), so give one."),
  );
}

function written(what) {
  return (done) => [`${what}: `, h("code", {}, done.location)];
}

function openSavepoint(jid, { live, job }) {
  ask({
    title: `Savepoint of ${live.name}`,
    text: "The job goes on while it is written.",
    fields: [directoryField(job)],
    confirm: "Take the savepoint",
    submit: (data) => {
      const body = { "target-directory": data.get("directory").trim() || null };
      run("Savepoint", () => post(path`jobs/${jid}/savepoints`, body), path`jobs/${jid}/savepoints/`, written("Savepoint"));
    },
  });
}

function openStop(jid, { live, job }) {
  const drain = h(
    "label",
    { class: "check" },
    h("input", { type: "checkbox", name: "drain" }),
    h("span", {}, "Drain: ", h("span", { class: "hint" }, "end event time first, so that all windows and timers fire. A job that shall go on later from the savepoint must not be drained.")),
  );
  ask({
    title: `Stop ${live.name}?`,
    text: "It takes a savepoint and ends. It can be started again from there.",
    fields: [directoryField(job), drain],
    confirm: "Stop the job",
    isDangerous: true,
    submit: (data) => {
      const body = { targetDirectory: data.get("directory").trim() || null, drain: data.get("drain") === "on" };
      run("Stop", () => post(path`jobs/${jid}/stop`, body), path`jobs/${jid}/savepoints/`, written("Stopped with the savepoint"));
    },
  });
}

function openCancel(jid, { live }) {
  ask({
    title: `Cancel ${live.name}?`,
    text: "It ends at once, without a savepoint. What it did since its last checkpoint is done again if it is ever started from there.",
    confirm: "Cancel the job",
    isDangerous: true,
    submit: () => run("Cancel", () => patch(path`jobs/${jid}?mode=cancel`), null, () => ["The job is cancelled."]),
  });
}

function openRescale(jid, { live, job }) {
  const most = (vertex) => (vertex.maxParallelism > 0 ? vertex.maxParallelism : 32_768);
  const fields = job.vertices.map((vertex) =>
    h(
      "label",
      { class: "check" },
      h("input", { type: "number", name: vertex.id, value: vertex.parallelism, min: 1, max: most(vertex), required: true }),
      h("span", {}, chainName(vertex.name), " ", h("span", { class: "hint" }, `now ${vertex.parallelism}${vertex.maxParallelism > 0 ? `, at most ${vertex.maxParallelism}` : ""}`)),
    ),
  );
  ask({
    title: `Rescale ${live.name}`,
    text: "The job takes a checkpoint and goes on from it with the new parallelism; it pauses for that.",
    fields: [h("div", { class: "scales" }, fields)],
    confirm: "Rescale",
    submit: (data) => {
      const body = {};
      for (const vertex of job.vertices) {
        const wanted = Number(data.get(vertex.id));
        if (wanted !== vertex.parallelism) body[vertex.id] = { parallelism: { lowerBound: 1, upperBound: wanted } };
      }
      if (!Object.keys(body).length) return void message("Nothing to do: the parallelism is as it was.");
      run("Rescale", () => put(path`jobs/${jid}/resource-requirements`, body), path`jobs/${jid}/rescaling/`, () => ["The job runs with the new parallelism."]);
    },
  });
}

/** Starts something, asks until it is done, and says what came of it; `where` is `null` if the first answer is all. */
async function run(what, start, where, outcome) {
  const startedMs = Date.now();
  const shown = message(`${what} is asked for…`);
  try {
    const triggered = await start();
    const progress = (ms) => shown.change("", `${what} is under way… ${duration(ms)}`);
    const result = where === null ? {} : await ended(where + triggered["request-id"], startedMs, progress);
    const failure = result["failure-cause"];
    if (failure) shown.change("bad", `${what} failed: ${failure["stack-trace"] || failure.class}`);
    else shown.change("good", ...outcome(result));
  } catch (error) {
    if (!error.kind) throw error;
    shown.change("bad", `${what} failed: ${error.message}`);
    if (error.kind === "unauthorized") askForToken(() => run(what, start, where, outcome), error.message);
  }
  wake();
}

async function ended(where, startedMs, progress) {
  const never = new AbortController().signal;
  for (;;) {
    const found = await get(where);
    if (found.status.id === "COMPLETED") return found.operation ?? {};
    progress(Math.max(1_000, Math.round((Date.now() - startedMs) / 1_000) * 1_000));
    await pause(ASK_MS, never);
  }
}
