// Signing in again after the studio was restarted with another token; the page and its content stay.

import { openDialog } from "./dialogs.js";
import { button, h, problem, put } from "./dom.js";

/**
 * Ask for the printed URL.
 * @param {() => void} done called once the studio lets this browser in
 */
export function openSignIn(done) {
  if (document.querySelector("dialog[open]")) return;
  const field = h("input", { type: "password", id: "sign-in", autocomplete: "off", required: true });
  const trouble = h("div", {});
  openDialog("Sign in again", (close) => {
    const form = h(
      "form",
      {},
      h("p", {}, "The studio was restarted with another token. Nothing on this page is lost."),
      h("div", { class: "field" }, h("label", { for: "sign-in" }, "Sign-in link that the studio printed when it started, or its token"), field),
      trouble,
      h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), h("button", { type: "submit", class: "button main" }, "Sign in")),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!(await accepted(field.value.trim()))) return put(trouble, problem({ title: "That is not the token", message: "Copy the whole link that the studio printed last." }));
      close();
      done();
    });
    return [form];
  });
  field.focus();
}

/** Whether the studio accepts a token; it then sets this browser's cookie. */
async function accepted(words) {
  const given = words.match(/[?&]token=([^&#]+)/)?.[1];
  const token = given ? decodeURIComponent(given) : words;
  try {
    return (await fetch("/sign-in", { method: "POST", headers: { Authorization: `Bearer ${token}` } })).ok;
  } catch {
    return false; // A header cannot contain it.
  }
}
