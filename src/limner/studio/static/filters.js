// Filters of the library page: folder, time, shape, use, captions and day. They are part of the page's URL.

import { api } from "./api.js";
import { button, h, icon, put } from "./dom.js";
import { name } from "./pictures.js";

const BATCH = /[\\/](\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)\d\d-[0-9a-f]{6}(?:[\\/](.+))?$/;
const SHAPES = { landscape: "Wide", portrait: "Upright", square: "Square" };
const number = (count) => ` (${count.toLocaleString("en")})`;
const month = (stamp, options) => new Date(`${stamp}-01T12:00:00`).toLocaleDateString("en", options);

export class Filters extends EventTarget {
  /** @param {HTMLElement} place */
  constructor(place) {
    super();
    this.folder = select("Folder");
    this.taken = select("Taken");
    this.shape = select("Shape");
    this.used = select("Use");
    this.captioned = select("Captions");
    this.selects = [this.folder, this.taken, this.shape, this.used, this.captioned];
    this.day = null;
    this.chips = h("span", { class: "chips" });
    this.none = button("Show all", { kind: "plain", on: { click: () => this.clear() } });
    // On a phone the filters are shown on request, so that pictures are visible at first.
    const unfold = (this.unfold = button("Filters", { look: "settings", kind: "unfold", "aria-expanded": "false", on: { click: () => unfold.setAttribute("aria-expanded", String(place.classList.toggle("unfolded"))) } }));
    put(place, unfold, this.chips, this.selects.map((one) => one.label), this.none);
    for (const one of this.selects) {
      one.addEventListener("change", () => {
        this.#say();
        this.chips.lastElementChild?.focus();
      });
    }
    this.wanted = new URLSearchParams(location.search);
    if (this.wanted.get("occasion")) this.day = { id: this.wanted.get("occasion") };
    this.#mark();
  }

  /** Query parameters of the pictures to show. */
  values() {
    const [after, before] = this.taken.value.includes("-") || /^\d{4}$/.test(this.taken.value) ? span(this.taken.value) : [];
    const dated = this.taken.value === "none" ? "false" : undefined;
    return { folder: this.folder.value, after, before, dated, shape: this.shape.value, used: this.used.value, captioned: this.captioned.value, occasion: this.day?.id };
  }

  /** Whether any filter is set. */
  get any() {
    return Boolean(this.day) || this.selects.some((one) => one.value);
  }

  /** Show only pictures taken on the day of one; remove all other filters. */
  occasion(picture) {
    for (const one of this.selects) one.value = "";
    this.day = picture;
    this.#say();
  }

  clear() {
    for (const one of this.selects) one.value = "";
    this.day = null;
    this.#say();
    (this.folder.checkVisibility() ? this.folder : this.unfold).focus();
  }

  /** Update the values of the filters; the selected ones remain. */
  async refresh() {
    const facets = await api.facets();
    const chosen = (key, one) => this.wanted?.get(key) ?? one.value;
    const before = { folder: chosen("folder", this.folder), taken: chosen("taken", this.taken), shape: chosen("shape", this.shape), used: chosen("used", this.used), captioned: chosen("captioned", this.captioned) };
    this.wanted = null;
    fill(this.folder, "Any folder", folders(facets.folders));
    fill(this.taken, "Any time", times(facets.months, facets.undated));
    fill(this.shape, "Any shape", Object.entries(SHAPES).filter(([key]) => facets.shapes[key]).map(([key, words]) => [key, words + number(facets.shapes[key])]));
    fill(this.used, "Used or not", [["true", `Used in a storyboard${number(facets.used)}`], ["false", "Not used yet"]]);
    fill(this.captioned, "With or without captions", [["false", `Without captions${number(facets.uncaptioned)}`], ["true", "With captions"]]);
    this.taken.label.hidden = !Object.keys(facets.months).length;
    this.folder.label.hidden = this.folder.options.length < 3;
    for (const [key, value] of Object.entries(before)) this[key].value = [...this[key].options].some((one) => one.value === value) ? value : "";
    if (this.day && !this.day.name) this.day = await api.picture(this.day.id).catch(() => null);
    this.#mark();
    return before;
  }

  #say() {
    keepInAddress({ folder: this.folder.value, taken: this.taken.value, shape: this.shape.value, used: this.used.value, captioned: this.captioned.value, occasion: this.day?.id ?? "" });
    this.#mark();
    this.dispatchEvent(new Event("change"));
  }

  #mark() {
    for (const one of this.selects) one.label.classList.toggle("set", Boolean(one.value));
    this.none.hidden = !this.any;
    const set = this.selects.filter((one) => one.value);
    put(this.chips, set.map((one) => this.#chip(one.selectedOptions[0]?.textContent.trim(), () => (one.value = ""), one)), this.day && this.#chip(["Taken on the same day as ", h("bdi", {}, this.day.name ? name(this.day) : "a picture")], () => (this.day = null), this.folder));
  }

  /** The active filters; a click removes one. */
  #chip(words, drop, next) {
    const click = () => {
      drop();
      this.#say();
      (next.checkVisibility() ? next : this.unfold).focus();
    };
    return h("button", { type: "button", class: "chip", title: "Remove this filter", on: { click } }, h("span", { class: "unseen" }, "Remove filter: "), words, icon("close"));
  }
}

/** Store values in the page's URL, so that it can be reloaded; empty ones are removed. */
export function keepInAddress(values) {
  const kept = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(values)) value ? kept.set(key, value) : kept.delete(key);
  history.replaceState(null, "", `${location.pathname}${kept.size ? `?${kept}` : ""}${location.hash}`);
}

function select(words) {
  const made = h("select", { "aria-label": words });
  made.label = h("label", { class: "filter" }, h("span", { class: "unseen" }, words), made);
  return made;
}

function fill(select, all, options) {
  put(select, h("option", { value: "" }, all), options.map(([value, words]) => h("option", { value }, words)));
}

/** Folders below their parents; an upload's folder is labelled with its time. */
function folders(counts) {
  const paths = Object.keys(counts);
  const around = (path) => paths.filter((other) => other !== path && path.startsWith(other.endsWith("/") ? other : `${other}/`));
  return paths.map((path) => {
    const outer = around(path);
    const inside = outer.length ? path.slice(outer.reduce((one, other) => (other.length > one.length ? other : one)).length).replace(/^[\\/]/, "") : path.split(/[\\/]/).filter(Boolean).pop() ?? path;
    const time = BATCH.exec(path);
    const words = time ? brought(time) : paths.some((other) => other.startsWith(path) && BATCH.test(other.slice(path.length))) ? "Added in the studio" : inside;
    return [path, `${"\u2003".repeat(outer.length)}${words}${number(counts[path])}`];
  });
}

/** "Added Nov 23, 2026, 2:32 PM", and the uploaded folder. */
function brought([, year, number, day, hour, minute, folder]) {
  const time = new Date(Date.UTC(year, number - 1, day, hour, minute)).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
  return `Added ${time}${folder ? ` · ${folder}` : ""}`;
}

/** Years with their months, and pictures without a date. */
function times(months, undated) {
  const years = new Map();
  for (const [stamp, count] of Object.entries(months)) {
    const year = stamp.slice(0, 4);
    if (!years.has(year)) years.set(year, []);
    years.get(year).push([stamp, count]);
  }
  const listed = [...years].reverse().flatMap(([year, own]) => [
    [year, year + number(own.reduce((sum, [, count]) => sum + count, 0))],
    ...own.reverse().map(([stamp, count]) => [stamp, `\u2003${month(stamp, { month: "long", year: "numeric" })}${number(count)}`]),
  ]);
  return undated ? [...listed, ["none", `Date unknown${number(undated)}`]] : listed;
}

/** First and last day of a year or a month. */
function span(stamp) {
  if (stamp.length === 4) return [`${stamp}-01-01`, `${stamp}-12-31`];
  const [year, number] = stamp.split("-").map(Number);
  return [`${stamp}-01`, `${stamp}-${new Date(Date.UTC(year, number, 0)).getUTCDate()}`];
}
