// Modal dialogs: a heading, a close button, and focus that returns to where it was.

import { button, h } from "./dom.js";

let number = 0;

/**
 * Open a modal dialog.
 * @param {string} title
 * @param {(close: () => void) => Array<Node>} body
 * @param {{kind?: string}} [options]
 * @returns {HTMLDialogElement}
 */
export function openDialog(title, body, { kind = "" } = {}) {
  const before = document.activeElement;
  const id = `dialog-${++number}`;
  const close = () => box.close();
  const box = h(
    "dialog",
    { class: kind || undefined, "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), button("Close", { look: "close", bare: true, kind: "plain", on: { click: close } })),
  );
  box.append(...body(close).filter(Boolean));
  box.addEventListener("close", () => {
    box.remove();
    if (before?.isConnected) before.focus();
  });
  box.addEventListener("click", (event) => {
    if (event.target === box && outside(event, box)) close();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

function outside(event, box) {
  const edges = box.getBoundingClientRect();
  return event.clientX < edges.left || event.clientX > edges.right || event.clientY < edges.top || event.clientY > edges.bottom;
}
