// Where the address leads: `#/` to the list of jobs, `#/jobs/ID/PART…` to a page of one job.

import { takeTokenFromAddress } from "./api.js";
import { wake } from "./connection.js";
import { h } from "./dom.js";
import { jobPage } from "./pages/job.js";
import { jobsPage } from "./pages/jobs.js";
import { askForToken, tokenPage } from "./token.js";

const main = document.getElementById("main");
const trail = document.getElementById("trail");
let current = null;

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  const [, jobId, ...rest] = parts[0] === "jobs" && parts[1] ? parts : [];
  if (!jobId) open("jobs", (context) => jobsPage(context), []);
  else open(`job ${jobId}`, (context) => jobPage(context, jobId), rest);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// A page stays while only its part of the address changes: its figures and its history go on.
function open(key, create, rest) {
  if (current?.key !== key) {
    current?.leave.abort();
    const leave = new AbortController();
    const context = {
      main,
      signal: leave.signal,
      setTrail: (text) => {
        trail.textContent = text;
        document.title = text ? `${text} – Tidegate` : "Tidegate";
      },
      needToken: (error) => {
        close();
        tokenPage(main, error.message, route);
      },
    };
    main.replaceChildren();
    context.setTrail("");
    current = { key, leave, page: null };
    current.page = create(context);
  }
  current.page.route?.(rest);
}

function close() {
  current?.leave.abort();
  current = null;
}

takeTokenFromAddress();
document.getElementById("token-button").addEventListener("click", () =>
  askForToken(() => {
    close();
    route();
    wake();
  }),
);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) {
    takeTokenFromAddress();
    close();
  }
  route();
});
window.addEventListener("unhandledrejection", (event) => {
  main.prepend(h("p", { class: "note", "data-tone": "bad" }, `The console itself failed: ${event.reason}. Reload the page.`));
});
route();
