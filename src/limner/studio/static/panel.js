// The panel of the selected step: its text, its actions, candidates, and reasons.

import { $, button, h, icon, put } from "./dom.js";
import { Offers } from "./offers.js";
import { described, credit, name } from "./pictures.js";
import { marked, reasons, shaded } from "./reasons.js";
import { Wording } from "./wording.js";

const PAGES = [
  ["offers", "Pictures"],
  ["reasons", "Reasons"],
];

export class Panel extends EventTarget {
  /**
   * @param {HTMLElement} place
   * @param {import("./store.js").Store} store
   * @param {import("./carrying.js").Carrying} carrying
   * @param {import("./board.js").Board} board
   */
  constructor(place, store, carrying, board) {
    super();
    this.place = place;
    this.store = store;
    this.step = 0;
    this.page = "offers";
    this.offers = new Offers(store, carrying);
    this.wording = new Wording(store, board);
    this.wording.addEventListener("opened", () => {
      this.open();
      this.text.hidden = true;
    });
    this.wording.addEventListener("closed", () => (this.text.hidden = false));
    this.#build();
  }

  #build() {
    const say = (kind) => () => this.dispatchEvent(new CustomEvent(kind, { detail: this.step }));
    this.title = h("h2", {});
    this.before = button("Previous step", { look: "before", bare: true, kind: "plain", on: { click: say("before") } });
    this.after = button("Next step", { look: "after", bare: true, kind: "plain", on: { click: say("after") } });
    this.closer = button("Close the panel", { look: "down", bare: true, kind: "plain closer", on: { click: () => this.close() } });
    this.text = h("div", { class: "telling-text", tabindex: "0", role: "group", "aria-label": "Text of the step" });
    this.lock = button("Lock", { look: "lock", on: { click: say("lock") } });
    this.more = button("More", { look: "down", "aria-haspopup": "dialog", on: { click: say("more") } });
    this.relation = h("select", { id: "relation" });
    this.relation.addEventListener("change", () => this.dispatchEvent(new CustomEvent("relation", { detail: this.relation.value || null })));
    this.wish = h("div", { class: "wish", hidden: true }, h("label", { for: "relation" }, "Relation between picture and text"), this.relation);
    this.tabs = PAGES.map(([page, words]) => {
      const tab = h("button", { type: "button", role: "tab", id: `tab-${page}`, "aria-controls": `page-${page}` }, words);
      tab.addEventListener("click", () => this.turn(page));
      return tab;
    });
    const tablist = h("div", { class: "tabs", role: "tablist", "aria-label": "About this step" }, this.tabs);
    tablist.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      this.turn(this.page === "offers" ? "reasons" : "offers");
      $(`tab-${this.page}`).focus();
    });
    this.why = h("div", {});
    put(
      this.place,
      h("header", {}, this.title, this.wording.tools, h("div", { class: "steering" }, this.before, this.after, this.closer)),
      this.text,
      this.wording.rest,
      this.wording.element,
      h("div", { class: "doing" }, tablist, this.lock, this.more),
      this.wish,
      h("div", { role: "tabpanel", id: "page-offers", "aria-labelledby": "tab-offers" }, this.offers.element),
      h("div", { role: "tabpanel", id: "page-reasons", "aria-labelledby": "tab-reasons", tabindex: "0" }, this.why),
    );
    this.turn(this.page);
  }

  /** Show a step. */
  show(step) {
    const turned = step !== this.step;
    this.step = step;
    this.place.hidden = false;
    const { text, choice, state, relation } = this.store.step(step);
    const steps = this.store.board.steps.length;
    put(this.title, h("span", { class: "unseen" }, "Step "), h("span", { class: "number" }, step + 1), h("span", { class: "quiet small" }, ` of ${steps}`));
    this.place.setAttribute("aria-label", `Step ${step + 1}`);
    this.before.disabled = step === 0;
    this.after.disabled = step === steps - 1;
    const fixed = state !== "free";
    put(this.lock, icon(fixed ? "lock" : "unlock"), fixed ? "Locked" : "Lock");
    this.lock.title = fixed ? "Unlock (L)" : "Lock this picture (L)";
    this.lock.setAttribute("aria-pressed", String(fixed));
    this.lock.disabled = !fixed && (!choice.chosen || choice.origin === "given");
    this.#relations(relation);
    this.wording.show(step);
    this.#words(text, choice);
    put(this.why, reasons({ choice, state }, this.store.library, (picture) => this.dispatchEvent(new CustomEvent("compare", { detail: picture }))), choice.chosen && this.#file(choice.chosen.picture));
    if (turned) this.text.scrollTop = 0;
    return this.offers.show(step);
  }

  /** Switch to "offers" or "reasons". */
  turn(page) {
    this.page = page;
    for (const [at, [own]] of PAGES.entries()) {
      this.tabs[at].setAttribute("aria-selected", String(own === page));
      this.tabs[at].tabIndex = own === page ? 0 : -1;
      this.place.querySelector(`#page-${own}`).hidden = own !== page;
    }
    this.place.dataset.page = page;
    if (this.store.project) this.#words(this.store.step(this.step).text, this.store.step(this.step).choice);
  }

  /** Search for pictures similar to the step's. */
  likeThis(picture = this.store.step(this.step).choice.chosen?.picture) {
    if (!picture) return;
    this.turn("offers");
    this.offers.ask({ like: picture });
  }

  search() {
    this.open();
    this.turn("offers");
    this.offers.field.focus();
    this.offers.field.select();
  }

  /** On narrow pages the panel is a sheet that opens and closes. */
  open() {
    document.body.classList.add("panel-open");
  }

  close() {
    const was = document.body.classList.contains("panel-open");
    document.body.classList.remove("panel-open");
    if (was) this.dispatchEvent(new CustomEvent("closed"));
    return was;
  }

  #words(text, choice) {
    const why = this.page === "reasons";
    const attention = choice.attention ?? [];
    const pieces = why && attention.length ? shaded(text.text, attention) : why ? marked(text.text, choice.chosen?.matched ?? []) : [text.text];
    const story = this.store.board.story;
    put(this.text, text.title && h("h3", { dir: "auto" }, text.title), h("p", { dir: story.direction, lang: story.language || undefined }, pieces));
  }

  #relations(current) {
    const known = this.store.library.relations ?? [];
    this.wish.hidden = !known.length;
    const sentences = this.store.library.wording?.relations ?? {};
    const wanted = current && !known.includes(current) ? [...known, current] : known;
    put(this.relation, h("option", { value: "" }, "any, as long as the picture fits"), wanted.map((relation) => h("option", { value: relation }, asked(relation, sentences[relation]))));
    this.relation.value = current ?? "";
  }

  #file(picture) {
    return h(
      "dl",
      { class: "file" },
      h("dt", {}, "Picture"), h("dd", {}, h("bdi", {}, name(picture))),
      h("dt", {}, "Described as"), h("dd", {}, h("bdi", {}, described(picture))),
      h("dt", {}, "Credit"), h("dd", {}, h("bdi", {}, credit(picture))),
    );
  }
}

/** "action: the picture shows a moment of the action in the text". */
function asked(relation, sentence) {
  if (!sentence) return relation;
  return `${relation.replaceAll("_", " ")}: ${sentence[0].toLowerCase()}${sentence.slice(1).replace(/\.$/, "")}`;
}
