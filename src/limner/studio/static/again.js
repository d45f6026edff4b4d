// Refreshing pictures: a preview of the changes, before and after, which the user applies in whole or in part.

import { api } from "./api.js";
import { openDialog } from "./dialogs.js";
import { button, count, h, problem, put } from "./dom.js";
import { described, thumbnail } from "./pictures.js";

/** Keys of what may be shown only once: a picture with its near-duplicates. */
const own = ({ chosen }) => (chosen ? chosen.picture.group || chosen.picture.id : null);

/**
 * Preview the changes of choosing again, and apply those that are ticked.
 * @param {import("./store.js").Store} store
 * @param {object} [options] options to choose with, instead of the project's
 */
export async function openAgain(store, options) {
  if (document.querySelector("dialog[open]")) return;
  const place = h("div", { class: "again" }, h("p", { class: "quiet", role: "status" }, "Choosing …"));
  const box = openDialog(options ? "What these settings would change" : "Refresh unlocked pictures", () => [place], { kind: "wide" });
  await store.settled();
  const { revision } = store.project;
  const edit = (steps) => store.edit(options ? { kind: "options", options, steps } : { kind: "again", steps }, { revision });
  try {
    const { steps } = await api.preview(store.id, revision, options);
    put(place, steps.length ? form(store, steps, options, edit, () => box.close()) : nothing(options, edit, () => box.close()));
    place.querySelector(".main")?.focus();
  } catch (error) {
    put(place, problem(error, () => { box.close(); openAgain(store, options); }));
  }
}

function nothing(options, edit, close) {
  const use = () => {
    close();
    edit([]);
  };
  return [
    h("p", {}, options ? "No picture would change." : "No picture would change: the others already go with what is locked."),
    h("div", { class: "actions" }, options && button("Cancel", { on: { click: close } }), options ? button("Use these settings", { kind: "main", on: { click: use } }) : button("Close", { kind: "main", on: { click: close } })),
  ];
}

function form(store, steps, options, edit, close) {
  const all = h("input", { type: "checkbox", checked: true });
  const go = h("button", { type: "submit", class: "button main" });
  const rows = new Map(steps.map((change) => [change.position, { change, box: h("input", { type: "checkbox", checked: true }), note: h("div", { class: "twice" }) }]));
  const warning = h("p", { class: "warning", role: "status" });
  const taken = () => [...rows].filter(([, { box }]) => box.checked).map(([position]) => position);
  const tick = (position) => {
    const { box } = rows.get(position);
    box.checked = true;
    update();
    box.focus();
  };
  const update = () => {
    const accepted = taken();
    all.checked = accepted.length === rows.size;
    all.indeterminate = accepted.length > 0 && !all.checked;
    put(go, options && !accepted.length ? "Use the settings only" : `Apply ${count(accepted.length, "change")}`);
    go.disabled = !options && !accepted.length;
    const shows = store.board.steps.map(own);
    for (const position of accepted) shows[position] = own(rows.get(position).change.after);
    const repeats = (options ?? store.project.options).allow_repeats;
    const pairs = [];
    for (const [position, { note }] of rows) {
      const other = repeats || shows[position] === null ? -1 : shows.findIndex((one, step) => one === shows[position] && step !== position);
      put(note, other >= 0 && twice(position, other, rows, tick));
      note.closest("li").toggleAttribute("data-twice", other >= 0);
      if (other >= 0) pairs.push(shows[position]);
    }
    const pictures = new Set(pairs).size;
    put(warning, pictures > 0 && `${count(pictures, "picture")} would be used at two steps.`);
  };
  all.addEventListener("change", () => {
    for (const { box } of rows.values()) box.checked = all.checked;
    update();
  });
  const made = h(
    "form",
    {},
    h("p", {}, `${count(steps.length, "step")} would show another picture. What is locked or left blank by you stays.`),
    h("label", { class: "choice" }, all, h("span", {}, "All of them")),
    h("ol", { class: "changes" }, [...rows.values()].map(({ change, box, note }) => row(store, change, box, note))),
    warning,
    h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), go),
  );
  made.addEventListener("change", update);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    const accepted = taken();
    close();
    edit(accepted);
  });
  update();
  return made;
}

/** Note for a step whose picture another step shows too; `tick` selects the change that resolves it. */
function twice(position, other, rows, tick) {
  const taken = rows.get(position).box.checked;
  const parting = taken ? other : position;
  const open = rows.has(parting) && !rows.get(parting).box.checked;
  return [
    h("p", {}, taken ? `Step ${other + 1} shows this picture too.` : `Step ${other + 1} would show the picture of this step.`),
    open && button("Apply both", { title: `Apply the changes of steps ${Math.min(position, other) + 1} and ${Math.max(position, other) + 1}`, on: { click: () => tick(parting) } }),
  ];
}

function row(store, change, box, note) {
  const { text } = store.step(change.position);
  const words = h("span", { class: "clipped", dir: "auto" }, [text.title, text.text].filter(Boolean).join(" — "));
  return h(
    "li",
    {},
    h("label", { class: "choice" }, box, h("span", {}, h("span", { class: "number" }, h("span", { class: "unseen" }, "Step "), change.position + 1), " ", words)),
    h("div", { class: "pair" }, side("Now", change.before), h("span", { class: "arrow", "aria-hidden": "true" }), side("After", change.after)),
    note,
  );
}

function side(words, choice) {
  const picture = choice.chosen?.picture;
  return h("figure", {}, picture ? thumbnail(picture, 192, { alt: described(picture) }) : h("span", { class: "void" }, "No picture"), h("figcaption", { class: "quiet small" }, words));
}
