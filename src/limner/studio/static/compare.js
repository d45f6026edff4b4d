// Comparison of up to three pictures, with the text of the step and the pictures of its neighbours; one can be chosen.

import { openDialog } from "./dialogs.js";
import { announce, button, h, put } from "./dom.js";
import { described, name, thumbnail } from "./pictures.js";
import { chanceOf } from "./reasons.js";

const MOST = 3;
const id = (candidate) => candidate.picture.id;

class Compare {
  /** See `openCompare`. */
  constructor({ store, board, panel, choose }, picture) {
    Object.assign(this, { store, board, panel, choose });
    this.words = h("div", { class: "said", tabindex: "0", role: "group", "aria-label": "Text of the step" });
    this.row = h("div", { class: "slots" });
    this.strip = h("ol", { class: "strip", "aria-label": "Pictures to put here" });
    this.box = openDialog("Compare", () => [this.words, this.row, this.strip], { kind: "compare" });
    this.title = this.box.querySelector("h2");
    const turn = (by, look, words) => button(words, { look, bare: true, kind: "plain", on: { click: () => this.#turn(by) } });
    this.steering = [turn(-1, "before", "Previous step (Page Up)"), turn(1, "after", "Next step (Page Down)")];
    this.box.querySelector("header .button").before(h("div", { class: "steering" }, this.steering));
    const draw = () => this.#draw();
    panel.offers.addEventListener("loaded", draw);
    store.addEventListener("saving", draw);
    this.box.addEventListener("close", () => {
      panel.offers.removeEventListener("loaded", draw);
      store.removeEventListener("saving", draw);
    });
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.asked = picture?.id; // It may arrive only with the candidates.
    this.#begin();
    this.#draw();
    this.row.querySelector(".acts .main:enabled")?.focus();
  }

  /** The step's picture, and all candidates for it. */
  get #candidates() {
    const { chosen } = this.store.step(this.board.selected).choice;
    const offered = this.panel.offers.step === this.board.selected ? this.panel.offers.found : [];
    return [...new Map([chosen, ...offered].filter(Boolean).map((one) => [id(one), one])).values()];
  }

  #begin() {
    this.step = this.board.selected;
    this.begun = this.panel.offers.of?.step === this.step; // Otherwise again, once there is something to compare with.
    const known = this.#candidates.map(id);
    this.slots = [...new Set([known[0], known.includes(this.asked) ? this.asked : known[1]])].filter(Boolean);
  }

  #turn(by) {
    this.asked = undefined;
    this.board.select(this.board.selected + by);
    this.#draw();
    announce(`Step ${this.board.selected + 1}`);
  }

  #draw() {
    const candidates = this.#candidates;
    const known = new Map(candidates.map((one) => [id(one), one]));
    this.slots = this.slots.filter((one) => known.has(one));
    if (this.step !== this.board.selected || !this.begun || !this.slots.length) this.#begin();
    const steps = this.store.board.steps.length;
    const { text } = this.store.step(this.step);
    const { language, direction } = this.store.board.story;
    const focused = this.box.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    put(this.title, `Step ${this.step + 1}`, h("span", { class: "quiet small" }, ` of ${steps}`));
    this.steering[0].disabled = this.step === 0;
    this.steering[1].disabled = this.step === steps - 1;
    put(this.words, text.title && h("h3", { dir: "auto" }, text.title), h("p", { dir: direction, lang: language || undefined }, text.text));
    put(this.row, this.#beside(-1), h("div", { class: "large" }, this.slots.map((one, at) => this.#slot(known.get(one), at)), !this.slots.length && h("p", { class: "quiet" }, "Looking for pictures …")), this.#beside(1));
    this.row.dir = direction;
    put(this.strip, candidates.map((one) => this.#toggle(one)));
    if (focused) this.box.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  #slot(candidate, at) {
    const { picture } = candidate;
    const here = this.store.step(this.step).choice.chosen?.picture.id === picture.id;
    const other = (by, look, words) => button(words, { look, bare: true, kind: "plain", "data-key": `${look}-${at}`, on: { click: () => this.#flip(at, by) } });
    const take = () => {
      this.box.close();
      this.choose(this.step, picture.id);
    };
    return h(
      "figure",
      { data: { picture: picture.id } },
      thumbnail(picture, 800, { alt: described(picture), loading: "eager" }),
      h("figcaption", {}, h("bdi", {}, described(picture)), chanceOf(candidate)),
      h(
        "div",
        { class: "acts" },
        other(-1, "before", "Previous picture (←)"),
        here ? h("span", { class: "quiet" }, "In use") : button("Use this picture", { kind: "main", "data-key": `take-${at}`, disabled: !this.panel.offers.offer, on: { click: take } }),
        other(1, "after", "Next picture (→)"),
        this.slots.length > 1 && button(`Put ${name(picture)} away`, { look: "close", bare: true, kind: "plain", on: { click: () => this.#set(this.slots.filter((one) => one !== picture.id)) } }),
      ),
    );
  }

  /** The picture of the step before or after. */
  #beside(by) {
    const step = this.step + by;
    if (step < 0 || step >= this.store.board.steps.length) return h("span", { class: "beside" });
    const { chosen } = this.store.step(step).choice;
    const open = h("button", { type: "button", "data-key": `beside-${by}`, "aria-label": `Go to step ${step + 1}: ${chosen ? described(chosen.picture) : "no picture"}`, on: { click: () => this.#turn(by) } }, chosen ? thumbnail(chosen.picture, 256, { alt: "" }) : h("span", { class: "void" }, "no picture"));
    return h("figure", { class: "beside" }, open, h("figcaption", { class: "quiet small" }, `Step ${step + 1}`));
  }

  #toggle(candidate) {
    const { picture } = candidate;
    const on = this.slots.includes(picture.id);
    const flip = () => this.#set(on ? this.slots.filter((one) => one !== picture.id) : [...this.slots.slice(0, MOST - 1), picture.id]);
    return h("li", {}, h("button", { type: "button", class: "offer", "aria-pressed": String(on), "aria-label": described(picture), disabled: on && this.slots.length === 1, "data-key": picture.id, on: { click: flip } }, thumbnail(picture, 128, { alt: "" })));
  }

  #set(slots) {
    this.slots = slots;
    this.#draw();
  }

  /** Show the next candidate that is not yet shown. */
  #flip(at, by) {
    const all = this.#candidates.map(id);
    const open = all.filter((one) => one === this.slots[at] || !this.slots.includes(one));
    const next = open[(open.indexOf(this.slots[at]) + by + open.length) % open.length];
    this.#set(this.slots.map((one, place) => (place === at ? next : one)));
    announce(described(this.#candidates.find((one) => id(one) === next).picture));
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const flip = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const turn = { PageDown: 1, PageUp: -1 }[event.key];
    if (!flip && !turn) return;
    event.preventDefault();
    if (turn) return this.#turn(turn);
    const at = [...this.row.querySelectorAll(".large figure")].findIndex((figure) => figure.contains(document.activeElement));
    if (this.slots.length) this.#flip(at < 0 ? this.slots.length - 1 : at, this.row.dir === "rtl" ? -flip : flip);
  }
}

/**
 * Compare pictures for the selected step.
 * @param {{store: import("./store.js").Store, board: import("./board.js").Board, panel: import("./panel.js").Panel, choose: (step: number, picture: string) => Promise<boolean>}} page
 * @param {object} [picture] picture to compare with the step's; default: the best other candidate
 */
export function openCompare(page, picture) {
  if (!document.querySelector("dialog[open]")) new Compare(page, picture);
}
