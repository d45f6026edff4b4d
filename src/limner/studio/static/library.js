// The library page: pictures, skipped files, duplicates, and folders being added.

import { api, links } from "./api.js";
import { Uploads } from "./uploads.js";
import { askForFolder } from "./chooser.js";
import { $, count, h, problem, put, when } from "./dom.js";
import { Filters, keepInAddress } from "./filters.js";
import { duplicates, skipped } from "./findings.js";
import { watchFolder } from "./folders.js";
import { openHelp } from "./help.js";
import { Selection } from "./selection.js";
import { openPicture } from "./viewer.js";
import { Wall } from "./wall.js";

const PARTS = ["pictures", "skipped", "duplicates"];
const filters = new Filters($("filters"));
const wall = new Wall($("grid"), read);
const selection = new Selection($("selection"), $("select"), wall, () => held?.writable === true);
const uploads = new Uploads(() => held?.writable === true);

let watching = false;
let held = null;
let counted = null;
/** Result of the last search by meaning. */
let search = null;

/** Query of the search by meaning; "" if there is none. */
const meant = () => ($("by").value === "meaning" ? $("filter").value.trim() : "");

async function read(offset, limit, signal) {
  const text = meant();
  if (!text) return api.pictures(offset, limit, { q: $("filter").value.trim(), order: $("order").value, ...filters.values() }, signal);
  const only = Object.fromEntries(Object.entries(filters.values()).filter(([, value]) => value));
  search = await api.search({ text, limit, only }, signal);
  return { total: search.items.length, items: search.items.map(({ picture }) => picture) };
}

async function describe() {
  try {
    const library = (held = await api.library());
    $("name").textContent = library.name;
    document.title = `${library.name} · limner studio`;
    const facts = [count(library.pictures, "picture"), library.pictures > 0 && `${library.captioned.toLocaleString("en")} with captions`, library.indexed_at && `changed ${when(library.indexed_at)}`, library.model && `found by the trained model ${library.model}`];
    put($("facts"), facts.filter(Boolean).join(" · "));
    $("adding").hidden = library.writable === false;
    if (library.job && !watching) watch(library.job);
    say();
    label("skipped", "Skipped", library.left_out_count);
    label("duplicates", "Duplicates", library.duplicate_groups);
    skipped($("skipped"), library);
    duplicates($("duplicates"), library);
  } catch (error) {
    put($("trouble"), problem(error, reload));
  }
}

/** Load everything again after an error. */
function reload() {
  put($("trouble"));
  again();
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
  $("looking").hidden = $("choice-row").hidden = part !== "pictures";
  if (part !== "pictures") selection.end();
  if (location.hash.slice(1) !== part) history.replaceState(null, "", part === "pictures" ? location.pathname + location.search : `#${part}`);
}

async function watch(job, path) {
  watching = true;
  await watchFolder($("job"), job, path);
  watching = false;
  again();
}

/** Called when the library has changed. */
function again() {
  describe();
  filters.refresh().catch(() => {});
  wall.reset();
}

function open({ picture, index }) {
  let at = index;
  const step = async (by) => {
    const next = await wall.at(at + by);
    if (next) at += by;
    return next;
  };
  const written = (fresh) => {
    wall.replace(fresh);
    filters.refresh().catch(() => {});
  };
  openPicture(picture, { step, written, writable: held?.writable === true, day: (one) => filters.occasion(one) }).addEventListener("close", () => at !== index && wall.focus(at));
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
for (const name of ["by", "order"]) {
  const known = new URLSearchParams(location.search).get(name);
  if ([...$(name).options].some((option) => option.value === known)) $(name).value = known;
  $(name).addEventListener("change", () => {
    keepInAddress({ [name]: $(name).value });
    wall.reset();
  });
}
$("by-meaning").addEventListener("click", () => {
  $("by").value = "meaning";
  $("by").dispatchEvent(new Event("change"));
  $("filter").focus();
});
const { project, step } = Object.fromEntries(new URLSearchParams(location.search));
if (project) {
  $("back").hidden = false;
  $("back").firstChild.href = links.project(project);
  selection.into(project, Number(step) - 1);
}
selection.addEventListener("written", ({ detail }) => {
  for (const picture of detail) wall.replace(picture);
  filters.refresh().catch(() => {});
  describe();
});
filters.addEventListener("change", async () => {
  await wall.reset();
  if ($("grid").getBoundingClientRect().top < 0) $("grid").scrollIntoView({ block: "start", behavior: "instant" });
});
uploads.addEventListener("done", again);
uploads.resume();
wall.addEventListener("open", ({ detail }) => open(detail));
wall.addEventListener("trouble", ({ detail }) => put($("trouble"), problem(detail, reload)));
wall.addEventListener("counted", ({ detail }) => {
  counted = detail;
  say();
});

/** Number of pictures shown, of how many; the two numbers arrive separately. */
function say() {
  if (counted === null || !held) return;
  const words = $("filter").value.trim();
  const some = words || filters.any;
  $("order").hidden = Boolean(meant());
  $("by-meaning").hidden = Boolean(meant()) || !words || counted > 0;
  if (meant()) {
    const best = `The best ${counted.toLocaleString("en")} of ${count(search?.searched ?? 0, "picture")}`;
    put($("shown"), counted ? best : search?.note || `No results for “${words}”`);
  } else put($("shown"), !some ? "" : counted ? `${counted.toLocaleString("en")} of ${count(held.pictures, "picture")}` : words ? `No results for “${words}”` : "No picture matches all of these.");
  put($("empty"), !some && !counted && h("div", { class: "nothing" }, h("p", {}, "No pictures yet."), h("p", { class: "quiet" }, held.writable === false ? "Add some on the machine that the studio runs on." : "Drop pictures or folders here, or add them above. They stay on this machine.")));
}
$("add-pictures").addEventListener("click", () => uploads.open());
$("add").addEventListener("click", () =>
  askForFolder(async (path) => {
    const { job } = await api.addFolder(path);
    watch(job, path);
  }),
);
$("help").addEventListener("click", () => openHelp());
turn(PARTS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "pictures");
describe();
filters.refresh().catch((error) => put($("trouble"), problem(error, reload))).then(() => wall.reset());
