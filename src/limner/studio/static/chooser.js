// Folder chooser for this machine: by browsing, or by entering a path.

import { api } from "./api.js";
import { openDialog } from "./dialogs.js";
import { button, count, h, icon, problem, put } from "./dom.js";

/**
 * Ask for a folder to index.
 * @param {(path: string) => Promise<void>} read starts to index it; errors are shown
 */
export function askForFolder(read) {
  const path = h("input", { type: "text", id: "path", autocomplete: "off", spellcheck: "false", required: true });
  const list = h("ul", { class: "folders", "aria-label": "Folders" });
  const here = h("p", { class: "quiet small", role: "status" });
  const trouble = h("div", {});
  const up = button("Parent folder", { look: "before", bare: true, kind: "plain" });
  let asked = 0;

  async function enter(target) {
    const own = ++asked;
    try {
      const told = await api.folders(target);
      if (own !== asked) return;
      path.value = told.path;
      up.disabled = !told.parent;
      up.onclick = () => enter(told.parent);
      put(here, told.pictures ? `${count(told.pictures, "picture")} here, plus those in subfolders` : told.folders.length ? "No pictures here; those in subfolders are added" : "No pictures or subfolders here");
      put(list, told.folders.map((folder) => h("li", {}, h("button", { type: "button", class: "folder", on: { click: () => enter(folder.path).then(() => list.querySelector("button")?.focus()) } }, icon("folder"), h("bdi", {}, folder.name)))));
      list.scrollTop = 0;
      put(trouble);
    } catch (error) {
      if (own === asked) put(trouble, problem(error));
    }
  }

  openDialog("Add a folder", (close) => {
    const go = h("button", { type: "submit", class: "button main" }, "Add folder");
    const form = h(
      "form",
      {},
      h("p", {}, "limner reads the folder and those in it, and remembers what it saw. Your pictures are neither copied nor changed."),
      h("div", { class: "field" }, h("label", { for: "path" }, "Folder on this machine"), h("div", { class: "whole-path" }, up, path), list, here),
      trouble,
      h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), go),
    );
    path.addEventListener("input", () => asked++); // A late response does not replace what the user types.
    // While the button is pressed nothing may move under the pointer, or the click would be lost.
    let pressed = false;
    go.addEventListener("pointerdown", () => (pressed = true));
    path.addEventListener("change", () => !pressed && path.value.trim() && enter(path.value.trim()));
    path.addEventListener("focus", () => (pressed = false));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        await read(path.value.trim());
        close();
      } catch (error) {
        asked++;
        put(trouble, problem(error));
        go.disabled = false;
      }
    });
    enter("");
    return [form];
  });
}
