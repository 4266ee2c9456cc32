// One job: what is true on all its pages, and the choice between them.

import { get, path } from "../api.js";
import { actionBar } from "../actions.js";
import { sparkline } from "../charts.js";
import { pulse } from "../connection.js";
import { fact, h, setAttribute, setText } from "../dom.js";
import { bytes, count, duration, rate, time, utc } from "../format.js";
import { throughput } from "../graph.js";
import { poll } from "../poll.js";
import { badge, isOver, note, setBadge } from "../words.js";
import { checkpointsTab } from "./checkpoints.js";
import { configurationTab } from "./configuration.js";
import { exceptionsTab } from "./exceptions.js";
import { graphTab } from "./graph.js";
import { stateTab } from "./state.js";

const LIVE_MS = 800;
const OVER_MS = 5_000;
const TABS = [
  ["graph", "Graph", graphTab],
  ["checkpoints", "Checkpoints", checkpointsTab],
  ["state", "State", stateTab],
  ["exceptions", "Exceptions", exceptionsTab],
  ["configuration", "Configuration", configurationTab],
];

export function jobPage({ main, signal, setTrail, needToken }, jid) {
  const head = jobHead(jid);
  const actions = actionBar(jid);
  head.heading.append(actions.element);
  const tabs = tabBar(jid);
  const problem = h("div", {});
  const body = h("div", {});
  main.replaceChildren(problem);
  setTrail(jid);
  let job = null, live = null, tab = null, config = null, wanted = [];

  const fail = (error) => {
    if (error.kind === "unauthorized") return needToken(error) ?? true;
    if (error.kind === "missing" || (error.status === 400 && live === null)) {
      tab?.leave.abort();
      main.replaceChildren(vanished(jid, error.message, job !== null));
      return true;
    }
    problem.replaceChildren(note("bad", error.message));
    return false;
  };

  const context = { jid, fail, job: () => job, live: () => live };

  const openTab = () => {
    const [name, ...rest] = wanted.length ? wanted : ["graph"];
    const [known, , create] = TABS.find(([key]) => key === name) ?? TABS[0];
    if (tab?.name !== known) {
      tab?.leave.abort();
      const leave = new AbortController();
      signal.addEventListener("abort", () => leave.abort(), { signal: leave.signal });
      body.replaceChildren();
      tab = { name: known, leave, view: create(body, { ...context, signal: leave.signal }) };
      tabs.mark(known);
    }
    tab.view.route?.(known === name ? rest : []);
    if (live) tab.view.show?.(live, job);
  };

  const read = async (asked) => {
    config ??= await get("config", asked);
    const newest = await get(path`jobs/${jid}/live`, asked);
    if (isOutOfDate(job, newest)) job = await get(path`jobs/${jid}`, asked);
    return newest;
  };
  const show = (newest) => {
    const isFirst = live === null;
    live = newest;
    problem.replaceChildren();
    if (isFirst) {
      setTrail(live.name);
      main.replaceChildren(problem, head.element, tabs.element, body);
    }
    head.show(live, job);
    actions.show(live, job, config);
    tabs.show(live);
    if (live.archived) pulse("still", "from storage");
    else if (isOver(live.state)) pulse("still", "over");
    else pulse("live", "live");
    if (isFirst) openTab();
    else tab.view.show?.(live, job);
  };
  poll(read, { show, fail, everyMs: () => (live && isOver(live.state) ? OVER_MS : LIVE_MS), signal });
  return {
    route: (rest) => {
      wanted = rest;
      if (live) openTab();
    },
  };
}

function isOutOfDate(job, live) {
  if (!job || job.state !== live.state || job.restarts !== live.restarts || job.archived !== live.archived) return true;
  const parallelism = new Map(job.vertices.map((vertex) => [vertex.id, vertex.parallelism]));
  return live.vertices.some((vertex) => parallelism.get(vertex.id) !== vertex.parallelism);
}

function vanished(jid, message, wasThere) {
  return h(
    "section",
    { class: "card empty" },
    h("h1", {}, wasThere ? "The job is gone" : "No such job"),
    h("p", {}, message),
    h("p", { class: "soft" }, "A job that is over is shown from the archive beside its checkpoints, unless that was deleted or lies where this console does not look."),
    h("p", {}, h("a", { href: "#/" }, "All jobs")),
  );
}

function jobHead(jid) {
  const name = h("h1", {});
  const state = badge("");
  const cause = h("div", {});
  const facts = h("dl", { class: "facts" });
  const started = fact(facts, "Started");
  const uptime = fact(facts, "Ran for");
  const restarts = fact(facts, "Restarts");
  const flow = fact(facts, "Records from sources");
  const latest = fact(facts, "Last checkpoint");
  const done = fact(facts, "Checkpoints");
  const spark = sparkline("Records from sources in the last seconds");
  const graph = h("div", { class: "fact" }, spark.element);
  flow.parentElement.after(graph);
  const heading = h("div", { class: "heading" }, name, state, h("span", { class: "soft small mono" }, jid));
  const element = h("section", { "aria-label": "Job" }, heading, facts, cause);
  let metricsMs = 0;
  const show = (live, job) => {
    setText(name, live.name);
    setBadge(state, live.state);
    setText(started, time(live.start_time));
    setAttribute(started, "title", utc(live.start_time));
    setText(uptime, duration(live.duration));
    setText(uptime.previousElementSibling, isOver(live.state) ? "Ran for" : "Uptime");
    setText(restarts, count(live.restarts));
    const records = throughput(job.plan, live);
    setText(flow, isOver(live.state) ? "–" : rate(records));
    graph.hidden = isOver(live.state);
    if (live.metrics_ms !== metricsMs) spark.add(records);
    metricsMs = live.metrics_ms;
    setText(latest, latestWords(live.checkpoints.latest));
    setText(done, doneWords(live.checkpoints));
    showCause(cause, live, job);
  };
  return { element, heading, show };
}

function latestWords(latest) {
  if (!latest) return "none yet";
  if (latest.status !== "COMPLETED") return `#${latest.id} failed`;
  return `#${latest.id} · ${duration(latest.end_to_end_duration)} · ${bytes(latest.state_size)}`;
}

function doneWords({ completed, failed, in_progress: running }) {
  const words = [`${count(completed)} done`];
  if (failed) words.push(`${count(failed)} failed`);
  if (running) words.push(`${count(running)} under way`);
  return words.join(" · ");
}

function showCause(element, live, job) {
  const text = live.cause && live.state !== "FINISHED" ? live.cause : "";
  const where = job["stopped-with"] ? `Stopped with the savepoint ${job["stopped-with"]}` : "";
  if (element.dataset.text === text + where) return;
  element.dataset.text = text + where;
  const isFailed = live.state === "FAILED";
  element.replaceChildren(
    ...(text ? [note(isFailed ? "bad" : "warn", h("strong", {}, isFailed ? "Failed: " : "Last failure: "), text)] : []),
    ...(where ? [note("good", where)] : []),
  );
}

function tabBar(jid) {
  const failures = h("span", { class: "badge plain", "data-tone": "bad" });
  const links = TABS.map(([key, title]) =>
    h("a", { href: `#/jobs/${encodeURIComponent(jid)}/${key}` }, title, key === "exceptions" && failures),
  );
  const element = h("nav", { class: "tabs", "aria-label": "Pages of the job" }, links);
  return {
    element,
    mark: (name) => TABS.forEach(([key], place) => setAttribute(links[place], "aria-current", key === name ? "page" : null)),
    show: (live) => {
      setText(failures, count(live.exceptions));
      failures.hidden = live.exceptions === 0;
    },
  };
}
