// The storyboard: one card per step; cards stay in place when pictures change, so that focus and scroll position remain.

import { DRAGGABLE } from "./carrying.js";
import { button, gliding, h, icon, put } from "./dom.js";
import { shownAt, views } from "./framing.js";
import { described, shape, thumbnail } from "./pictures.js";
import { fit } from "./reasons.js";

/** Everything that a card shows, to detect changes. */
const looks = ({ story, steps }, at) => JSON.stringify([shownAt({ text: story.steps[at], choice: steps[at] }), steps[at].framing]);

export const VIEWS = ["large", "small", "strip", "list"];
const VIEW = "limner.view";

/** Words of a step that is a place for a picture, "" if it has none; undefined for any other step. */
export function asked({ blocks, steps }, at) {
  const block = blocks[steps[at]?.run[0]];
  return block?.kind === "wanted" ? block.text : undefined;
}

/** The blocks before each step and after the last that are in none; nothing in a text without places. */
function between(story) {
  const { blocks, steps } = story;
  if (!steps.some((_, at) => asked(story, at) !== undefined)) return [];
  const starts = [...steps.map(({ run }) => run[0]), blocks.length];
  return starts.map((end, n) => {
    const start = n && steps[n - 1].run[1];
    return blocks.slice(start, end).map(({ kind, text, number, pictures }, at) => ({ at: start + at, kind, text, number, pictures }));
  });
}

/** Header before the items of a list. */
const MARKER = /^[ \t]*[-*•–][ \t]+/gm;

export class Board extends EventTarget {
  /**
   * @param {HTMLElement} place
   * @param {import("./store.js").Store} store
   */
  constructor(place, store) {
    super();
    this.place = place;
    this.store = store;
    this.cards = [];
    this.selected = 0;
    this.view = localStorage.getItem(VIEW);
  }

  /** One of `VIEWS`: large or small cards, a strip, or a list. */
  get view() {
    return this.place.dataset.view;
  }

  set view(name) {
    this.place.dataset.view = VIEWS.includes(name) ? name : VIEWS[0];
    localStorage.setItem(VIEW, this.view);
    this.cards[this.selected]?.item.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Update the cards. Returns positions whose picture changed. */
  show(before) {
    const steps = this.store.board.steps;
    const story = this.store.board.story;
    const around = between(story);
    const told = JSON.stringify(around);
    const retold = !before || before.board.story.steps.length !== steps.length || told !== this.around;
    this.around = told;
    if (retold) {
      this.cards = steps.map((_, position) => this.#card(position));
      put(this.place, [...this.cards, null].map((card, at) => [around[at]?.length > 0 && this.#between(around[at], story), card?.item]));
      this.selected = Math.min(this.selected, steps.length - 1);
    }
    this.place.dir = story.direction;
    const pictures = steps.filter((step) => step.chosen).map((step) => step.chosen.picture);
    const shaped = this.shape;
    this.shape = shape(pictures);
    this.place.style.setProperty("--shape", this.shape.toFixed(3));
    const changed = [];
    for (const position of steps.keys()) {
      const was = retold ? undefined : looks(before.board, position);
      const is = looks(this.store.board, position);
      if (was !== undefined && was !== is) changed.push(position);
      this.#update(position, story, retold || was !== is || this.shape !== shaped);
    }
    for (const position of changed) this.#flash(this.cards[position].item);
    this.mark();
    return changed;
  }

  /** Select a step. */
  select(position, { focus = false, told = true } = {}) {
    this.selected = Math.max(0, Math.min(position, this.cards.length - 1));
    this.mark();
    const card = this.cards[this.selected];
    if (focus) {
      card.plate.focus({ preventScroll: true });
      card.item.scrollIntoView({ block: "nearest", inline: "nearest", behavior: gliding() });
    }
    if (told) this.dispatchEvent(new CustomEvent("select", { detail: this.selected }));
  }

  mark() {
    for (const [position, card] of this.cards.entries()) {
      const here = position === this.selected;
      card.item.classList.toggle("selected", here);
      if (here) card.plate.setAttribute("aria-current", "true");
      else card.plate.removeAttribute("aria-current");
      card.plate.tabIndex = here ? 0 : -1;
    }
  }

  /** Mark the steps with unsaved changes. */
  waiting() {
    for (const [position, card] of this.cards.entries()) card.item.toggleAttribute("data-waiting", this.store.changing(position).length > 0);
  }

  /** Index of the step one row above or below, by the position of the cards. */
  vertical(direction) {
    const here = this.cards[this.selected].item.getBoundingClientRect();
    let best = this.selected;
    let distance = Infinity;
    for (const [position, card] of this.cards.entries()) {
      const there = card.item.getBoundingClientRect();
      const down = (there.top - here.top) * direction;
      if (down < here.height / 3) continue;
      const far = down + Math.abs(there.left - here.left) * 2;
      if (far < distance) [best, distance] = [position, far];
    }
    return best;
  }

  /** The text between two cards, with buttons that leave a place for a picture in it. */
  #between(blocks, { direction, language }) {
    const add = (at) => button("Add a picture", { look: "plus", kind: "plain add", on: { click: () => this.dispatchEvent(new CustomEvent("place", { detail: at })) } });
    const line = ({ kind, text, number, pictures }) => [
      text && h("p", { class: kind, dir: direction, lang: language || undefined }, kind === "item" && `${number === null ? "•" : `${number}.`} `, text),
      pictures.map(({ sha256: id, target: name, alt, path }) => path && thumbnail({ id, name, captions: [alt] }, 256)),
    ];
    return h("li", { class: "between" }, blocks.map((block) => [add(block.at), line(block)]), add(blocks.at(-1).at + 1));
  }

  /** The field for the words of a place; what is typed is saved when it is left. */
  #asked(position, plate) {
    const field = h("textarea", { class: "asked", rows: 2, maxlength: 400, placeholder: "What is to be seen", "aria-label": `What is to be seen at step ${position + 1}` });
    const known = () => asked(this.store.board.story, position);
    field.addEventListener("focus", () => this.select(position));
    field.addEventListener("change", () => {
      const text = field.value.trim();
      if (text !== known()) this.dispatchEvent(new CustomEvent("asked", { detail: { step: position, text } }));
    });
    field.addEventListener("keydown", (event) => {
      if (!["Enter", "Escape"].includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key === "Escape") field.value = known();
      plate.focus();
    });
    return field;
  }

  #card(position) {
    const plate = h("button", { type: "button", class: "plate", draggable: DRAGGABLE, data: { step: position } });
    const another = button("Try another", { look: "again", bare: true, kind: "plain another", title: "Try another (T)" });
    another.tabIndex = -1;
    const lock = button("Lock", { look: "unlock", bare: true, kind: "plain lock" });
    lock.tabIndex = -1;
    const more = button(`More for step ${position + 1}`, { look: "more", bare: true, kind: "plain card-more", title: "More", "aria-haspopup": "dialog" });
    more.tabIndex = -1;
    const text = h("div", { class: "words" });
    const fitting = h("span", { class: "fitting", "aria-hidden": "true" });
    const item = h("li", { class: "step", data: { step: position } }, h("div", { class: "frame" }, plate, fitting, another, lock, more), text);
    plate.addEventListener("click", () => {
      this.select(position);
      this.dispatchEvent(new CustomEvent("open", { detail: position }));
    });
    plate.addEventListener("focus", () => {
      if (this.selected !== position) this.select(position);
    });
    text.addEventListener("click", () => {
      if (!String(getSelection())) this.select(position);
    });
    another.addEventListener("click", () => this.dispatchEvent(new CustomEvent("another", { detail: { step: position, control: another } })));
    lock.addEventListener("click", () => this.dispatchEvent(new CustomEvent("lock", { detail: position })));
    const menu = (at) => this.dispatchEvent(new CustomEvent("more", { detail: { step: position, at } }));
    more.addEventListener("click", () => menu(more));
    plate.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      menu(plate);
    });
    return { item, plate, fitting, another, lock, text, asked: this.#asked(position, plate) };
  }

  #update(position, story, redraw) {
    const { item, plate, fitting, another, lock, text, asked: field } = this.cards[position];
    const step = this.store.step(position);
    const { text: words, choice, state } = step;
    item.dataset.state = state;
    const held = { locked: "locked" }[state] ?? { given: "from the text" }[choice.origin];
    const empty = state === "blank" ? "No picture" : choice.blank === "missing" ? "Picture not found" : "No picture fits";
    const pictures = shownAt(step);
    const seen = pictures.map((picture) => (picture.id === choice.chosen?.picture.id && choice.framing.alt) || described(picture)).join("; ") || empty;
    const gone = this.store.project.missing.includes(position);
    item.toggleAttribute("data-missing", gone);
    const mark = choice.chosen ? fit(choice.probability) : null;
    fitting.hidden = !mark;
    fitting.dataset.fit = mark ?? "";
    put(fitting, mark);
    plate.setAttribute("aria-label", `Step ${position + 1}${held ? `, ${held}` : ""}${mark ? `, ${mark}` : ""}: ${seen}${gone ? ", file missing" : ""}`);
    if (redraw) {
      put(plate, pictures.length ? views(step, 480, this.shape, { loading: position < 9 ? "eager" : "lazy" }) : h("span", { class: "void" }));
    }
    if (!pictures.length) put(plate.firstChild, h("span", {}, empty));
    put(another, icon("again"), h("span", { class: "unseen" }, `Try another picture at step ${position + 1}`));
    lock.hidden = choice.origin === "given" || (!choice.chosen && state !== "blank");
    const fixed = state !== "free";
    put(lock, icon(fixed ? "lock" : "unlock"), h("span", { class: "unseen" }, `${fixed ? "Unlock" : "Lock"} step ${position + 1}`));
    lock.title = fixed ? "Locked: limner leaves this step alone. Unlock (L)" : "Lock this picture (L)";
    lock.setAttribute("aria-pressed", String(fixed));
    const place = asked(story, position);
    item.classList.toggle("place", place !== undefined);
    if (place !== undefined) {
      if (!text.contains(field)) put(text, h("h2", {}, h("span", { class: "number" }, h("span", { class: "unseen" }, "Step "), position + 1)), field);
      if (document.activeElement !== field) field.value = place;
      field.dir = story.direction;
      return;
    }
    put(
      text,
      h("h2", {}, h("span", { class: "number" }, h("span", { class: "unseen" }, "Step "), position + 1), words.title && words.title !== story.steps[position - 1]?.title && h("span", { class: "title", dir: "auto" }, words.title)),
      h("p", { dir: story.direction, lang: story.language || undefined }, words.text.replace(MARKER, "")),
    );
  }

  #flash(item) {
    item.classList.remove("changed");
    void item.offsetWidth; // Restarts the animation if it is still running.
    item.classList.add("changed");
    item.addEventListener("animationend", () => item.classList.remove("changed"), { once: true });
  }
}
