// The settings of a job and how it takes checkpoints.

import { get, path } from "../api.js";
import { h, setText } from "../dom.js";
import { count, duration } from "../format.js";
import { poll } from "../poll.js";
import { note } from "../words.js";

const EVERY_MS = 30_000;

export function configurationTab(body, { jid, signal, fail, job }) {
  const read = async (asked) => ({
    config: await get(path`jobs/${jid}/config`, asked),
    checkpointing: await get(path`jobs/${jid}/checkpoints/config`, asked),
  });
  let shown = "";
  const show = ({ config, checkpointing }) => {
    // Drawn anew only where something changed: somebody may be filtering.
    const text = JSON.stringify([config, checkpointing, job()]);
    if (text === shown) return;
    shown = text;
    const how = config["execution-config"];
    const about = factsCard("The job", [
      ["Id", config.jid],
      ["Mode", how["execution-mode"]],
      ["Restart strategy", how["restart-strategy"]],
      ["Parallelism", count(how["job-parallelism"])],
      ["Coordinator on", job()["coordinator-host"] || "–"],
      ["Newest checkpoint", job()["newest-checkpoint"] ?? "none"],
    ]);
    const taking = factsCard("Checkpoints", checkpointFacts(checkpointing));
    body.replaceChildren(h("div", { class: "pair" }, about, taking), settings(how["user-config"]));
  };
  poll(read, { show, fail, everyMs: () => EVERY_MS, signal });
  return {};
}

function checkpointFacts(config) {
  if (config.interval < 0) return [["Checkpoints", "off"]];
  return [
    ["Every", duration(config.interval)],
    ["Mode", `${config.mode.toLowerCase().replaceAll("_", " ")}${config.unaligned_checkpoints ? ", unaligned" : ""}`],
    ["Given up after", duration(config.timeout)],
    ["Pause between two", duration(config.min_pause)],
    ["At the same time", count(config.max_concurrent)],
    ["Tolerated failures", count(config.tolerable_failed_checkpoints)],
    ["State backend", config.state_backend],
    ["Storage", config.checkpoint_storage],
    ["Kept after the job", config.externalization.enabled ? (config.externalization.delete_on_cancellation ? "unless cancelled" : "yes") : "no"],
  ];
}

function factsCard(title, facts) {
  const rows = facts.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "setting" }, String(value))));
  return h(
    "section",
    { class: "card", "aria-label": title },
    h("header", {}, h("h2", {}, title)),
    h("table", { class: "settings" }, h("tbody", {}, rows)),
  );
}

function settings(all) {
  const names = Object.keys(all).sort();
  const rows = names.map((name) =>
    h("tr", {}, h("th", { scope: "row", class: "mono" }, name), h("td", { class: "setting mono" }, all[name])),
  );
  const number = h("span", { class: "soft small", role: "status" });
  const search = h("input", { type: "search", placeholder: "Part of a name or value", "aria-label": "Filter the settings" });
  const filter = () => {
    const wanted = search.value.toLowerCase();
    rows.forEach((row) => (row.hidden = !row.textContent.toLowerCase().includes(wanted)));
    const left = rows.filter((row) => !row.hidden).length;
    setText(number, left === rows.length ? count(left) : `${count(left)} of ${count(rows.length)}`);
  };
  search.addEventListener("input", filter);
  filter();
  return h(
    "section",
    { class: "card", "aria-label": "Settings" },
    h("header", {}, h("h2", {}, "Settings"), number, h("div", { class: "push" }, search)),
    rows.length
      ? h("table", { class: "settings" }, h("tbody", {}, rows))
      : h("div", { class: "body" }, note("", "The job has no settings of its own: all are as documented.")),
    h("div", { class: "body soft small" }, "Secrets are not shown."),
  );
}
