// Two dialogs of the whole project: picture settings, and the text with its division into steps.

import { openAgain } from "./again.js";
import { openDialog } from "./dialogs.js";
import { button, h, put } from "./dom.js";
import { draft, keepDraft } from "./drafts.js";
import { thumbnail } from "./pictures.js";
import { percent } from "./reasons.js";
import { importNotes } from "./texts.js";

const POSITIONS = [
  ["cautious", "Cautious", "only pictures that probably fit; other steps stay blank"],
  ["usual", "Usual", "a step stays blank if hardly anything fits"],
  ["always", "Always show something", "at every step; weak pictures are marked"],
];

/** The picture settings. */
export function openSettings(store) {
  if (document.querySelector("dialog[open]")) return;
  const options = store.project.options ?? {};
  const own = options.min_probability ?? null; // Set by a program or an earlier version.
  const position = own === null ? (options.show ?? "usual") : own === 0 ? "always" : null;
  const repeats = h("input", { type: "checkbox", checked: Boolean(options.allow_repeats) });
  const stated = Boolean(store.library.calibrated);
  const threshold = store.board.threshold ?? 0;
  const now = threshold > 0 && `When pictures were last chosen, steps stayed blank below a probability of ${percent(threshold)} %.`;
  const replaced = own !== null && position === null && ` This project has a threshold of its own, ${percent(own)} %; a choice here replaces it.`;
  openDialog("Picture settings", (close) => {
    const form = h(
      "form",
      {},
      stated && h(
        "fieldset",
        {},
        h("legend", { class: "quiet small" }, "When to show a picture"),
        POSITIONS.map(([value, words, note]) => h("label", { class: "choice" }, h("input", { type: "radio", name: "show", value, checked: value === position }), h("span", {}, words, h("small", {}, note)))),
        (now || replaced) && h("p", { class: "quiet small" }, now, replaced),
      ),
      h("label", { class: "choice" }, repeats, h("span", {}, "Allow the same picture twice")),
      h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), h("button", { type: "submit", class: "button main" }, "See what would change")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      close();
      const show = new FormData(form).get("show");
      const chosen = { ...options, allow_repeats: repeats.checked };
      if (show && show !== position) Object.assign(chosen, { show, min_probability: null });
      openAgain(store, chosen);
    });
    return [form, banned(store)];
  });
}

/** Banned pictures, each with a button to allow it again. */
function banned(store) {
  const ids = store.project.bans ?? [];
  if (!ids.length) return null;
  return h(
    "section",
    { class: "apart" },
    h("h3", {}, "Never used in this project; a click allows it again"),
    h("ul", { class: "banned" }, ids.map((id, at) => {
      const item = h("li", {}, h("button", { type: "button", class: "offer", "aria-label": `Allow banned picture ${at + 1} again`, on: { click: async () => { if (await store.edit({ kind: "unban", picture: id })) item.remove(); } } }, thumbnail({ id, width: 96, height: 72 }, 128, { alt: "" })));
      return item;
    })),
  );
}

const CUTS = [["", "step, as written"], ["heading", "heading"], ["paragraph", "paragraph"], ["sentence", "sentence"]];

/** The text, and how it is divided into steps. */
export function openText(store) {
  if (document.querySelector("dialog[open]")) return;
  const text = h("textarea", { rows: 16, id: "new-text", dir: "auto", class: "writing" });
  const name = `${store.id}.text`;
  const typed = draft(name);
  text.value = typed?.text ?? store.project.text;
  const marks = store.project.by === "step" || store.board.story.blocks.some(({ kind }) => kind === "wanted");
  const cuts = marks ? [["", "marked place"], ["step", "step and marked place"], ...CUTS.slice(1)] : CUTS;
  const by = h("select", { id: "new-by" }, cuts.map(([value, words]) => h("option", { value }, words)));
  by.value = typed?.by ?? store.project.by ?? "";
  const cut = () => by.value !== (store.project.by ?? "");
  const changed = () => cut() || text.value !== store.project.text;
  openDialog(
    "Edit the text",
    (close) => {
      const discard = button("Cancel", { on: { click: () => { keepDraft(name, null); close(); } } });
      const say = () => put(discard, changed() ? "Discard" : "Cancel");
      const keep = () => {
        keepDraft(name, changed() ? { text: text.value, by: by.value } : null);
        say();
      };
      text.addEventListener("input", keep);
      by.addEventListener("change", keep);
      say();
      const form = h(
        "form",
        {},
        typed && h("p", { class: "warning", role: "status" }, "This is unsaved text that you typed earlier."),
        h("div", { class: "field" }, h("label", { for: "new-text" }, "Steps whose words do not change keep their pictures; limner chooses pictures for the others. To change a single step, use its panel."), text),
        h("div", { class: "cut" }, h("label", { for: "new-by" }, "One picture for each"), by),
        importNotes(store.project.notes),
        h("div", { class: "actions" }, discard, h("button", { type: "submit", class: "button main" }, "Illustrate again")),
      );
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!text.value.trim()) return text.focus();
        close();
        if (changed()) store.edit({ kind: "retext", text: text.value, ...(cut() ? { by: by.value || null } : {}) }, { draft: name });
      });
      return [form];
    },
    { kind: "wide" },
  );
}
