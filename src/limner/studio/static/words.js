// The words of a picture: shown, and written anew. They are kept in the library; the picture stays as it is.

import { api } from "./api.js";
import { announce, button, h, problem, put } from "./dom.js";

/**
 * A part of a page with the words of a picture.
 * @param {object} picture as in a list
 * @param {{writable: boolean, written: (picture: object) => void}} options `written` is told of the picture as it is now
 */
export function pictureWords(picture, { writable, written }) {
  const place = h("section", { class: "said", "aria-label": "Words" });
  let known = null;

  const show = (now, edited) => {
    const lines = now.captions.map((text) => h("p", {}, h("bdi", {}, text)));
    put(
      place,
      lines.length || now.keywords.length ? lines : h("p", { class: "quiet" }, "No words yet. Words help limner to find this picture, and describe it to those who cannot see it."),
      now.keywords.length > 0 && h("ul", { class: "keywords", "aria-label": "Keywords" }, now.keywords.map((word) => h("li", {}, h("bdi", {}, word)))),
      edited && h("p", { class: "quiet small" }, "Written in the library, in place of what the file says."),
      writable && button(lines.length ? "Change the words" : "Add words", { look: "text", on: { click: edit } }),
    );
  };

  const keep = async (send) => {
    known = await send();
    show(known.now, known.edited);
    place.querySelector("button")?.focus();
    announce("Kept.");
    written(await api.picture(picture.id));
  };

  function edit() {
    const captions = h("textarea", { rows: 5, id: "own-captions", dir: "auto" });
    captions.value = known.now.captions.join("\n");
    const keywords = h("input", { type: "text", id: "own-keywords", dir: "auto", autocomplete: "off" });
    keywords.value = known.now.keywords.join(", ");
    const trouble = h("div", {});
    const act = (send) => async (event) => {
      event.preventDefault();
      for (const one of form.querySelectorAll("button")) one.disabled = true;
      try {
        await keep(send);
      } catch (error) {
        put(trouble, problem(error));
        for (const one of form.querySelectorAll("button")) one.disabled = false;
      }
    };
    const body = () => ({ captions: captions.value.split("\n").filter((line) => line.trim()), keywords: keywords.value.split(",").map((word) => word.trim()).filter(Boolean) });
    const form = h(
      "form",
      {},
      h("div", { class: "field" }, h("label", { for: "own-captions" }, "What it shows; a line for each description, the best first"), captions),
      h("div", { class: "field" }, h("label", { for: "own-keywords" }, "Keywords, with commas between them"), keywords),
      trouble,
      h("div", { class: "actions" }, button("Cancel", { on: { click: () => { show(known.now, known.edited); place.querySelector("button").focus(); } } }), h("button", { type: "submit", class: "button main" }, "Keep")),
      known.edited && button("Use what the file says", { kind: "plain", on: { click: act(() => api.forgetWords(picture.id)) } }),
    );
    form.addEventListener("submit", act(() => api.writeWords(picture.id, body())));
    put(place, form);
    captions.focus();
  }

  api.words(picture.id).then(
    (told) => {
      known = told;
      show(told.now, told.edited);
    },
    (error) => put(place, problem(error)),
  );
  return place;
}
