// The library page: pictures, what was skipped and why, duplicates, and folders being added.

import { api } from "./api.js";
import { openDialog } from "./dialogs.js";
import { $, button, count, h, problem, put, when } from "./dom.js";
import { duplicates, skipped } from "./findings.js";
import { watchFolder } from "./folders.js";
import { openHelp } from "./help.js";
import { openPicture } from "./viewer.js";
import { Wall } from "./wall.js";

const PARTS = ["pictures", "skipped", "duplicates"];
const wall = new Wall($("grid"), (offset, limit, signal) => api.pictures(offset, limit, $("filter").value.trim(), signal));

let watching = false;

async function describe() {
  try {
    const library = await api.library();
    $("name").textContent = library.name;
    document.title = `${library.name} · limner studio`;
    const facts = [count(library.pictures, "picture"), library.indexed_at && `indexed ${when(library.indexed_at)}`, compared(library)];
    put($("facts"), facts.filter(Boolean).join(" · "));
    $("add").hidden = library.writable === false;
    if (library.job && !watching) watch(library.job);
    label("skipped", "Skipped", library.left_out_count);
    label("duplicates", "Duplicates", library.duplicate_groups);
    skipped($("skipped"), library);
    duplicates($("duplicates"), library);
  } catch (error) {
    put($("trouble"), problem(error));
  }
}

function compared(library) {
  const names = library.wording?.channels ?? {};
  const told = (library.channels ?? []).map((channel) => names[channel] ?? channel);
  return library.model ? `found by the trained model ${library.model}` : told.length ? `found by ${told.join(", ")}` : "";
}

function label(part, text, number) {
  put($(`tab-${part}`), text, " ", h("span", { class: "quiet numbers" }, number.toLocaleString("en")));
}

function turn(part) {
  for (const own of PARTS) {
    const here = own === part;
    $(own).hidden = !here;
    $(`tab-${own}`).setAttribute("aria-selected", String(here));
    $(`tab-${own}`).tabIndex = here ? 0 : -1;
  }
  $("filter").hidden = part !== "pictures";
  if (location.hash.slice(1) !== part) history.replaceState(null, "", part === "pictures" ? location.pathname : `#${part}`);
}

function askForFolder() {
  const path = h("input", { type: "text", id: "path", placeholder: "/home/me/Pictures", autocomplete: "off", spellcheck: "false", required: true });
  const trouble = h("div", {});
  openDialog("Add a folder", (close) => {
    const go = h("button", { type: "submit", class: "button main" }, "Read it");
    const form = h(
      "form",
      {},
      h("p", {}, "limner reads the folder and those in it, and remembers what it saw. Your pictures are neither copied nor changed."),
      h("div", { class: "field" }, h("label", { for: "path" }, "Folder on this machine"), path),
      trouble,
      h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), go),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        const { job } = await api.addFolder(path.value.trim());
        close();
        watch(job, path.value.trim());
      } catch (error) {
        put(trouble, problem(error));
        go.disabled = false;
      }
    });
    return [form];
  });
}

async function watch(job, path) {
  watching = true;
  await watchFolder($("job"), job, path);
  watching = false;
  describe();
  wall.reset();
}

for (const part of PARTS) $(`tab-${part}`).addEventListener("click", () => turn(part));
document.querySelector(".tabs").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const here = PARTS.findIndex((part) => $(`tab-${part}`) === event.target);
  const next = PARTS[(here + by + PARTS.length) % PARTS.length];
  turn(next);
  $(`tab-${next}`).focus();
});
let timer = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => wall.reset(), 200);
});
wall.addEventListener("open", ({ detail }) => openPicture(detail));
wall.addEventListener("trouble", ({ detail }) => put($("trouble"), problem(detail)));
wall.addEventListener("counted", ({ detail }) => {
  const filter = $("filter").value.trim();
  put($("shown"), filter ? (detail ? count(detail, "picture") : `No picture holds “${filter}” in its name or caption.`) : detail ? "" : "No pictures yet: add a folder.");
});
$("add").addEventListener("click", askForFolder);
$("help").addEventListener("click", () => openHelp());
turn(PARTS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "pictures");
describe();
wall.reset();
