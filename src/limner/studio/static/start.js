// The start page: take in a text and make a project of it.

import { api, links } from "./api.js";
import { $, announce, button, count, h, problem, put } from "./dom.js";
import { draft, keepDraft } from "./drafts.js";
import { openHelp } from "./help.js";
import { follow, meter, reading } from "./jobs.js";
import { listProjects } from "./recent.js";
import { openSignIn } from "./signin.js";
import { guessFormat, readText } from "./texts.js";

const fields = { title: $("title"), text: $("text"), by: $("by"), format: $("format"), file: $("file") };
const KEPT = ["title", "text", "by", "format"];
const DRAFT = "start";
let formatIsChosen = false;

/** Keep the content of the page until its storyboard exists, with the job that creates it. */
function remember(job = null) {
  const values = Object.fromEntries(KEPT.map((name) => [name, fields[name].value]));
  keepDraft(DRAFT, values.text.trim() || values.title.trim() ? { ...values, formatIsChosen, job } : null);
}

function restore() {
  const known = draft(DRAFT);
  if (!known) return;
  for (const name of KEPT) fields[name].value = known[name];
  formatIsChosen = known.formatIsChosen;
}

/** The text is in a project: clear the page, unless something else was typed in the meantime. */
function finished(job) {
  if (draft(DRAFT)?.job !== job) return;
  keepDraft(DRAFT, null);
  for (const name of ["title", "text"]) fields[name].value = "";
}

function trouble(error) {
  const way = { 401: ["Sign in", () => openSignIn(() => put($("trouble")))], lost: ["Start again", () => illustrate()] }[error.status];
  put($("trouble"), problem(error), way && button(way[0], { on: { click: way[1] } }));
}

/** A job ended by a restart; one that was started on this page can be started again. */
function lost(job) {
  const own = draft(DRAFT)?.job === job;
  if (own) remember();
  trouble({ status: own ? "lost" : "", title: "The studio was restarted while it was illustrating a text", message: own ? "nothing was saved; the text is still here." : "nothing was saved." });
}

/** Illustrate the text of the page, or a file. */
async function illustrate(file = null) {
  if (!file && !fields.text.value.trim()) {
    put($("trouble"), problem({ title: "There is no text yet", message: "Paste one, or open a file." }));
    fields.text.focus();
    return;
  }
  put($("trouble"));
  const go = $("go");
  go.disabled = true;
  go.textContent = "Choosing pictures …";
  announce("Choosing pictures");
  try {
    const asked = { title: file ? undefined : fields.title.value.trim() || undefined, by: fields.by.value || undefined };
    const { job } = file ? await api.openDocument(file, asked) : await api.create({ ...asked, text: fields.text.value, format: fields.format.value });
    if (!file) remember(job);
    await watch(job, file?.name ?? asked.title, (project) => location.assign(links.project(project)));
  } catch (error) {
    trouble(error);
  }
  go.disabled = false;
  go.textContent = "Illustrate";
}

/** Follow a text that is being illustrated; the page that started it then opens its storyboard. */
async function watch(job, title, done) {
  const name = title ? ["Choosing pictures for ", h("bdi", {}, title)] : "Choosing pictures";
  const { element, show } = meter(job, name, { label: "Text read", stop: "Cancel", words: reading });
  put($("working"), element);
  element.scrollIntoView({ block: "nearest" });
  const state = await follow(job, show);
  put($("working"));
  if (state.state === "done") {
    finished(job);
    done(state.project);
  } else if (state.state === "lost") lost(job);
  else if (state.state === "cancelled") announce("Cancelled. Nothing was saved.");
  else put($("trouble"), problem({ title: "The text was not illustrated", message: state.message }));
}

/** Jobs started before this page was loaded, in this window or another one. */
async function found() {
  try {
    const [job] = (await api.jobs()).filter((one) => one.kind === "project");
    if (job) return await watch(job.job, job.subject, listProjects);
    const { job: own } = draft(DRAFT) ?? {};
    if (!own) return;
    const { state } = await api.job(own).catch((error) => ({ state: error.status === 404 ? "lost" : "" }));
    if (state === "done") finished(own);
    if (state === "lost") lost(own);
  } catch {
    // The list of projects reports any error.
  }
}

/** Open a file: a text to edit and illustrate, or a document, which is illustrated at once. */
async function take(file) {
  if (!file) return;
  const read = await readText(file);
  fields.file.value = "";
  if (!read) return illustrate(file);
  fields.text.value = read.text;
  fields.format.value = read.format;
  formatIsChosen = true;
  put($("trouble"));
  remember();
  announce(`Opened ${file.name}`);
  $("go").focus();
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
    put($("library-size"), words, " ", h("a", { href: "/library" }, "See them, or add more"), ". ", h("a", { href: "/docs" }, "API"), ".");
  } catch (error) {
    put($("library-size"), problem(error));
  }
}

// Text may have been typed before this script ran.
if (fields.text.value.trim() && fields.text.value !== draft(DRAFT)?.text) remember();
else restore();
$("new").addEventListener("submit", (event) => {
  event.preventDefault();
  illustrate();
});
for (const kind of ["input", "change"]) $("new").addEventListener(kind, () => remember());
fields.file.addEventListener("change", () => take(fields.file.files[0]));
fields.format.addEventListener("change", () => (formatIsChosen = true));
fields.text.addEventListener("input", () => {
  if (!fields.text.value.trim()) formatIsChosen = false;
  if (!formatIsChosen) fields.format.value = guessFormat(fields.text.value);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    illustrate();
  }
});
$("help").addEventListener("click", () => openHelp());
dropped();
listProjects();
describeShelf();
found();
