// Captions and keywords of a picture: shown and edited. They are stored in the library; the file does not change.

import { api } from "./api.js";
import { announce, button, h, problem, put } from "./dom.js";

/**
 * Section of a page with a picture's captions.
 * @param {object} picture as in a list
 * @param {{writable: boolean, written: (picture: object) => void}} options `written` is called with the changed picture
 */
export function pictureWords(picture, { writable, written }) {
  const place = h("section", { class: "said", "aria-label": "Words" });
  let known = null;

  const listed = (captions, keywords, label) => [
    captions.map((text) => h("p", {}, h("bdi", {}, text))),
    keywords.length > 0 && h("ul", { class: "keywords", "aria-label": label }, keywords.map((word) => h("li", {}, h("bdi", {}, word)))),
  ];

  const show = ({ now, stated, edited, described, coordinates, place: taken }) => {
    // A model's caption counts unless the user wrote one; it is shown separately from the file's.
    const model = edited ? null : described;
    const { captions, keywords } = model ? stated : now;
    const any = now.captions.length > 0;
    put(
      place,
      any || now.keywords.length ? listed(captions, keywords, "Keywords") : h("p", { class: "quiet" }, "No caption yet. A caption helps limner to find this picture, and describes it to people who cannot see it."),
      edited && h("p", { class: "quiet small" }, "Stored in the library; replaces the file’s own words."),
      model && listed([model.sentence], model.keywords, "Keywords by the model"),
      model && h("p", { class: "quiet small" }, "Described by ", h("bdi", {}, model.model), ", a model. It may be wrong."),
      coordinates && h("p", { class: "quiet small" }, "Taken at ", [taken, coordinates.map((degrees) => degrees.toFixed(5)).join(", ")].filter(Boolean).join("; ")),
      writable && button(any ? "Edit the caption" : "Add a caption", { look: "text", on: { click: edit } }),
    );
  };

  const keep = async (send) => {
    known = await send();
    show(known);
    place.querySelector("button")?.focus();
    announce("Saved.");
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
      h("div", { class: "field" }, h("label", { for: "own-captions" }, "Captions, one per line, the best first"), captions),
      h("div", { class: "field" }, h("label", { for: "own-keywords" }, "Keywords, separated by commas"), keywords),
      trouble,
      h("div", { class: "actions" }, button("Cancel", { on: { click: () => { show(known); place.querySelector("button").focus(); } } }), h("button", { type: "submit", class: "button main" }, "Save")),
      known.edited && button(known.described ? "Discard your words" : "Use the file’s own words", { kind: "plain", on: { click: act(() => api.forgetWords(picture.id)) } }),
    );
    form.addEventListener("submit", act(() => api.writeWords(picture.id, body())));
    put(place, form);
    captions.focus();
  }

  api.words(picture.id).then(
    (told) => {
      known = told;
      show(told);
    },
    (error) => put(place, problem(error)),
  );
  return place;
}
