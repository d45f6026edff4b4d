// Candidates for a step: those of limner, results of a search, or pictures similar to another.

import { api, items } from "./api.js";
import { DRAGGABLE } from "./carrying.js";
import { announce, button, count, h, problem, put } from "./dom.js";
import { singleKeys } from "./help.js";
import { credit, described, name, shape, thumbnail, words } from "./pictures.js";

const FIRST = 40;
const MOST = 200;
const DIGITS = 9;
const WAITING = 9;

export class Offers extends EventTarget {
  /**
   * @param {import("./store.js").Store} store
   * @param {import("./carrying.js").Carrying} carrying
   */
  constructor(store, carrying) {
    super();
    this.store = store;
    this.carrying = carrying;
    this.step = 0;
    this.limit = FIRST;
    this.query = "";
    this.like = null;
    this.day = null;
    this.found = [];
    this.of = null;
    this.field = h("input", { type: "search", id: "search", placeholder: "Search by words", autocomplete: "off", dir: "auto", "aria-label": "Search pictures by words", "aria-controls": "offers" });
    this.chip = h("div", { class: "chip", hidden: true });
    this.state = h("p", { class: "quiet small", id: "offers-state", role: "status" });
    this.list = h("ol", { class: "offers", id: "offers", "aria-label": "Candidates", "aria-describedby": "offers-state" });
    this.more = button("Show more", { kind: "more", on: { click: () => this.#more() } });
    this.more.hidden = true;
    this.telling = h("div", { class: "telling small", "aria-hidden": "true" });
    this.element = h("div", { class: "offering" }, h("div", { class: "search" }, this.field), this.chip, this.state, this.list, this.more, this.telling);
    let timer = 0;
    this.field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.ask({ query: this.field.value.trim(), like: null }), 250);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        clearTimeout(timer);
        this.ask({ query: this.field.value.trim(), like: null });
      } else if (event.key === "ArrowDown") {
        event.preventDefault();
        this.focus();
      }
    });
    this.list.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Show a step; a search belongs to its step and ends with it. */
  show(step) {
    if (step !== this.step) {
      this.step = step;
      this.query = "";
      this.like = null;
      this.day = null;
      this.limit = FIRST;
      this.field.value = "";
      this.found = [];
      put(this.list, Array.from({ length: WAITING }, () => h("li", { class: "waiting", "aria-hidden": "true" })));
      put(this.telling);
      put(this.state, "Looking for pictures …");
    }
    return this.load();
  }

  /** Search: by words, by a similar picture, by a day, or by none of these for limner's candidates. */
  ask({ query = "", like = null, day = null }) {
    this.query = query;
    this.like = like;
    this.day = day;
    this.limit = FIRST;
    if (like || day) this.field.value = "";
    return this.load().then(() => {
      if (query || like || day) announce(`${count(this.found.length, "picture")}. ${this.state.textContent}`);
    });
  }

  /** Focus the first picture. */
  focus() {
    this.list.querySelector(".offer")?.focus();
  }

  /** Ids of all candidates shown, best first, among which a choice is made. */
  get seen() {
    return this.found.map((candidate) => candidate.picture.id);
  }

  /** Step and revision of the candidates; null until they are loaded, and while a change is being saved. */
  get offer() {
    const { of, store } = this;
    return of && of.step === this.step && of.revision === store.project.revision && !store.pending ? of : null;
  }

  /** Use the n-th candidate, from 0, even while a change is being saved. */
  take(number) {
    if (!this.found.length) announce("The candidates for this step are still loading.");
    else if (this.found[number]) this.dispatchEvent(new CustomEvent("choose", { detail: this.found[number].picture.id }));
  }

  async load() {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const of = { step: this.step, revision: this.store.project.revision };
    this.of = null;
    this.#chip();
    this.list.setAttribute("aria-busy", "true");
    const { relation } = this.store.step(this.step);
    try {
      const answer = this.like
        ? await api.search({ picture: this.like.id, limit: this.limit }, asking.signal)
        : this.day
          ? await api.search({ occasion: this.day.id, limit: this.limit }, asking.signal)
        : this.query
          ? await api.search({ text: this.query, limit: this.limit, relation: relation ?? undefined }, asking.signal)
          : await api.candidates(this.store.id, this.step, { limit: this.limit, relation }, asking.signal);
      if (asking.signal.aborted) return;
      this.found = items(answer);
      this.of = { ...of, revision: answer.revision ?? of.revision };
      if (this.of.revision > this.store.project.revision) this.store.refresh().catch(() => {});
      this.note = answer.note;
      this.#draw();
    } catch (error) {
      if (error.name !== "AbortError") {
        this.found = [];
        this.of = null;
        put(this.list, h("li", { class: "whole" }, problem(error, () => this.load())));
        put(this.state);
        if (error.status === 422) this.store.refresh().catch(() => {}); // The step may no longer exist.
      }
    } finally {
      if (this.asking === asking) {
        this.list.removeAttribute("aria-busy");
        this.dispatchEvent(new Event("loaded"));
      }
    }
  }

  #draw() {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.picture : null;
    const shown = this.store.shown();
    this.list.style.setProperty("--shape", shape(this.found.map((candidate) => candidate.picture)).toFixed(3));
    put(this.list, this.found.map((candidate, rank) => this.#offer(candidate, rank, shown)));
    if (focused) (this.list.querySelector(`[data-picture="${CSS.escape(focused)}"] .offer`) ?? this.list.querySelector(".offer"))?.focus();
    const number = this.found.length;
    const told = this.query ? `Best matches for “${this.query}”` : this.like ? "Most similar first" : this.day ? "Taken on the same day, in chronological order" : `Best matches first. ${matchMedia("(hover: none)").matches ? "Tap" : "Click"} to use.`;
    put(this.state, number ? told : this.query ? `No results for “${this.query}”${this.note ? `: ${this.note}` : "."}` : "No other matches.");
    this.more.hidden = number < this.limit || this.limit >= MOST;
  }

  #offer(candidate, rank, shown) {
    const picture = candidate.picture;
    const at = shown.get(picture.id);
    const here = at === this.step;
    const digit = rank < DIGITS && singleKeys() ? String(rank + 1) : undefined;
    const place = here ? ", shown here" : at === undefined ? "" : `, shown at step ${at + 1}`;
    const take = h(
      "button",
      { type: "button", class: "offer", draggable: DRAGGABLE, tabindex: rank === 0 ? 0 : -1, "aria-label": `${described(picture)}${place}`, "aria-current": here ? "true" : undefined, "aria-keyshortcuts": digit },
      thumbnail(picture, 128, { alt: "" }),
      digit && h("span", { class: "digit", "aria-hidden": "true" }, digit),
      at !== undefined && h("span", { class: here ? "here" : "there", "aria-hidden": "true" }, here ? "In use" : at + 1),
    );
    take.addEventListener("click", () => this.take(rank));
    const menu = () => this.dispatchEvent(new CustomEvent("more", { detail: { picture, at: more } }));
    const more = button(`More for ${name(picture)}`, { look: "more", bare: true, kind: "tiny", title: "More", "aria-haspopup": "dialog", tabindex: -1, on: { click: menu } });
    take.addEventListener("dragstart", (event) => this.carrying.start(event, { kind: "picture", id: picture.id }, take.querySelector("img")));
    const item = h(
      "li",
      { data: { picture: picture.id } },
      take,
      more,
    );
    take.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      menu();
    });
    const tell = () => put(this.telling, h("bdi", {}, words(picture)[0] ?? name(picture)), h("span", { class: "quiet" }, `${name(picture)} · ${credit(picture)}`));
    item.addEventListener("pointerenter", tell);
    item.addEventListener("focusin", tell);
    return item;
  }

  /** The focused picture. */
  current() {
    const id = document.activeElement?.closest?.("#offers li")?.dataset.picture;
    return this.found.find((candidate) => candidate.picture.id === id)?.picture ?? null;
  }

  #chip() {
    const about = this.like ?? this.day;
    this.chip.hidden = !about;
    if (!about) return;
    const back = button("Back to the candidates", { look: "close", bare: true, kind: "tiny plain", on: { click: () => { this.ask({}); this.field.focus(); } } });
    put(this.chip, thumbnail(about, 64, { alt: "" }), h("span", {}, this.like ? "Like " : "From the day of ", h("bdi", {}, name(about))), back);
  }

  #more() {
    this.limit = Math.min(MOST, this.limit * 2);
    this.load();
  }

  #move(event) {
    const offers = [...this.list.querySelectorAll(".offer")];
    const here = offers.indexOf(event.target.closest("li")?.querySelector(".offer"));
    if (here < 0) return;
    const top = offers[0].getBoundingClientRect().top;
    const columns = Math.max(1, offers.filter((offer) => Math.abs(offer.getBoundingClientRect().top - top) < 4).length);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -offers.length, End: offers.length };
    const by = steps[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "ArrowUp" && here < columns) return this.field.focus();
    const next = offers[Math.max(0, Math.min(offers.length - 1, here + by))];
    for (const offer of offers) offer.tabIndex = offer === next ? 0 : -1;
    next.focus();
  }
}
