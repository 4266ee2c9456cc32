// Failures of a job, the newest first; tracebacks are folded.

import { get, path } from "../api.js";
import { h, reconcile, setText } from "../dom.js";
import { count, duration, time, utc } from "../format.js";
import { poll } from "../poll.js";

const EVERY_MS = 2_000;
const MOST = 100;

export function exceptionsTab(body, { jid, signal, fail }) {
  const root = h("div", { class: "body" });
  const words = h("span", { class: "soft push small" });
  const list = h("div", {});
  const card = h("section", { class: "card", "aria-label": "Failures" }, h("header", {}, h("h2", {}, "Failures"), words), root, list);
  const restarts = h("span", { class: "soft push small" });
  const past = h("div", {});
  const recoveries = h("section", { class: "card", "aria-label": "Recoveries" }, h("header", {}, h("h2", {}, "Recoveries"), restarts), past);
  body.append(card, recoveries);
  const show = (found) => {
    const { entries, truncated } = found.exceptionHistory;
    root.hidden = entries.length > 0;
    setText(root, entries.length ? "" : "Nothing has failed.");
    setText(words, entries.length ? `the newest ${count(entries.length)}${truncated ? ", older ones are not kept" : ""}` : "");
    const key = (entry) => `${entry.timestamp} ${entry.attempt} ${entry.taskName} ${entry.exceptionName}`;
    reconcile(list, entries, key, failure, () => {});
  };
  poll((asked) => get(path`jobs/${jid}/exceptions` + `?maxExceptions=${MOST}`, asked), { show, fail, everyMs: () => EVERY_MS, signal });
  const showRecoveries = (found) => {
    setText(restarts, found.restarts === 1 ? "1 restart" : `${count(found.restarts)} restarts`);
    recoveries.hidden = found.recoveries.length === 0;
    const key = (one) => `${one.failed} ${one.running} ${one.outage}`;
    reconcile(past, found.recoveries, key, recovery, () => {});
  };
  poll((asked) => get(path`jobs/${jid}/recoveries` + `?limit=${MOST}`, asked), { show: showRecoveries, fail, everyMs: () => EVERY_MS, signal });
  return {};
}

function recovery(one) {
  const words = [
    one.restored_checkpoint === null ? "from the beginning" : `from checkpoint ${one.restored_checkpoint}`,
    `running after ${duration(one.duration)}`,
    one.outage === null ? "no result yet" : `no results for ${duration(one.outage)}`,
    one.failures > 1 ? `${count(one.failures)} failures` : null,
  ];
  return h(
    "article",
    { class: "failure" },
    h("div", { class: "failure-when" }, h("time", { title: utc(one.failed) }, time(one.failed))),
    h("div", {}, h("p", { class: "failure-cause" }, one.cause), h("p", { class: "soft small" }, words.filter(Boolean).join(" · "))),
  );
}

function failure(entry) {
  const first = entry.stacktrace.trim().split("\n");
  const where = [entry.taskName ?? "the job as a whole", `attempt ${entry.attempt}`, entry.endpoint].filter(Boolean);
  return h(
    "article",
    { class: "failure" },
    h("div", { class: "failure-when" }, h("time", { title: utc(entry.timestamp) }, time(entry.timestamp))),
    h(
      "div",
      {},
      h("p", { class: "failure-cause" }, entry.exceptionName),
      h("p", { class: "soft small" }, where.join(" · ")),
      first.length > 1 || first[0] !== entry.exceptionName
        ? h("details", {}, h("summary", { class: "small" }, "Traceback"), h("pre", { class: "trace", tabindex: "0" }, entry.stacktrace))
        : null,
    ),
  );
}
