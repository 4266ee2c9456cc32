// Makes elements. Text goes in as text nodes and nothing is ever parsed as HTML: names, keys, tracebacks
// and settings come from jobs, and a job may call an operator `<img onerror=…>`.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element; `onclick` and its like take functions, everything else is an attribute. */
export function h(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function s(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Sets a text only where it changes, so that a selection or a screen reader is not disturbed twice a second. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets an attribute only where it changes; `null` removes it. */
export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/**
 * Makes the children of `container` stand for `items`, in their order. Elements of items that stay are kept,
 * with their focus, scroll and open parts: `create(item)` makes new ones, `update(element, item)` fills both.
 */
export function reconcile(container, items, keyOf, create, update) {
  const known = new Map([...container.children].map((child) => [child.dataset.key, child]));
  let place = container.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let element = known.get(key);
    if (element) known.delete(key);
    else {
      element = create(item);
      element.dataset.key = key;
    }
    update(element, item);
    if (element === place) place = place.nextElementSibling;
    else container.insertBefore(element, place);
  }
  for (const element of known.values()) element.remove();
}

/** A term and its value, for a definition list; returns the value's element to fill. */
export function fact(list, term, title) {
  const value = h("dd", {});
  list.append(h("div", { class: "fact", title }, h("dt", {}, term), value));
  return value;
}
