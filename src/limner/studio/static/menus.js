// Menus: next to their button if there is room, otherwise a sheet from below.

import { openDialog } from "./dialogs.js";
import { h, icon } from "./dom.js";

const EDGE_PX = 8;

/**
 * Open a menu.
 * @param {string} title
 * @param {HTMLElement} at element to which it belongs
 * @param {Array<{words: string, look?: string, key?: string, disabled?: boolean, run: () => void}|false|null>} acts
 */
export function openMenu(title, at, acts) {
  if (document.querySelector("dialog[open]")) return;
  const item = (close) => ({ words, look, key, disabled, run }) =>
    h("li", {}, h("button", { type: "button", disabled, on: { click: () => { close(); run(); } } }, look && icon(look), h("span", {}, words), key && h("kbd", { "aria-hidden": "true" }, key)));
  const box = openDialog(title, (close) => [h("ul", { class: "acts-list" }, acts.filter(Boolean).map(item(close)))], { kind: "menu-of" });
  const buttons = [...box.querySelectorAll(".acts-list button:enabled")];
  buttons[0]?.focus();
  box.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    buttons.at((buttons.indexOf(document.activeElement) + by) % buttons.length)?.focus();
  });
  if (!matchMedia("(min-width: 40rem)").matches) return;
  const edges = at.getBoundingClientRect();
  const within = (value, size, room) => `${Math.max(EDGE_PX, Math.min(value, room - size - EDGE_PX))}px`;
  box.style.left = within(edges.right - box.offsetWidth, box.offsetWidth, innerWidth);
  box.style.top = within(edges.bottom + EDGE_PX / 2, box.offsetHeight, innerHeight);
}
