// What is in the newest complete checkpoint: operators, states, and some entries of a state when asked for.

import { get, path } from "../api.js";
import { fact, h, setText } from "../dom.js";
import { bytes, count, duration, time } from "../format.js";
import { poll } from "../poll.js";
import { note } from "../words.js";

const EVERY_MS = 5_000;
const SAMPLE = 20;
const STORED_ROWS = "Stored rows are the rows in the files. They include overwritten and removed ones, so there may be fewer entries.";
const PICKLED = /^<pickled, (\d+) bytes>$/;

export function stateTab(body, { jid, signal, fail, live }) {
  const head = h("div", {});
  const operators = h("div", {});
  const newer = h("button", { type: "button", onclick: () => take(newest) }, "Show it");
  const newerText = h("span", {});
  const newerNote = h("p", { class: "note" }, newerText, " ", newer);
  newerNote.hidden = true;
  body.append(newerNote, head, operators);
  let shown = null, newest = null;

  const take = (state) => {
    shown = state;
    newerNote.hidden = true;
    head.replaceChildren(overview(state));
    operators.replaceChildren(...state.operators.map((operator) => operatorCard(jid, operator, state)));
  };
  // A newer checkpoint must not fold up what somebody reads: it is offered, and taken when asked.
  const show = (state) => {
    newest = state;
    const isRead = body.querySelector(".samples") !== null;
    if (shown && state.checkpoint_id === shown.checkpoint_id && state.path === shown.path) return;
    if (!shown || !isRead || state.checkpoint_id === null) take(state);
    else {
      newerNote.hidden = false;
      setText(newerText, `Checkpoint #${state.checkpoint_id} is complete; this is the state of #${shown.checkpoint_id}.`);
    }
  };
  const isNewer = () => live()?.checkpoints.latest?.id !== shown?.checkpoint_id;
  const read = (asked) => (newest && !isNewer() ? newest : get(path`jobs/${jid}/state`, asked));
  poll(read, { show, fail, everyMs: () => EVERY_MS, signal });
  return {};
}

function overview(state) {
  if (state.note) return h("section", { class: "card" }, h("div", { class: "body" }, note(state.path ? "bad" : "", sentence(state.note))));
  const facts = h("dl", { class: "facts" });
  setText(fact(facts, "Checkpoint"), `#${state.checkpoint_id}`);
  setText(fact(facts, "Taken"), time(state.triggered_ms));
  setText(fact(facts, "Complete after"), duration(state.completed_ms - state.triggered_ms));
  setText(fact(facts, "Size"), bytes(state.size_bytes));
  return h(
    "section",
    { class: "card", "aria-label": "Checkpoint" },
    h("header", {}, h("h2", {}, "State in the newest complete checkpoint"), h("span", { class: "soft small push" }, "read from storage; the job is not asked")),
    h("div", { class: "body" }, facts, h("p", { class: "soft small mono wrap" }, state.path)),
  );
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

function operatorCard(jid, operator, state) {
  const rows = operator.states.flatMap((each) => stateRows(jid, operator, each, state));
  const heads = ["State", "Kind", "Types", "Stored rows", "Size", ""];
  return h(
    "section",
    { class: "card", "aria-label": `State of ${operator.name}` },
    h(
      "header",
      {},
      h("h2", {}, operator.name),
      h("span", { class: "soft small" }, "uid ", h("code", {}, operator.uid)),
      h("span", { class: "soft small push" }, `parallelism ${operator.parallelism} of ${operator.max_parallelism} at most · ${bytes(operator.size_bytes)}`),
    ),
    rows.length
      ? h(
          "div",
          { class: "scroll" },
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, heads.map((name, place) => h("th", { scope: "col", class: place === 3 || place === 4 ? "number" : "" }, name)))),
            h("tbody", {}, rows),
          ),
        )
      : h("div", { class: "body soft" }, "No state."),
    rows.length > 0 && h("p", { class: "body soft small" }, STORED_ROWS),
  );
}

function types(each) {
  const key = each.map_key_type ? `${each.key_type ?? "?"}, ${each.map_key_type}` : each.key_type;
  const value = each.value_type ?? "pickled";
  const parts = [key ? `${key} → ${value}` : value];
  if (each.ttl && each.ttl !== "None") parts.push(`TTL ${each.ttl}`);
  return parts.join(" · ");
}

function stateRows(jid, operator, each, state) {
  const place = h("td", { colspan: 6 });
  const samples = h("tr", { class: "samples-row" }, place);
  samples.hidden = true;
  const button = h("button", { type: "button", "aria-expanded": "false" }, "Entries");
  button.addEventListener("click", () => {
    samples.hidden = !samples.hidden;
    button.setAttribute("aria-expanded", String(!samples.hidden));
    if (samples.hidden) place.replaceChildren();
    else showEntries(jid, operator, each, state, place, 0);
  });
  const row = h(
    "tr",
    {},
    h("td", { class: "name" }, each.name),
    h("td", {}, each.kind),
    h("td", { class: "mono wrap" }, types(each)),
    h("td", { class: "number" }, count(each.stored_rows)),
    h("td", { class: "number" }, bytes(each.size_bytes)),
    h("td", { class: "number" }, button),
  );
  return [row, samples];
}

async function showEntries(jid, operator, each, state, place, offset) {
  place.replaceChildren(h("p", { class: "samples soft" }, "Reading…"));
  const asked = new URLSearchParams({ uid: operator.uid, state: each.name, offset, limit: SAMPLE });
  try {
    const found = await get(path`jobs/${jid}/state/entries` + `?${asked}`);
    const turn = (to) => () => showEntries(jid, operator, each, state, place, to);
    const from = found.checkpoint_id === state.checkpoint_id ? "" : ` These are from checkpoint #${found.checkpoint_id}, which is newer.`;
    place.replaceChildren(h("div", { class: "samples" }, entriesTable(found.entries), pager(found, turn, from)));
  } catch (error) {
    if (!error.kind) throw error;
    place.replaceChildren(h("div", { class: "samples" }, note("bad", error.message)));
  }
}

function pager(found, turn, from) {
  const last = found.offset + found.entries.length;
  const words = found.entries.length ? `${count(found.offset + 1)} to ${count(last)}, in the order of storage.` : "No entries.";
  return h(
    "div",
    { class: "filter" },
    found.offset > 0 && h("button", { type: "button", onclick: turn(Math.max(0, found.offset - SAMPLE)) }, "Before"),
    !found.is_last && h("button", { type: "button", onclick: turn(found.offset + SAMPLE) }, "After"),
    h("span", { class: "soft small" }, words + from),
  );
}

function entriesTable(entries) {
  const columns = [
    ["Key", "key"],
    ["Namespace", "namespace"],
    ["Map key", "map_key"],
    ["Subtask", "subtask"],
    ["Value", "value"],
    ["Expires", "expiry"],
  ].filter(([, name]) => entries.some((entry) => entry[name] !== null && entry[name] !== ""));
  return h(
    "table",
    { class: "entries" },
    h("thead", {}, h("tr", {}, columns.map(([title]) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, entries.map((entry) => h("tr", {}, columns.map(([, name]) => h("td", { class: "mono wrap" }, shown(entry[name])))))),
  );
}

function shown(value) {
  if (value === null) return "";
  const pickled = PICKLED.exec(String(value));
  if (!pickled) return String(value);
  return h("span", { class: "badge plain", title: "A Python object. The console never loads such bytes: doing so could run code." }, `pickled, ${bytes(Number(pickled[1]))}, not opened`);
}
