// Elements from plain values. Text is always inserted as text, so no story or caption can become markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Build an element.
 * @param {string} tag
 * @param {object} [props] attributes; `on` maps event names to listeners, `data` sets data-*; true, false and
 *   undefined set or leave out an attribute.
 * @param {...(Node|string|number|null|undefined|false|Array)} children strings become text nodes.
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return fill(element, ...children);
}

/** Append children; strings become text nodes, empty values are left out. */
export function fill(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Replace all children. */
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, ...children);
}

/** An icon of icons.svg; hidden from screen readers, so its button needs text. */
export function icon(name) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `/static/icons.svg#${name}`);
  drawing.append(use);
  return drawing;
}

/** A button with an icon and text; `bare` shows the text only to screen readers and in the tooltip. */
export function button(words, { look, bare = false, kind = "", title, ...props } = {}) {
  const label = bare ? h("span", { class: "unseen" }, words) : words;
  return h(
    "button",
    { type: "button", ...props, class: `button ${kind} ${bare ? "square" : ""}`.trim(), title: title ?? (bare ? words : undefined) },
    look && icon(look),
    label,
  );
}

/** Scroll behaviour: immediate if the user prefers reduced motion. */
export const gliding = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

export const $ = (id) => document.getElementById(id);

/** Announce a message to screen readers, without showing it. */
export function announce(words) {
  const region = $("said");
  if (!region) return;
  region.textContent = region.textContent === words ? `${words}\u00a0` : words;
}

/** A short message at the bottom of the page, with at most one action. */
export function toast(words, { action, run, stay = false } = {}) {
  document.querySelector(".toast")?.remove();
  const note = h("div", { class: "toast", role: "status" }, h("span", {}, words));
  if (action) note.append(h("button", { type: "button", on: { click: () => { note.remove(); run(); } } }, action));
  document.body.append(note);
  if (!stay) setTimeout(() => note.remove(), 7000);
  return note;
}

const sentence = (words) => words && `${/^[a-z]+[ ,;]/.test(words) ? words[0].toUpperCase() + words.slice(1) : words}${/[.!?…]$/.test(words) ? "" : "."}`;

/** An error as sentences. */
export const inSentences = ({ title, message }) => [title ?? "That did not work", message].filter(Boolean).map(sentence).join(" ");

/** An error as sentences with `role=alert`; with a button for `again` if a retry may succeed. */
export function problem({ title, message, status }, again) {
  const way = status === 401 ? h("a", { href: location.href }, "Sign in") : again && h("button", { type: "button", class: "link", on: { click: again } }, "Try again");
  return h("p", { class: "problem", role: "alert" }, h("strong", {}, sentence(title ?? "That did not work")), " ", sentence(message), way && [" ", way]);
}

/** "1 picture", "66 pictures". */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** "just now", "5 minutes ago", or the date. */
export function when(stamp) {
  const then = new Date(stamp);
  if (Number.isNaN(then.getTime())) return "";
  const minutes = Math.round((Date.now() - then.getTime()) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${count(minutes, "minute")} ago`;
  if (minutes < 60 * 24) return `${count(Math.round(minutes / 60), "hour")} ago`;
  return then.toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });
}
