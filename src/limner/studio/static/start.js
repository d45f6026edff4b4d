// The start page: take in a text, make a project of it, and list the projects there are.

import { api, items, links } from "./api.js";
import { openDialog } from "./dialogs.js";
import { $, announce, button, count, h, problem, put, toast, when } from "./dom.js";
import { openHelp } from "./help.js";
import { thumbnail } from "./pictures.js";
import { guessFormat, readText } from "./texts.js";

const fields = { title: $("title"), text: $("text"), by: $("by"), format: $("format"), file: $("file") };
let formatIsChosen = false;

async function illustrate(event) {
  event?.preventDefault();
  if (!fields.text.value.trim()) {
    put($("trouble"), problem({ title: "There is no text yet", message: "paste one, or open a file." }));
    fields.text.focus();
    return;
  }
  put($("trouble"));
  const go = $("go");
  go.disabled = true;
  go.textContent = "Choosing pictures …";
  announce("Choosing pictures");
  try {
    const project = await api.create({
      title: fields.title.value.trim() || undefined,
      text: fields.text.value,
      format: fields.format.value,
      by: fields.by.value || undefined,
    });
    location.assign(links.project(project.id));
  } catch (error) {
    put($("trouble"), problem(error));
    go.disabled = false;
    go.textContent = "Illustrate";
  }
}

async function take(file) {
  if (!file) return;
  try {
    const read = await readText(file);
    fields.text.value = read.text;
    fields.format.value = read.format;
    formatIsChosen = true;
    put($("trouble"), read.note && h("p", { class: "notes" }, read.note));
    announce(`Opened ${file.name}`);
    $("go").focus();
  } catch (error) {
    put($("trouble"), problem({ title: `${file.name} was not opened`, message: error.message }));
  }
  fields.file.value = "";
}

function dropped() {
  const hasFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  document.addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!hasFile(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
}

async function listProjects() {
  const place = $("projects");
  try {
    const found = items(await api.projects());
    if (!found.length) put(place, h("p", { class: "quiet" }, "Nothing yet. What you illustrate is kept here, and saved with every change."));
    else put(place, h("ul", { class: "projects" }, found.map(entry)));
  } catch (error) {
    put(place, problem(error));
  }
  place.removeAttribute("aria-busy");
}

function entry(project) {
  const steps = typeof project.steps === "number" ? count(project.steps, "step") : "";
  const title = project.title || "Untitled";
  if (project.damaged) return h("li", {}, h("div", {}, h("p", {}, h("bdi", {}, title)), h("p", { class: "problem small" }, h("strong", {}, "This project cannot be read"), `: ${project.damaged}`)));
  return h(
    "li",
    {},
    h("div", {}, h("a", { href: links.project(project.id), dir: "auto" }, title), h("p", { class: "quiet small" }, [steps, when(project.updated_at)].filter(Boolean).join(" · "))),
    h("div", { class: "covers" }, (project.cover ?? []).slice(0, 5).map((id) => thumbnail({ id, width: 64, height: 48 }, 128, { alt: "" }))),
    button(`Remove ${title}`, { look: "bin", bare: true, kind: "plain", on: { click: () => askToRemove(project, title) } }),
  );
}

function askToRemove(project, title) {
  openDialog("Remove this project?", (close) => [
    h("p", {}, "“", h("bdi", {}, title), "” goes to the trash folder of this library's projects. No picture is touched."),
    h(
      "div",
      { class: "actions" },
      button("Keep it", { on: { click: close } }),
      button("Remove", {
        kind: "main",
        on: {
          click: async () => {
            close();
            try {
              await api.remove(project.id);
              toast(`Removed “${title}”.`);
            } catch (error) {
              toast(`${error.title}: ${error.message}`);
            }
            listProjects();
          },
        },
      }),
    ),
  ]);
}

async function describeShelf() {
  try {
    const library = await api.library();
    const words = `Pictures come from “${library.name}”: ${count(library.pictures, "picture")}.`;
    put($("shelf"), words, " ", h("a", { href: "/library" }, "See them, or add more"));
  } catch (error) {
    put($("shelf"), problem(error));
  }
}

$("new").addEventListener("submit", illustrate);
fields.file.addEventListener("change", () => take(fields.file.files[0]));
fields.format.addEventListener("change", () => (formatIsChosen = true));
fields.text.addEventListener("input", () => {
  if (!fields.text.value.trim()) formatIsChosen = false;
  if (!formatIsChosen) fields.format.value = guessFormat(fields.text.value);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) illustrate(event);
});
$("help").addEventListener("click", () => openHelp());
dropped();
listProjects();
describeShelf();
