// A grid of any number of pictures: only cells near the viewport exist, and only the pages that they need are loaded.
// If sorted by time, it has a heading for each month.

import { h, put } from "./dom.js";
import { described, gone, shape, thumbnail } from "./pictures.js";

const PAGE = 200;
const GAP = 8;
const HEADING = 48;
const SPARE_ROWS = 3;

export class Wall extends EventTarget {
  #pages = new Map();
  #cells = new Map();
  #asking = new AbortController();
  #frame = 0;
  #at = 0;
  #last = null;

  /**
   * @param {HTMLElement} place
   * @param {(offset: number, limit: number, signal: AbortSignal) => Promise<{total: number, items: object[], months?: object}>} read
   */
  constructor(place, read) {
    super();
    this.place = place;
    this.read = read;
    this.total = 0;
    this.shape = 4 / 3;
    this.months = [];
    /** Selected pictures by id. */
    this.selected = new Map();
    this.headings = h("div", { class: "months" });
    place.before(this.headings);
    place.setAttribute("role", "list");
    place.setAttribute("aria-label", "Pictures");
    const later = () => {
      this.#frame ||= requestAnimationFrame(() => {
        this.#frame = 0;
        this.#draw();
      });
    };
    addEventListener("scroll", later, { passive: true });
    new ResizeObserver(later).observe(place);
    place.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Start again from the first picture, after a change of the filters or the library. */
  async reset() {
    this.#asking.abort();
    this.#asking = new AbortController();
    this.#pages.clear();
    for (const cell of this.#cells.values()) cell.remove();
    this.#cells.clear();
    this.#at = 0;
    this.#last = null;
    this.total = 0;
    this.months = [];
    await this.#page(0);
    this.shape = shape(this.#pages.get(0) ?? []);
    this.#draw();
  }

  /** The picture at an index, from 0; null if there is none. */
  async at(index) {
    if (index < 0 || index >= this.total) return null;
    const number = Math.floor(index / PAGE);
    for (let tries = 0; tries < 100; tries++) {
      await this.#page(number);
      const page = this.#pages.get(number);
      if (page) return page[index % PAGE] ?? null;
      await new Promise((done) => setTimeout(done, 50));
    }
    return null;
  }

  /** Focus an index, and scroll it into view. */
  focus(index) {
    return this.#goTo(index);
  }

  /** Update a picture whose caption has changed. */
  replace(picture) {
    for (const [number, page] of this.#pages) {
      const place = page?.findIndex((one) => one.id === picture.id) ?? -1;
      if (place < 0) continue;
      page[place] = picture;
      const cell = this.#cells.get(number * PAGE + place);
      if (!cell) continue;
      cell.title = described(picture);
      cell.querySelector("img").alt = described(picture);
    }
  }

  /** Whether a click selects a picture instead of opening it. */
  set selecting(on) {
    this.picking = on;
    this.#last = null;
    if (!on) this.selected.clear();
    for (const [index, cell] of this.#cells) this.#press(cell, this.#picture(index));
    this.dispatchEvent(new Event("selected"));
  }

  #picture(index) {
    return this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  #press(cell, picture) {
    if (this.picking) cell.setAttribute("aria-pressed", String(this.selected.has(picture?.id)));
    else cell.removeAttribute("aria-pressed");
  }

  /** Select or deselect a picture; with `through`, all from the one clicked before. */
  #select(index, through) {
    const on = !this.selected.has(this.#picture(index).id);
    const from = through && this.#last !== null ? this.#last : index;
    for (let at = Math.min(from, index); at <= Math.max(from, index); at++) {
      const picture = this.#picture(at);
      if (!picture) continue;
      if (on) this.selected.set(picture.id, picture);
      else this.selected.delete(picture.id);
      if (this.#cells.has(at)) this.#press(this.#cells.get(at), picture);
    }
    this.#last = index;
    this.dispatchEvent(new Event("selected"));
  }

  #layout() {
    const width = this.place.clientWidth;
    const columns = Math.max(3, Math.floor((width + GAP) / (176 + GAP)));
    const wide = (width - GAP * (columns - 1)) / columns;
    const high = wide / this.shape;
    const row = high + GAP;
    let [first, top] = [0, 0];
    const sections = (this.months.length ? this.months : [[null, this.total]]).map(([month, count]) => {
      const begin = top + (month === null ? 0 : HEADING);
      const section = { month, first, count, top, begin, end: begin + Math.ceil(count / columns) * row };
      [first, top] = [first + count, section.end];
      return section;
    });
    return { columns, wide, high, row, sections };
  }

  /** Position of an index: its column, and its distance from the top. */
  #spot({ columns, row, sections }, index) {
    const { first, begin } = sections.findLast((section) => section.first <= index);
    return { column: (index - first) % columns, top: begin + Math.floor((index - first) / columns) * row };
  }

  #draw() {
    const layout = this.#layout();
    const { columns, wide, high, row, sections } = layout;
    if (wide <= 0) return;
    this.place.style.height = `${Math.max(0, sections.at(-1).end - GAP)}px`;
    const top = -this.place.getBoundingClientRect().top - SPARE_ROWS * row;
    const bottom = top + innerHeight + 2 * SPARE_ROWS * row;
    const near = sections.filter((section) => section.end > top && section.top < bottom);
    put(this.headings, near.filter(({ month }) => month !== null).map((section) => heading(section)));
    const wanted = new Set();
    for (const { first, count, begin } of near) {
      const last = Math.min(count, Math.max(0, Math.ceil((bottom - begin) / row)) * columns);
      for (let at = Math.max(0, Math.floor((top - begin) / row)) * columns; at < last; at++) wanted.add(first + at);
    }
    for (const [index, cell] of this.#cells) {
      if (!wanted.has(index) && cell !== document.activeElement) {
        cell.remove();
        this.#cells.delete(index);
      }
    }
    for (const index of wanted) {
      const picture = this.#picture(index);
      if (!picture) {
        this.#page(Math.floor(index / PAGE)).then((fresh) => fresh && this.#draw());
        continue;
      }
      let cell = this.#cells.get(index);
      if (!cell) {
        cell = this.#cell(picture, index);
        this.#cells.set(index, cell);
        this.#insert(cell, index);
      }
      cell.style.width = `${wide}px`;
      cell.style.height = `${high}px`;
      const spot = this.#spot(layout, index);
      cell.style.transform = `translate(${spot.column * (wide + GAP)}px, ${spot.top}px)`;
    }
  }

  #cell(picture, index) {
    const open = h("button", { type: "button", class: "cell", tabindex: index === this.#at ? 0 : -1, title: described(picture) }, thumbnail(picture, 192), gone(picture));
    this.#press(open, picture);
    open.addEventListener("click", ({ shiftKey }) => (this.picking ? this.#select(index, shiftKey) : this.dispatchEvent(new CustomEvent("open", { detail: { picture: this.#picture(index) ?? picture, index } }))));
    const item = h("div", { role: "listitem", "aria-setsize": this.total, "aria-posinset": index + 1, data: { index } }, open);
    item.style.display = "contents";
    return Object.assign(open, { item, remove: () => item.remove() });
  }

  /** Cells are in reading order in the document, whatever order they were loaded in. */
  #insert(cell, index) {
    const after = [...this.place.children].find((other) => Number(other.dataset.index) > index);
    this.place.insertBefore(cell.item, after ?? null);
  }

  #page(number) {
    if (this.#pages.has(number)) return Promise.resolve(false);
    this.#pages.set(number, null);
    const { signal } = this.#asking;
    return this.read(number * PAGE, PAGE, signal).then(
      (answer) => {
        if (signal.aborted) return false;
        this.#pages.set(number, answer.items);
        this.total = answer.total;
        this.months = Object.entries(answer.months ?? {});
        this.dispatchEvent(new CustomEvent("counted", { detail: answer.total }));
        return true;
      },
      (error) => {
        if (error.name !== "AbortError") {
          this.#pages.delete(number);
          this.dispatchEvent(new CustomEvent("trouble", { detail: error }));
        }
        return false;
      },
    );
  }

  #move(event) {
    const { columns, row } = this.#layout();
    const here = Number(event.target.closest("[data-index]")?.dataset.index);
    const page = Math.max(1, Math.floor(innerHeight / row) - 1) * columns;
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: page, PageUp: -page, Home: -this.total, End: this.total }[event.key];
    if (by === undefined || Number.isNaN(here)) return;
    event.preventDefault();
    this.#goTo(Math.max(0, Math.min(this.total - 1, here + by)));
  }

  async #goTo(index) {
    const layout = this.#layout();
    const { row } = layout;
    const before = this.#cells.get(this.#at);
    if (before) before.tabIndex = -1;
    this.#at = index;
    const top = this.place.getBoundingClientRect().top + scrollY + this.#spot(layout, index).top;
    const margin = Math.max(80, parseFloat(getComputedStyle(this.place).scrollMarginBlockStart) || 0);
    if (top < scrollY + margin) scrollTo({ top: top - margin, behavior: "instant" });
    else if (top + row > scrollY + innerHeight) scrollTo({ top: top + row - innerHeight + GAP, behavior: "instant" });
    await this.#page(Math.floor(index / PAGE));
    for (let tries = 0; tries < 40 && this.#at === index; tries++) {
      this.#draw();
      const cell = this.#cells.get(index);
      if (cell) {
        cell.tabIndex = 0;
        cell.focus({ preventScroll: true });
        return;
      }
      await new Promise((done) => setTimeout(done, 50));
    }
  }
}

/** "July 2023", or "Date unknown", above the pictures of a month. */
function heading({ month, top, count }) {
  const words = month ? new Date(`${month}-01T12:00:00`).toLocaleDateString("en", { month: "long", year: "numeric" }) : "Date unknown";
  const made = h("h2", {}, words, h("span", { class: "quiet numbers" }, ` ${count.toLocaleString("en")}`));
  made.style.transform = `translateY(${top}px)`;
  return made;
}
