// What came of an action, in the corner of the page until it is closed; and the dialogs that ask before one.

import { h, setAttribute } from "./dom.js";

/** @returns {{change: (kind: string, ...content: (Node | string)[]) => void}} */
export function message(...content) {
  const text = h("div", {}, ...content);
  const close = h("button", { type: "button", class: "quiet icon", "aria-label": "Close this message" }, "✕");
  const element = h("div", { class: "message" }, text, close);
  close.addEventListener("click", () => element.remove());
  document.getElementById("messages").append(element);
  return {
    change: (kind, ...next) => {
      setAttribute(element, "data-kind", kind);
      text.replaceChildren(...next);
    },
  };
}

/**
 * Asks before something happens. `fields` are put above the buttons; `submit` gets the form's data.
 * @param {{title: string, text?: string, fields?: Node[], confirm: string, isDangerous?: boolean,
 *   submit: (data: FormData) => void}} options
 */
export function ask({ title, text, fields = [], confirm, isDangerous = false, submit }) {
  const opener = document.activeElement;
  const heading = h("h2", { id: "dialog-title" }, title);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Not now");
  const go = h("button", { type: "submit", class: isDangerous ? "danger" : "primary" }, confirm);
  const form = h("form", {}, heading, text && h("p", {}, text), ...fields, h("div", { class: "buttons" }, cancel, go));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(form);
    dialog.close();
    submit(data);
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener?.focus?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
