// The start page: take in a text and make a project of it.

import { api, links } from "./api.js";
import { $, announce, button, count, h, problem, put } from "./dom.js";
import { draft, keepDraft } from "./drafts.js";
import { openHelp } from "./help.js";
import { follow, meter, reading } from "./jobs.js";
import { listProjects } from "./recent.js";
import { openSignIn } from "./signin.js";
import { guessFormat, importNotes, readText } from "./texts.js";

const fields = { title: $("title"), text: $("text"), by: $("by"), format: $("format"), file: $("file") };
const KEPT = ["title", "text", "by", "format"];
const DRAFT = "start";
const FEW_NOTES = 3;
let formatIsChosen = false;
let opened = null; // content of an opened document: its text, its pictures and its notes
let opening = null;

/** Whether the page still has the document's text as it was opened. */
const isAsOpened = () => opened !== null && fields.text.value === opened.text && fields.format.value === opened.format && !fields.by.value;

/** Keep the content of the page until its storyboard exists, with the job that creates it. */
function remember(job = null) {
  const values = Object.fromEntries(KEPT.map((name) => [name, fields[name].value]));
  const own = isAsOpened() ? { given: opened.given, notes: opened.notes } : null;
  keepDraft(DRAFT, values.text.trim() || values.title.trim() ? { ...values, formatIsChosen, opened: own, job } : null);
  describeOpened();
}

/** What was left out of a document, and whether its own pictures will be kept. */
function describeOpened() {
  if (!fields.text.value.trim()) opened = null;
  const pictures = Object.keys(opened?.given ?? {}).length;
  const kept = `${count(pictures, "picture")} of the document ${pictures === 1 ? "is" : "are"} in the library and will be kept.`;
  const lost = "You changed the text or how it is divided: the document’s own pictures will not be kept. To keep them, open the file again and edit the text on the storyboard.";
  const notes = importNotes(opened?.notes);
  put($("opened"), pictures > 0 && h("p", { class: "small" }, isAsOpened() ? kept : lost), notes && h("details", { open: opened.notes.length <= FEW_NOTES }, h("summary", { class: "quiet small" }, `Import notes (${opened.notes.length})`), notes));
}

function restore() {
  const known = draft(DRAFT);
  if (!known) return;
  for (const name of KEPT) fields[name].value = known[name];
  formatIsChosen = known.formatIsChosen;
  opened = known.opened ? { ...known.opened, text: fields.text.value, format: fields.format.value } : null;
  describeOpened();
}

/** The text is in a project: clear the page, unless something else was typed in the meantime. */
function finished(job) {
  if (draft(DRAFT)?.job !== job) return;
  keepDraft(DRAFT, null);
  for (const name of ["title", "text"]) fields[name].value = "";
  describeOpened();
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

async function illustrate(event) {
  event?.preventDefault();
  if (!fields.text.value.trim()) {
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
    const { job } = await api.create({
      title: fields.title.value.trim() || undefined,
      text: fields.text.value,
      format: fields.format.value,
      by: fields.by.value || undefined,
      ...(isAsOpened() ? { given: opened.given, notes: opened.notes } : {}),
    });
    remember(job);
    await watch(job, fields.title.value.trim(), (project) => location.assign(links.project(project)));
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

async function take(file) {
  if (!file) return;
  opening?.abort();
  const { signal } = (opening = new AbortController());
  put($("trouble"), h("p", { class: "quiet small" }, "Opening ", h("bdi", {}, file.name), " …"));
  try {
    const read = await readText(file, signal);
    if (signal.aborted) return;
    fields.text.value = read.text;
    fields.format.value = read.format;
    if (read.given) fields.by.value = "";
    formatIsChosen = true;
    opened = { given: {}, ...read, text: fields.text.value };
    put($("trouble"));
    remember();
    announce(`Opened ${file.name}`);
    $("go").focus();
  } catch (error) {
    if (signal.aborted) return;
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
    put($("library-size"), words, " ", h("a", { href: "/library" }, "See them, or add more"), ". ", h("a", { href: "/docs" }, "API"), ".");
  } catch (error) {
    put($("library-size"), problem(error));
  }
}

// Text may have been typed before this script ran.
if (fields.text.value.trim() && fields.text.value !== draft(DRAFT)?.text) remember();
else restore();
$("new").addEventListener("submit", illustrate);
for (const kind of ["input", "change"]) $("new").addEventListener(kind, () => remember());
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
