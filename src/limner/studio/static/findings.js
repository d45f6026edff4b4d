// Two lists of the library page: skipped files by reason, and duplicates.

import { api } from "./api.js";
import { button, count, h, problem, put } from "./dom.js";
import { copies, name } from "./pictures.js";
import { opener } from "./viewer.js";

const FILES = 1000;
const GROUPS = 100;

/** Files that are not in the library, grouped by reason. */
export function skipped(place, library) {
  if (!library.left_out_count) return put(place, h("p", { class: "quiet" }, "Every file of the folders could be read."));
  return growing(place, library.left_out, library.left_out_count, (offset) => api.leftOut(offset, FILES), byReason);
}

function byReason(files) {
  const reasons = new Map();
  for (const { path, reason } of files) {
    if (!reasons.has(reason)) reasons.set(reason, []);
    reasons.get(reason).push(path);
  }
  const sections = [...reasons].sort((one, other) => other[1].length - one[1].length);
  return sections.map(([reason, paths]) =>
    h("details", { class: "why", open: paths.length <= 20 }, h("summary", {}, h("bdi", {}, reason), " ", h("span", { class: "quiet small numbers" }, count(paths.length, "file"))), h("ul", {}, paths.map((path) => h("li", {}, h("bdi", {}, path))))),
  );
}

/** Groups of near-duplicates, and single pictures with several files. */
export function duplicates(place, library) {
  if (!library.duplicate_groups) return put(place, h("p", { class: "quiet" }, "No two pictures are the same, or nearly."));
  return growing(place, library.duplicates, library.duplicate_groups, (offset) => api.duplicates(offset, GROUPS), (groups) => [
    h("p", { class: "quiet small" }, "Pictures of one group are the same or look nearly so; a storyboard shows only one of them. Your files stay as they are."),
    h("div", { class: "groups" }, groups.map(group)),
  ]);
}

function group({ pictures }, at) {
  const files = pictures.reduce((sum, picture) => sum + copies(picture), 0);
  return h(
    "section",
    { class: "group" },
    h("h2", {}, `Group ${at + 1}`, h("span", { class: "quiet small" }, ` · ${count(pictures.length, "picture")}${files > pictures.length ? ` in ${files} files` : ""}`)),
    h("ul", {}, pictures.map((picture) => h("li", {}, h("figure", {}, opener(picture, 160), h("figcaption", {}, h("bdi", {}, name(picture)), copies(picture) > 1 && `, in ${copies(picture)} files`))))),
  );
}

/** A list with a button that loads more. */
function growing(place, first, total, read, draw) {
  let shown = first;
  const more = button("Show more", {
    on: {
      click: async () => {
        more.disabled = true;
        try {
          shown = [...shown, ...(await read(shown.length)).items];
          show();
        } catch (error) {
          place.append(problem(error));
        }
        more.disabled = false;
      },
    },
  });
  const show = () => put(place, draw(shown), shown.length < total && h("div", { class: "rest" }, h("p", { class: "quiet small" }, `${shown.length.toLocaleString("en")} of ${total.toLocaleString("en")}`), more));
  show();
}
