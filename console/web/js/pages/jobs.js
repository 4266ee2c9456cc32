// All jobs: those that run with their figures, those that are over.

import { get, path } from "../api.js";
import { pulse } from "../connection.js";
import { h, reconcile, setAttribute, setText } from "../dom.js";
import { bytes, count, duration, rate, time, utc } from "../format.js";
import { throughput } from "../graph.js";
import { poll } from "../poll.js";
import { badge, isOver, note, setBadge } from "../words.js";

const EVERY_MS = 1_000;
const WITH_FIGURES = 20;
const STEP = 50;

export function jobsPage({ main, signal, needToken }) {
  const running = table("Running", ["Job", "Status", "Uptime", "Restarts", "From sources", "Last checkpoint", "Tasks"]);
  const over = table("Over", ["Job", "Status", "Ended", "Ran for", "Tasks"]);
  const more = h("button", { type: "button" }, "Show more");
  let shown = STEP;
  let last = null;
  over.card.append(h("div", { class: "body buttons" }, more));
  more.addEventListener("click", () => {
    shown += STEP;
    show(last);
  });
  const problem = h("div", {});
  const nothing = emptyConsole();
  main.replaceChildren(h("h1", { class: "unseen" }, "Jobs"), problem, running.card, over.card, nothing);
  [running.card, over.card, nothing].forEach((each) => (each.hidden = true));

  const show = ({ jobs, figures }) => {
    last = { jobs, figures };
    problem.replaceChildren();
    const live = jobs.filter((job) => !job.archived && !isOver(job.state));
    const ended = jobs.filter((job) => !live.includes(job));
    nothing.hidden = jobs.length > 0;
    running.card.hidden = live.length === 0;
    over.card.hidden = ended.length === 0;
    setText(running.count, count(live.length));
    setText(over.count, count(ended.length));
    reconcile(running.body, live, (job) => job.jid, runningRow, (row, job) => row.fill(job, figures.get(job.jid)));
    reconcile(over.body, ended.slice(0, shown), (job) => job.jid, endedRow, (row, job) => row.fill(job));
    more.parentElement.hidden = ended.length <= shown;
    pulse("live", "live");
  };
  const fail = (error) => {
    if (error.kind === "unauthorized") return needToken(error) ?? true;
    problem.replaceChildren(note("bad", error.message));
    return false;
  };
  const plans = new Map();
  poll((asked) => readAll(plans, asked), { show, fail, everyMs: () => EVERY_MS, signal });
  return {};
}

async function readAll(plans, signal) {
  const { jobs } = await get("jobs/overview", signal);
  const live = jobs.filter((job) => !job.archived && !isOver(job.state)).slice(0, WITH_FIGURES);
  const found = await Promise.all(live.map((job) => figuresOf(job.jid, plans, signal)));
  return { jobs, figures: new Map(live.map((job, place) => [job.jid, found[place]])) };
}

// One job that cannot be asked, because it ends just now, must not hide the others.
async function figuresOf(jid, plans, signal) {
  try {
    if (!plans.has(jid)) plans.set(jid, (await get(path`jobs/${jid}/plan`, signal)).plan);
    const live = await get(path`jobs/${jid}/live`, signal);
    return { ...live, flow: throughput(plans.get(jid), live) };
  } catch (error) {
    if (error.kind === "unreachable" || !error.kind) throw error;
    return null;
  }
}

function table(title, columns) {
  const body = h("tbody", {});
  const number = h("span", { class: "soft" });
  const heads = columns.map((name, place) => h("th", { scope: "col", class: place > 1 ? "number" : "" }, name));
  const card = h(
    "section",
    { class: "card", "aria-label": `${title} jobs` },
    h("header", {}, h("h2", {}, title), number),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), body)),
  );
  return { card, body, count: number };
}

function nameCell(job) {
  const link = h("a", { class: "whole name", href: `#/jobs/${encodeURIComponent(job.jid)}` }, job.name || job.jid);
  return h("td", {}, link, h("div", { class: "soft small mono" }, job.jid));
}

function numbers(amount) {
  return Array.from({ length: amount }, () => h("td", { class: "number" }));
}

function runningRow(job) {
  const state = badge(job.state);
  const [uptime, restarts, flow, checkpoint, tasks] = numbers(5);
  const row = h("tr", {}, nameCell(job), h("td", {}, state), uptime, restarts, flow, checkpoint, tasks);
  row.fill = (now, live) => {
    setBadge(state, now.state);
    setText(uptime, duration(now.duration));
    setText(restarts, live ? count(live.restarts) : "–");
    setText(flow, live ? rate(live.flow) : "–");
    setText(checkpoint, lastCheckpoint(live));
    setText(tasks, `${count(now.tasks.running)} / ${count(now.tasks.total)}`);
  };
  return row;
}

function lastCheckpoint(live) {
  const latest = live?.checkpoints.latest;
  if (!latest) return "–";
  const outcome = latest.status === "COMPLETED" ? `${duration(latest.end_to_end_duration)}, ${bytes(latest.state_size)}` : "failed";
  return `#${latest.id} · ${outcome}`;
}

function endedRow(job) {
  const state = badge(job.state);
  const [ended, ran, tasks] = numbers(3);
  const error = h("div", { class: "small" });
  const row = h("tr", {}, nameCell(job), h("td", {}, state, error), ended, ran, tasks);
  row.fill = (now) => {
    setBadge(state, now.state);
    setText(error, now.error ?? "");
    setText(ended, time(now["end-time"]));
    setAttribute(ended, "title", utc(now["end-time"]));
    setText(ran, now.error ? "–" : duration(now.duration));
    setText(tasks, now.error ? "–" : count(now.tasks.total));
  };
  return row;
}

function emptyConsole() {
  return h(
    "section",
    { class: "card empty", "aria-label": "No jobs" },
    h("h2", {}, "No job yet"),
    h("p", {}, "This console shows jobs that run, and those that are over as long as their archive is in storage. To start one:"),
    h("pre", {}, "tidegate run driver.py"),
    h("p", { class: "soft" }, "A job shows up here within a second or two. If yours does not, it probably runs on another cluster, or keeps its checkpoints in another directory than this console reads: compare with what the console said when it started."),
  );
}
