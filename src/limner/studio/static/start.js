// The start page: take in a text and make a project of it.

import { api, links } from "./api.js";
import { $, announce, count, h, problem, put } from "./dom.js";
import { openHelp } from "./help.js";
import { follow, meter, reading } from "./jobs.js";
import { listProjects } from "./recent.js";
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
    const { job } = await api.create({
      title: fields.title.value.trim() || undefined,
      text: fields.text.value,
      format: fields.format.value,
      by: fields.by.value || undefined,
    });
    await watch(job, fields.title.value.trim(), (project) => location.assign(links.project(project)));
  } catch (error) {
    put($("trouble"), problem(error));
  }
  go.disabled = false;
  go.textContent = "Illustrate";
}

/** Follow a text that is being illustrated; whoever began it here goes on to its storyboard. */
async function watch(job, title, done) {
  const name = title ? ["Choosing pictures for ", h("bdi", {}, title)] : "Choosing pictures";
  const { element, show } = meter(job, name, { label: "Text read", stop: "Cancel", words: reading });
  put($("working"), element);
  element.scrollIntoView({ block: "nearest" });
  const state = await follow(job, show);
  put($("working"));
  if (state.state === "done") done(state.project);
  else if (state.state === "cancelled") announce("Cancelled. Nothing was kept.");
  else put($("trouble"), problem({ title: "The text was not illustrated", message: state.message }));
}

/** What was begun before this page was loaded, in this window or in another. */
async function found() {
  try {
    const [job] = (await api.jobs()).filter((one) => one.kind === "project");
    if (job) await watch(job.job, job.subject, listProjects);
  } catch {
    // Whatever is wrong will be said of the projects.
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

async function describeShelf() {
  try {
    const library = await api.library();
    const words = `Pictures come from “${library.name}”: ${count(library.pictures, "picture")}.`;
    put($("shelf"), words, " ", h("a", { href: "/library" }, "See them, or add more"), ". ", h("a", { href: "/docs" }, "For programs"), ".");
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
found();
