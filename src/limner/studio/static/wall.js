// A wall of any number of pictures: only the cells near the view exist, and only the pages they need are asked for.

import { h } from "./dom.js";
import { described, gone, shape, thumbnail } from "./pictures.js";

const PAGE = 200;
const GAP = 8;
const SPARE_ROWS = 3;

export class Wall extends EventTarget {
  #pages = new Map();
  #cells = new Map();
  #asking = new AbortController();
  #frame = 0;
  #at = 0;

  /**
   * @param {HTMLElement} place
   * @param {(offset: number, limit: number, signal: AbortSignal) => Promise<{total: number, items: object[]}>} read
   */
  constructor(place, read) {
    super();
    this.place = place;
    this.read = read;
    this.total = 0;
    this.shape = 4 / 3;
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

  /** Start again from the first picture, after a filter or a change of the library. */
  async reset() {
    this.#asking.abort();
    this.#asking = new AbortController();
    this.#pages.clear();
    for (const cell of this.#cells.values()) cell.remove();
    this.#cells.clear();
    this.#at = 0;
    this.total = 0;
    await this.#page(0);
    this.shape = shape(this.#pages.get(0) ?? []);
    this.#draw();
  }

  /** The picture at a place, from 0; null where there is none. */
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

  /** Put the keyboard on a place, and the place in view. */
  focus(index) {
    return this.#goTo(index);
  }

  /** A picture has other words now. */
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

  #layout() {
    const width = this.place.clientWidth;
    const columns = Math.max(3, Math.floor((width + GAP) / (176 + GAP)));
    const wide = (width - GAP * (columns - 1)) / columns;
    const high = wide / this.shape;
    return { columns, wide, high, row: high + GAP };
  }

  #draw() {
    const { columns, wide, high, row } = this.#layout();
    if (wide <= 0) return;
    const rows = Math.ceil(this.total / columns);
    this.place.style.height = `${Math.max(0, rows * row - GAP)}px`;
    const top = -this.place.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / row) - SPARE_ROWS) * columns;
    const last = Math.min(this.total, (Math.ceil((top + innerHeight) / row) + SPARE_ROWS) * columns);
    for (const [index, cell] of this.#cells) {
      if ((index < first || index >= last) && cell !== document.activeElement) {
        cell.remove();
        this.#cells.delete(index);
      }
    }
    for (let index = first; index < last; index++) {
      const picture = this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE];
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
      cell.style.transform = `translate(${(index % columns) * (wide + GAP)}px, ${Math.floor(index / columns) * row}px)`;
    }
  }

  #cell(picture, index) {
    const open = h("button", { type: "button", class: "cell", tabindex: index === this.#at ? 0 : -1, title: described(picture) }, thumbnail(picture, 192), gone(picture));
    open.addEventListener("click", () => this.dispatchEvent(new CustomEvent("open", { detail: { picture: this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? picture, index } })));
    const item = h("div", { role: "listitem", "aria-setsize": this.total, "aria-posinset": index + 1, data: { index } }, open);
    item.style.display = "contents";
    return Object.assign(open, { item, remove: () => item.remove() });
  }

  /** Cells stay in reading order in the document, whatever order they came in. */
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
    const { columns, row } = this.#layout();
    const before = this.#cells.get(this.#at);
    if (before) before.tabIndex = -1;
    this.#at = index;
    const top = this.place.getBoundingClientRect().top + scrollY + Math.floor(index / columns) * row;
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
