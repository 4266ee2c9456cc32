// What states are called, and how good or bad news they are.

import { h, setText } from "./dom.js";

const TONES = {
  RUNNING: "active",
  INITIALIZING: "warn",
  CREATED: "warn",
  DEPLOYING: "warn",
  RESTARTING: "warn",
  FAILING: "bad",
  FAILED: "bad",
  CANCELLING: "warn",
  CANCELING: "warn",
  CANCELED: "",
  SUSPENDED: "",
  RECONCILING: "warn",
  FINISHED: "good",
  COMPLETED: "good",
  IN_PROGRESS: "active",
};

const OVER = new Set(["FINISHED", "CANCELED", "FAILED"]);

/** Whether nothing changes in a job any more. */
export function isOver(state) {
  return OVER.has(state);
}

export function lower(state) {
  return state.toLowerCase().replaceAll("_", " ");
}

export function badge(state) {
  const element = h("span", { class: "badge" });
  if (state) setBadge(element, state);
  return element;
}

export function setBadge(element, state) {
  element.dataset.tone = TONES[state] ?? "";
  setText(element, lower(state));
}

/** The name of a chain of operators, with arrows that look like arrows. */
export function chainName(name) {
  return name.replaceAll(" -> ", " → ");
}

/** A message that takes a page's place, or stands in it. */
export function note(tone, ...content) {
  return h("p", { class: "note", "data-tone": tone }, ...content);
}

const STATE_LETTERS = {
  C: "CREATED",
  D: "DEPLOYING",
  I: "INITIALIZING",
  R: "RUNNING",
  F: "FINISHED",
  G: "CANCELING",
  X: "CANCELED",
  E: "FAILED",
};

/** The state of one subtask in the live view's columns. */
export function stateOf(letter) {
  return STATE_LETTERS[letter] ?? "CREATED";
}

const LAST_MOMENT_MS = 8.64e15;

/** The end of a stream is a watermark beyond every time. */
export function isEndOfStream(watermarkMs) {
  return watermarkMs !== null && watermarkMs >= LAST_MOMENT_MS;
}

const YEAR_MS = 365 * 86_400_000;

/** How far event time is behind the clock; unknown where events do not carry times of these years. */
export function lagMs(watermarkMs, nowMs) {
  if (watermarkMs === null || isEndOfStream(watermarkMs)) return null;
  const lag = nowMs - watermarkMs;
  return Math.abs(lag) < 20 * YEAR_MS ? lag : null;
}
