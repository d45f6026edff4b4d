// The list of projects: filter, rename, copy, remove and restore.

import { api, items, links } from "./api.js";
import { openDialog } from "./dialogs.js";
import { $, announce, button, count, h, problem, put, toast, when } from "./dom.js";
import { thumbnail } from "./pictures.js";

const FEW = 5;
let all = [];

/** Fetch and show the projects and the trash. */
export async function listProjects() {
  try {
    all = items(await api.projects());
    draw();
    $("trash").hidden = !(await api.trash()).length;
  } catch (error) {
    put($("projects"), problem(error, () => listProjects()));
  }
  $("projects").removeAttribute("aria-busy");
}

function draw() {
  const words = $("find").value.trim().toLocaleLowerCase();
  const found = all.filter((project) => project.title.toLocaleLowerCase().includes(words));
  $("find").hidden = all.length <= FEW;
  put($("counted"), words && (found.length ? count(found.length, "project") : `No results for “${$("find").value.trim()}”`));
  if (!all.length) put($("projects"), h("p", { class: "quiet" }, "Nothing yet. The texts that you illustrate appear here; every change is saved."));
  else put($("projects"), found.length > 0 && h("ul", { class: "projects" }, found.map(entry)));
}

function entry(project) {
  const steps = typeof project.steps === "number" ? count(project.steps, "step") : "";
  const title = project.title || "Untitled";
  if (project.damaged) return h("li", {}, h("div", {}, h("p", {}, h("bdi", {}, title)), h("p", { class: "problem small" }, h("strong", {}, "This project cannot be read"), `: ${project.damaged}`)));
  const act = (words, look, click) => button(`${words} ${title}`, { look, bare: true, kind: "plain", title: words, on: { click } });
  return h(
    "li",
    {},
    h("div", {}, h("a", { href: links.project(project.id), dir: "auto" }, title), h("p", { class: "quiet small" }, [steps, when(project.updated_at)].filter(Boolean).join(" · "))),
    h("div", { class: "covers" }, (project.cover ?? []).slice(0, 5).map((id) => thumbnail({ id, width: 64, height: 48 }, 128, { alt: "" }))),
    h("div", { class: "acts" }, act("Rename", "name", () => rename(project, title)), act("Duplicate", "alike", () => duplicate(project, title)), act("Remove", "bin", () => askToRemove(project, title))),
  );
}

/** Run an action, then show the projects, and any error. */
async function change(run) {
  let made;
  try {
    made = await run();
  } catch (error) {
    toast(`${error.title}: ${error.message}`);
  }
  await listProjects();
  return made;
}

function rename(project, title) {
  const name = h("input", { type: "text", id: "name", maxlength: "300", value: title, autocomplete: "off", dir: "auto" });
  openDialog("Rename this project", (close) => {
    const form = h(
      "form",
      {},
      h("div", { class: "field" }, h("label", { for: "name" }, "Title"), name),
      h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), h("button", { type: "submit", class: "button main" }, "Rename")),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      close();
      await change(() => api.edit(project.id, project.revision, { kind: "retitle", title: name.value.trim() }));
    });
    return [form];
  });
  name.select();
}

async function duplicate(project, title) {
  const made = await change(() => api.duplicate(project.id));
  if (made) toast(`Made a copy of “${title}”.`, { action: "Open it", run: () => location.assign(links.project(made.id)) });
}

function askToRemove(project, title) {
  openDialog("Remove this project?", (close) => [
    h("p", {}, "“", h("bdi", {}, title), "” is moved to the trash, from which you can restore it. Your pictures are not affected."),
    h(
      "div",
      { class: "actions" },
      button("Cancel", { on: { click: close } }),
      button("Remove", {
        kind: "main",
        on: {
          click: async () => {
            close();
            await change(async () => {
              await api.remove(project.id);
              toast(`Removed “${title}”.`, { action: "Trash", run: openTrash });
            });
          },
        },
      }),
    ),
  ]);
}

async function openTrash() {
  let thrown;
  try {
    thrown = await api.trash();
  } catch (error) {
    toast(`${error.title}: ${error.message}`);
    return;
  }
  openDialog("Trash", (close) => [
    h("p", { class: "quiet small" }, thrown.length ? "Removed projects, most recent first. They stay in the library’s projects folder until you delete them there." : "The trash is empty."),
    h("ul", { class: "trash" }, thrown.map((one) => thrownAway(one, close))),
  ]);
}

function thrownAway(item, close) {
  const restore = async () => {
    close();
    const made = await change(() => api.restore(item.id));
    if (!made) return;
    toast(`“${item.title}” is back.`, { action: "Open it", run: () => location.assign(links.project(made.id)) });
    announce(`${item.title} is back.`);
  };
  return h(
    "li",
    {},
    h("div", {}, h("p", {}, h("bdi", {}, item.title)), h("p", { class: "quiet small" }, item.damaged || `removed ${when(item.removed_at)}`)),
    !item.damaged && button("Restore", { "aria-label": `Restore ${item.title}`, on: { click: restore } }),
  );
}

$("find").addEventListener("input", draw);
$("trash").addEventListener("click", openTrash);
