// Text of the selected step, edited in place, and its steps: split, merged, added, moved, removed.

import { asked } from "./board.js";
import { announce, button, h, icon, put } from "./dom.js";
import { drafts, keepDraft } from "./drafts.js";
import { undoable } from "./store.js";

const points = (text) => [...text].length;
const same = (one, other) => one.text === other.text && (one.title ?? "") === (other.title ?? "");

export class Wording extends EventTarget {
  /**
   * @param {import("./store.js").Store} store
   * @param {import("./board.js").Board} board
   */
  constructor(store, board) {
    super();
    this.store = store;
    this.board = board;
    this.step = 0;
    const act = (words, run, key) => h("button", { type: "button", title: key && `${words} (${key})`, on: { click: () => { this.menu.open = false; run.call(this); } } }, words, key && h("kbd", { "aria-hidden": "true" }, key));
    this.acts = {
      split: act("Split this step …", this.open, "E"),
      merge: act("Merge with the next step", this.merge, "J"),
      up: act("Move up", () => this.move(-1), "Alt ↑"),
      down: act("Move down", () => this.move(1), "Alt ↓"),
      remove: act("Remove this step", this.remove, "Del"),
    };
    this.menu = h("details", { class: "menu" }, h("summary", { class: "button plain square", title: "Change steps" }, icon("more"), h("span", { class: "unseen" }, "Change steps")), h("div", { class: "step-acts" }, this.acts.split, this.acts.merge, act("Add a step before", () => this.open("insert-before"), "Shift N"), act("Add a step after", () => this.open("insert-after"), "N"), act("Add a picture before", () => this.place(0), "Shift P"), act("Add a picture after", () => this.place(1), "P"), this.acts.up, this.acts.down, this.acts.remove));
    this.menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.menu.open) return;
      event.stopPropagation();
      this.menu.open = false;
      this.menu.querySelector("summary").focus();
    });
    document.addEventListener("pointerdown", (event) => this.menu.contains(event.target) || (this.menu.open = false));
    this.start = button("Edit the text of this step", { look: "name", bare: true, kind: "plain", title: "Edit the text of this step (E)", on: { click: () => this.open() } });
    this.tools = h("div", { class: "rewording" }, this.start, this.menu);
    this.element = h("div", { class: "wording" });
    this.rest = h("div", { class: "unfinished" });
  }

  get editing() {
    return Boolean(this.form);
  }

  /** Turn to a step; words that are being written for another are kept first. */
  show(step) {
    if (step !== this.step && this.editing) this.field.value.trim() ? this.keep() : this.leave();
    this.step = step;
    const last = this.store.board.steps.length - 1;
    const [place, next] = [step, step + 1].map((at) => asked(this.store.board.story, at) !== undefined);
    this.acts.split.disabled = place;
    this.acts.merge.disabled = step === last || place || next;
    this.acts.up.disabled = step === 0;
    this.acts.down.disabled = step === last;
    this.acts.remove.disabled = last === 0;
    const left = this.editing ? [] : this.unfinished().filter((one) => one.step === step);
    put(
      this.rest,
      left.map(({ name, how, words }) =>
        h("div", { class: "row" }, h("p", { class: "small clipped", dir: "auto" }, `Not saved: ${words.text || words.title}`), button("Go on", { on: { click: () => this.open(how) } }), button("Discard", { kind: "plain", on: { click: () => this.#drop(name) } })),
      ),
    );
  }

  /** Words that were typed and not saved, each at the step that it was typed for, or stands where that was. */
  unfinished() {
    const sending = new Set(this.store.waiting.map((one) => one.draft));
    const steps = this.store.board.story.steps;
    return drafts(`${this.store.id}.step.`).filter(([name]) => !sending.has(name)).map(([name, { how, step, was, words }]) => {
      const places = steps.flatMap((one, at) => (same(one, was) ? [at] : []));
      const nearest = places.sort((one, other) => Math.abs(one - step) - Math.abs(other - step))[0];
      return { name, how, words, step: nearest ?? Math.min(step, steps.length - 1) };
    }).sort((one, other) => one.step - other.step);
  }

  #drop(name) {
    keepDraft(name, null);
    this.#drafted();
    this.start.focus();
  }

  #drafted() {
    this.show(this.step);
    this.dispatchEvent(new Event("drafted"));
  }

  /** Keep in the browser what is in the field, as long as it says something else than the step. */
  #draft() {
    const { text } = this.store.step(this.step);
    const words = { text: this.field.value, title: this.heading.value };
    const idle = this.how === "reword" ? same(words, text) : !words.text.trim() && !words.title.trim();
    keepDraft(this.draft, idle ? null : { how: this.how, step: this.step, was: { text: text.text, title: text.title }, words });
    put(this.cancel, idle ? "Cancel" : "Discard");
    this.cancel.title = idle ? "Keep the text unchanged" : "Discard what you typed; Esc keeps it for later";
  }

  /** Open the field; `how` adds a step and names where. */
  open(how = "reword") {
    if (this.editing) return this.field.focus();
    if (how === "reword" && asked(this.store.board.story, this.step) !== undefined) return this.#ask(this.step);
    const adds = how.startsWith("insert");
    const { text } = this.store.step(this.step);
    const { direction, language } = this.store.board.story;
    this.how = how;
    const known = this.unfinished().find((one) => one.step === this.step && one.how === how);
    this.draft = known?.name ?? `${this.store.id}.step.${how}.${Date.now().toString(36)}`;
    this.heading = h("input", { type: "text", id: "step-title", maxlength: 500, dir: "auto" });
    this.heading.value = known?.words.title ?? (adds ? "" : (text.title ?? ""));
    this.field = h("textarea", { id: "step-text", rows: 6, dir: direction, lang: language || undefined, class: "writing", maxlength: 100000 });
    this.field.value = known?.words.text ?? (adds ? "" : text.text);
    this.cancel = button("Cancel", { on: { click: () => this.leave({ discard: true }) } });
    const where = { "insert-before": `New step before step ${this.step + 1}`, "insert-after": `New step after step ${this.step + 1}` }[how];
    this.form = h(
      "form",
      { class: "editing" },
      h("div", { class: "field" }, h("label", { for: "step-title" }, "Heading"), this.heading),
      h("div", { class: "field" }, h("label", { for: "step-text" }, where ?? "Step text"), this.field),
      h(
        "div",
        { class: "actions" },
        !adds && button("Split at the cursor", { title: "Split at the cursor (Ctrl+Shift+Enter)", on: { click: () => this.split() } }),
        this.cancel,
        h("button", { type: "submit", class: "button main", title: "Save (Ctrl+Enter)" }, "Save"),
      ),
    );
    this.form.addEventListener("input", () => this.#draft());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.keep();
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.leave();
      else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.shiftKey && !adds ? this.split() : this.keep();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.tools.hidden = true;
    put(this.element, this.form);
    put(this.rest);
    if (known) this.#draft();
    this.dispatchEvent(new Event("opened"));
    this.field.focus();
    if (!adds) this.field.setSelectionRange(this.field.value.length, this.field.value.length);
  }

  /** Close the field; the words of the step stay as they were, and what was typed is kept unless discarded. */
  leave({ discard = false } = {}) {
    if (discard) keepDraft(this.draft, null);
    this.form = null;
    this.tools.hidden = false;
    put(this.element);
    this.dispatchEvent(new Event("closed"));
    this.#drafted();
    this.start.focus();
  }

  /** What was written, or null where it is as it was. */
  #written() {
    const { text } = this.store.step(this.step);
    const words = this.field.value.replaceAll("\r\n", "\n").trim();
    const title = this.heading.value.trim();
    return words === text.text && title === (text.title ?? "") ? null : { text: words, title };
  }

  async keep() {
    const { how, step } = this;
    const adds = how !== "reword";
    if (!this.field.value.trim()) {
      if (adds) return this.leave({ discard: true });
      announce("A step needs text. To delete it, remove the step.");
      return this.field.focus();
    }
    const written = adds ? { text: this.field.value.trim(), title: this.heading.value.trim() || null } : this.#written();
    const saving = written ? this.store.edit({ kind: how, step, ...written }, { draft: this.draft }) : null;
    this.leave({ discard: !written });
    if (!(await saving)) return;
    if (adds) this.#at(how === "insert-after" ? step + 1 : step);
  }

  async split() {
    const { step } = this;
    const before = this.field.value.slice(0, this.field.selectionStart).replaceAll("\r\n", "\n").trimStart();
    const behind = this.field.value.slice(this.field.selectionStart);
    if (!before.trim() || !behind.trim()) {
      announce("Put the cursor where the step is to be split.");
      return this.field.focus();
    }
    const written = this.#written();
    const saving = written ? this.store.edit({ kind: "reword", step, ...written }, { draft: this.draft }) : null;
    this.leave({ discard: !written });
    if (saving && !(await saving)) return;
    if (await this.store.edit({ kind: "split", step, at: points(before) })) this.#said(`Step ${step + 1} was split in two.`, step);
  }

  async merge() {
    const { step } = this;
    if (step < this.store.board.steps.length - 1 && (await this.store.edit({ kind: "merge", step }))) this.#said(`Steps ${step + 1} and ${step + 2} were merged.`, step);
  }

  async remove() {
    const { step } = this;
    if (this.store.board.steps.length > 1 && (await this.store.edit({ kind: "remove", step }))) this.#said(`Step ${step + 1} was removed.`, step);
  }

  async move(by) {
    const { step } = this;
    const to = step + by;
    if (to < 0 || to >= this.store.board.steps.length || !(await this.store.edit({ kind: "move", step, to }))) return;
    this.#at(to);
    announce(`Step ${step + 1} is step ${to + 1} now.`);
  }

  /** Leave a place for a picture before (0) or after (1) the step, or before a block of the text. */
  async place(side, at = this.store.step(this.step).text.run[side]) {
    const step = this.store.board.story.steps.filter(({ run }) => run[0] < at).length;
    if (await this.store.edit({ kind: "place", at })) this.#ask(step);
  }

  /** Turn to the words of a place, on its card. */
  #ask(step) {
    document.body.classList.remove("panel-open");
    this.board.select(step);
    this.board.cards[step].asked.focus();
  }

  #said(words, step) {
    this.#at(step);
    undoable(this.store, words);
  }

  #at(step) {
    this.board.select(step, { focus: true });
  }
}
