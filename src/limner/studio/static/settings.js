// Two dialogs that concern the whole project: how pictures are chosen, and the text itself.

import { openAgain } from "./again.js";
import { openDialog } from "./dialogs.js";
import { button, h } from "./dom.js";
import { thumbnail } from "./pictures.js";

const DECODERS = [
  ["anchor", "All share one world", "the same hand, light and characters throughout"],
  ["chain", "Neighbours agree", "each picture goes with the one before and after"],
  ["off", "Each for itself", "the best picture for its own words"],
];

/** What a picture of the occasion of a locked one gains: about as much as a good match of words tells. */
const OCCASION_NATS = 2;

/** How pictures are chosen. */
export function openSettings(store) {
  if (document.querySelector("dialog[open]")) return;
  const options = store.project.options ?? {};
  const settings = store.board.settings ?? {};
  const decoder = options.decoder ?? store.board.decoder ?? "anchor";
  const repeats = h("input", { type: "checkbox", checked: Boolean(options.allow_repeats ?? settings.allow_repeats) });
  const day = h("input", { type: "checkbox", checked: options.occasion_weight > 0 });
  const asked = options.min_probability;
  const threshold = h("select", { id: "threshold" }, [
    ["", "where limner finds nothing suitable"],
    ["0", "never"],
    ["0.5", "unless a fit is likelier than not"],
    ["0.8", "unless a fit is very likely"],
  ].map(([value, words]) => h("option", { value, selected: value === (asked === undefined || asked === null ? "" : String(asked)) }, words)));
  const modelled = Boolean(store.library.model);
  openDialog("How pictures are chosen", (close) => {
    const form = h(
      "form",
      {},
      h("fieldset", {}, h("legend", { class: "quiet small" }, "Pictures beside each other"), DECODERS.map(([value, words, note]) => h("label", { class: "choice" }, h("input", { type: "radio", name: "decoder", value, checked: value === decoder }), h("span", {}, words, h("small", {}, note))))),
      h("label", { class: "choice" }, repeats, h("span", {}, "The same picture may appear twice")),
      h("label", { class: "choice" }, day, h("span", {}, "Locked pictures bring others of the same occasion", h("small", {}, "of the same hours and place, or the same folder"))),
      !modelled && h("div", { class: "field" }, h("label", { for: "threshold" }, "Leave a step blank"), threshold),
      h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), h("button", { type: "submit", class: "button main" }, "See what would change")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      close();
      const chosen = { ...options, decoder: new FormData(form).get("decoder"), allow_repeats: repeats.checked, occasion_weight: day.checked ? options.occasion_weight || OCCASION_NATS : 0 };
      delete chosen.min_probability;
      if (!modelled && threshold.value) chosen.min_probability = Number(threshold.value);
      openAgain(store, chosen);
    });
    return [form, banned(store)];
  });
}

/** Pictures that were barred, each with a way back. */
function banned(store) {
  const ids = store.project.bans ?? [];
  if (!ids.length) return null;
  return h(
    "section",
    { class: "apart" },
    h("h3", {}, "Never used in this project; a click allows it again"),
    h("ul", { class: "banned" }, ids.map((id, at) => {
      const item = h("li", {}, h("button", { type: "button", class: "offer", "aria-label": `Allow barred picture ${at + 1} again`, on: { click: async () => { if (await store.edit({ kind: "unban", picture: id })) item.remove(); } } }, thumbnail({ id, width: 96, height: 72 }, 128, { alt: "" })));
      return item;
    })),
  );
}

/** The text itself. */
export function openText(store) {
  if (document.querySelector("dialog[open]")) return;
  const text = h("textarea", { rows: 16, id: "new-text", dir: "auto", class: "writing" });
  text.value = store.project.text;
  openDialog(
    "Edit the text",
    (close) => {
      const form = h(
        "form",
        {},
        h("div", { class: "field" }, h("label", { for: "new-text" }, "Steps whose words stay keep their pictures; limner chooses for the new ones. A single step is quicker changed in its panel."), text),
        h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), h("button", { type: "submit", class: "button main" }, "Illustrate again")),
      );
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (!text.value.trim()) return text.focus();
        close();
        if (text.value !== store.project.text) store.edit({ kind: "retext", text: text.value });
      });
      return [form];
    },
    { kind: "wide" },
  );
}
