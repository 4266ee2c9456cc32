// Whether the server answers. While it does not, the page keeps its last figures, greyed, under a banner.

import { h, setText } from "./dom.js";
import { time } from "./format.js";

const SLOWEST_MS = 15_000;
const wakers = new Set();
let reachedMs = 0;
let loss = null;
let ticking = 0;

/** Milliseconds until the next try after so many failures in a row. */
export function backOffMs(failures) {
  return Math.min(SLOWEST_MS, 1_000 * 2 ** (failures - 1));
}

export function reached() {
  reachedMs = Date.now();
  if (!loss) return;
  loss = null;
  clearInterval(ticking);
  document.body.classList.remove("stale");
  document.getElementById("banner").replaceChildren();
  pulse("live", "live");
}

/** Says that a request failed, and when the next one follows. */
export function lost(error, waitMs) {
  const nextMs = Date.now() + waitMs;
  if (loss) {
    loss.nextMs = nextMs;
    setText(loss.reason, error.message);
    return;
  }
  loss = { nextMs, reason: h("span", {}, error.message), countdown: h("span", { "aria-hidden": "true" }) };
  document.body.classList.add("stale");
  const since = reachedMs ? ` What is shown is from ${time(reachedMs)}.` : "";
  document.getElementById("banner").replaceChildren(
    h(
      "div",
      { class: "banner" },
      h("span", {}, h("strong", {}, "The server of this console is gone"), " (", loss.reason, ").", since),
      loss.countdown,
      h("button", { type: "button", onclick: wake }, "Try now"),
    ),
  );
  pulse("gone", "no answer");
  ticking = setInterval(tick, 250);
  tick();
}

function tick() {
  const seconds = Math.max(0, Math.ceil((loss.nextMs - Date.now()) / 1_000));
  setText(loss.countdown, seconds ? `Next try in ${seconds} s.` : "Trying…");
}

/** What stands in the header: `live`, `still` (nothing changes any more) or `gone`. */
export function pulse(state, text) {
  const element = document.getElementById("pulse");
  if (loss && state !== "gone") return;
  element.dataset.state = state;
  setText(element, text);
}

/** Waits, unless somebody wants an answer now or the page is left. */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      wakers.delete(done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    wakers.add(done);
    signal.addEventListener("abort", done);
  });
}

/** Ends all pauses: every page asks the server at once. */
export function wake() {
  [...wakers].forEach((done) => done());
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) wake();
});
