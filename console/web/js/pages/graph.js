// The graph with the figures of this second, and one task of it with its subtasks.

import { legend } from "../charts.js";
import { h, reconcile, setText } from "../dom.js";
import { bottleneck, jobGraph } from "../graph.js";
import { isOver, note } from "../words.js";
import { vertexPanel } from "../vertex.js";

export function graphTab(body, { jid, signal, fail, job, live }) {
  const words = h("span", { class: "soft" });
  const warnings = h("div", {});
  const place = h("div", { class: "body" });
  const zoom = h("div", {});
  const card = h(
    "section",
    { class: "card", "aria-label": "Graph" },
    h(
      "header",
      {},
      words,
      h("div", { class: "push graph-tools" }, loadLegend(), zoom),
    ),
    place,
  );
  const split = h("div", { class: "split" }, card);
  body.append(warnings, split);
  const address = `#/jobs/${encodeURIComponent(jid)}/graph`;
  let graph = null, planned = null, panel = null, wanted = null;

  const choose = (id) => {
    location.hash = id === wanted ? address : `${address}/${encodeURIComponent(id)}`;
  };
  const openPanel = () => {
    const node = wanted && job()?.plan.nodes.find((each) => each.id === wanted);
    if (panel?.id === (node?.id ?? null) && panel?.plan === planned) return;
    panel?.close();
    panel = null;
    if (node) {
      panel = { ...vertexPanel(jid, node, { close: () => choose(wanted), fail, signal }), id: node.id, plan: planned };
      split.append(panel.element);
      if (live()) panel.show(live());
    }
    split.classList.toggle("is-open", Boolean(panel));
    graph?.mark(panel?.id ?? null);
  };
  return {
    route: ([id]) => {
      wanted = id ?? null;
      openPanel();
    },
    show: (now, known) => {
      if (planned !== known.plan) {
        const samePlan = planned && JSON.stringify(planned) === JSON.stringify(known.plan);
        if (!samePlan) {
          planned = known.plan;
          graph = jobGraph(planned, choose);
          place.replaceChildren(graph.element);
          zoom.replaceChildren(graph.tools);
          openPanel();
        }
      }
      graph.show(now);
      panel?.show(now);
      setText(words, headline(planned, now));
      reconcile(warnings, known.warnings, (text) => text, (text) => note("warn", text), () => {});
    },
  };
}

function loadLegend() {
  return legend([
    ["is-busy", "busy"],
    ["is-backpressured", "backpressured: waits for those after it"],
    ["is-idle", "idle"],
  ]);
}

function headline(plan, live) {
  if (isOver(live.state)) return "The job is over; these are its last figures.";
  if (live.state !== "RUNNING") return "The job does not run right now.";
  return bottleneck(plan, live) ?? "No task holds the others up.";
}
