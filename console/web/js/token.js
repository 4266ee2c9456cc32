// Asks for the token: as a page where nothing may be read without it, as a dialog for actions.

import { setToken, token } from "./api.js";
import { h } from "./dom.js";
import { ask } from "./messages.js";
import { note } from "./words.js";

const WHERE = "It is in the address that “tidegate console” prints when it starts.";

function field() {
  return h(
    "label",
    { class: "field" },
    "Token",
    h("input", { type: "password", name: "token", autocomplete: "off", required: true, spellcheck: "false" }),
    h("small", {}, `${WHERE} It is kept in this tab only.`),
  );
}

/** Takes the place of a page that the server does not show without a token, or with this one. */
export function tokenPage(main, message, then) {
  const form = h(
    "form",
    { class: "empty" },
    h("h1", {}, token() ? "The token is not accepted" : "This console needs a token"),
    note(token() ? "bad" : "", message),
    field(),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Open the console")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(new FormData(form).get("token").trim());
    then();
  });
  main.replaceChildren(form);
  form.querySelector("input").focus();
}

/** The same as a dialog; `then` is called once there is a token. */
export function askForToken(then, text = "") {
  const dialog = ask({
    title: token() ? "Another token" : "Token",
    text: text || "Reading needs it where the console listens beyond this machine, actions need it always.",
    fields: [field()],
    confirm: "Keep it",
    submit: (data) => {
      setToken(data.get("token").trim());
      then();
    },
  });
  dialog.querySelector("input").focus();
}
