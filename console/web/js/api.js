// Talks to the REST API, and keeps the token: in the storage of this tab only, so that it ends with the tab.

const TOKEN = "tidegate.token";
const TIMEOUT_MS = 10_000;

export function token() {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/** Takes the token out of the address (`#token=…`), so that it does not stay in the history or on the screen. */
export function takeTokenFromAddress() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  setToken(decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}

/**
 * A request that did not succeed. Its kind: `unreachable` (no server, or none in time), `unauthorized` (no token,
 * or a wrong or expired one), `missing`, `refused` (other 4xx), `failed` (5xx).
 */
export class ApiError extends Error {
  constructor(kind, message, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

/** A path whose parameters, such as ids and names of states, cannot be anything but one part of it. */
export function path(parts, ...values) {
  return parts.reduce((made, part, place) => made + encodeURIComponent(values[place - 1]) + part);
}

function kindOf(status) {
  if (status === 401) return "unauthorized";
  if (status === 404) return "missing";
  return status >= 500 ? "failed" : "refused";
}

async function problemOf(response) {
  const { status } = response;
  const text = await response.text();
  try {
    const errors = JSON.parse(text).errors;
    if (Array.isArray(errors) && errors.length) return new ApiError(kindOf(status), errors.join(" "), status);
  } catch {
    // Not the API's own answer, but that of a proxy which does not reach it.
  }
  const kind = status === 502 || status === 503 || status === 504 ? "unreachable" : kindOf(status);
  return new ApiError(kind, `answer ${status} ${response.statusText}`.trim(), status);
}

async function request(method, where, { body, signal } = {}) {
  const limits = [AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
  const headers = { Accept: "application/json" };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(`v1/${where}`, document.baseURI), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.any(limits),
      cache: "no-store",
    });
    if (response.ok) return response.status === 204 ? null : JSON.parse((await response.text()) || "null");
  } catch (error) {
    if (signal?.aborted) throw error;
    const reason = error.name === "TimeoutError" ? `no answer within ${TIMEOUT_MS / 1_000} s` : "no connection";
    throw new ApiError("unreachable", reason);
  }
  throw await problemOf(response);
}

export const get = (where, signal) => request("GET", where, { signal });
export const post = (where, body) => request("POST", where, { body });
export const put = (where, body) => request("PUT", where, { body });
export const patch = (where) => request("PATCH", where);
