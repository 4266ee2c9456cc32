// The epochs of a task's Spark stages: one row for each stage with several subtasks and for each subtask, and
// the address of Spark's web UI.

import { h, reconcile, setAttribute, setText } from "./dom.js";
import { bytes, count, shortDuration } from "./format.js";
import { rowsTable } from "./rows.js";

const NOTHING = "–";

export function stagesSection() {
  const rows = rowsTable(stageColumns(), { label: "Epochs of Spark stages", rows: 6 });
  const links = h("ul", { class: "chain" });
  const element = h("div", { class: "stages" }, h("h3", {}, "Epochs in Spark"), rows.element, links);
  const show = (wholeStages, stages) => {
    element.hidden = stages.length === 0;
    rows.show(stageRows(wholeStages, stages));
    reconcile(links, webUis(stages), ({ key }) => key, newLink, fillLink);
  };
  return { element, show };
}

function stageRows(wholeStages, stages) {
  return wholeStages.flatMap((whole) => [
    ...(whole.subtasks > 1 ? [{ ...whole, title: whole.name }] : []),
    ...stages.filter(({ uid }) => uid === whole.uid).map((each) => ({ ...each, title: `${each.name} · ${each.subtask}` })),
  ]);
}

function webUis(stages) {
  const found = stages.filter((stage) => stage.web_ui).map((stage) => ({ ...stage, key: `${stage.web_ui} ${stage.host}` }));
  return [...new Map(found.map((stage) => [stage.key, stage])).values()];
}

function newLink() {
  const link = h("a", { target: "_blank", rel: "noopener noreferrer" });
  return h("li", {}, "Spark's web UI: ", link, h("span", { class: "soft small" }));
}

function fillLink(item, stage) {
  const [link, note] = item.children;
  setText(link, stage.web_ui);
  // The address comes from the job.
  setAttribute(link, "href", /^https?:\/\//.test(stage.web_ui) ? stage.web_ui : null);
  setText(note, stage.web_ui_is_on_loopback ? ` listens on loopback: open it on ${stage.host}, or forward its port` : "");
}

/** `#4: 12,000`: the number of the epoch and its records; for several epochs how many there are. */
export function phaseWords({ epochs, records, first }) {
  if (!epochs) return NOTHING;
  return `${epochs > 1 ? `${epochs} from ` : ""}#${first}: ${count(records)}`;
}

function phaseTitle({ epochs, records, size_bytes: size, first }) {
  if (!epochs) return "no epoch";
  const which = epochs > 1 ? `${count(epochs)} epochs, the oldest is number ${first}` : `epoch ${first}`;
  return `${which}: ${count(records)} records${size ? `, ${bytes(size)}` : ""}`;
}

function resultsOf({ emitting, finished }) {
  return emitting.epochs ? emitting : finished;
}

function stageColumns() {
  const phase = (title, of) => ({
    title,
    width: "minmax(104px, 1fr)",
    fill: (cell, row) => {
      setText(cell, phaseWords(of(row)));
      setAttribute(cell, "title", phaseTitle(of(row)));
    },
  });
  const number = (title, width, of, value) => ({ title, width, isNumber: true, value, fill: (cell, row) => setText(cell, of(row)) });
  return [
    { title: "Stage", width: "minmax(80px, 1fr)", fill: (cell, row) => setText(cell, row.title) },
    phase("Gathering", (row) => row.gathering),
    phase("Waiting", (row) => row.waiting),
    phase("Running", (row) => row.running),
    phase("Emitting", resultsOf),
    {
      title: "Buffered",
      width: "76px",
      isNumber: true,
      value: (row) => row.buffered_bytes,
      fill: (cell, row) => {
        setText(cell, bytes(row.buffered_bytes));
        setAttribute(cell, "title", `of ${bytes(row.buffer_limit_bytes)}; with more, the stage takes no records`);
      },
    },
    number("In", "84px", (row) => count(row.records_in), (row) => row.records_in),
    number("Out", "84px", (row) => count(row.records_out), (row) => row.records_out),
    number("Runs", "52px", (row) => (row.epochs_run === null ? NOTHING : count(row.epochs_run)), (row) => row.epochs_run ?? -1),
    number("Last", "64px", (row) => shortDuration(row.last_run_ms), (row) => row.last_run_ms ?? -1),
    number("Total", "64px", (row) => shortDuration(row.run_ms), (row) => row.run_ms ?? -1),
  ];
}
