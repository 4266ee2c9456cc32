// Asks again and again, one request at a time, for as long as a page is open.

import { backOffMs, lost, pause, reached } from "./connection.js";

const AFTER_FAILURE_MS = 5_000;
const HIDDEN_MS = 10_000;

/**
 * @param {(signal: AbortSignal) => Promise<any>} read
 * @param {{show: (data: any) => void, fail: (error: Error) => boolean | void, everyMs: () => number,
 *   signal: AbortSignal}} options `fail` is told of refusals, not of a server that is gone; it answers `true`
 *   where asking again is of no use.
 */
export async function poll(read, { show, fail, everyMs, signal }) {
  let failures = 0;
  while (!signal.aborted) {
    let waitMs;
    try {
      const data = await read(signal);
      if (signal.aborted) return;
      failures = 0;
      reached();
      show(data);
      waitMs = document.hidden ? HIDDEN_MS : everyMs();
    } catch (error) {
      if (signal.aborted) return;
      if (error.kind === "unreachable") {
        failures += 1;
        waitMs = backOffMs(failures);
        lost(error, waitMs);
      } else if (error.kind) {
        reached();
        if (fail(error) === true) return;
        waitMs = AFTER_FAILURE_MS;
      } else throw error;
    }
    await pause(waitMs, signal);
  }
}
