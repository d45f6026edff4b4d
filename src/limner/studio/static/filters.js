// What the wall of the library shows: by folder, time, shape, use, words and day. The address of the page keeps it.

import { api } from "./api.js";
import { button, h, put } from "./dom.js";
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
    this.captioned = select("Words");
    this.selects = [this.folder, this.taken, this.shape, this.used, this.captioned];
    this.day = null;
    this.chip = h("p", { class: "chip", hidden: true });
    this.none = button("Show all", { kind: "plain", on: { click: () => this.clear() } });
    put(place, this.selects.map((one) => one.label), this.chip, this.none);
    for (const one of this.selects) one.addEventListener("change", () => this.#say());
    this.wanted = new URLSearchParams(location.search);
    if (this.wanted.get("occasion")) this.day = { id: this.wanted.get("occasion") };
    this.#mark();
  }

  /** Query of the pictures that are asked for. */
  values() {
    const [after, before] = this.taken.value.includes("-") || /^\d{4}$/.test(this.taken.value) ? span(this.taken.value) : [];
    const dated = this.taken.value === "none" ? "false" : undefined;
    return { folder: this.folder.value, after, before, dated, shape: this.shape.value, used: this.used.value, captioned: this.captioned.value, occasion: this.day?.id };
  }

  /** Whether anything is set. */
  get any() {
    return Boolean(this.day) || this.selects.some((one) => one.value);
  }

  /** Only what was taken on the day of a picture; all else is let go. */
  occasion(picture) {
    for (const one of this.selects) one.value = "";
    this.day = picture;
    this.#say();
  }

  clear() {
    for (const one of this.selects) one.value = "";
    this.day = null;
    this.#say();
    this.folder.focus();
  }

  /** Ask again what there is to choose from; what is chosen stays. */
  async refresh() {
    const facets = await api.facets();
    const chosen = (key, one) => this.wanted?.get(key) ?? one.value;
    const before = { folder: chosen("folder", this.folder), taken: chosen("taken", this.taken), shape: chosen("shape", this.shape), used: chosen("used", this.used), captioned: chosen("captioned", this.captioned) };
    this.wanted = null;
    fill(this.folder, "Any folder", folders(facets.folders));
    fill(this.taken, "Any time", times(facets.months, facets.undated));
    fill(this.shape, "Any shape", Object.entries(SHAPES).filter(([key]) => facets.shapes[key]).map(([key, words]) => [key, words + number(facets.shapes[key])]));
    fill(this.used, "Used or not", [["true", `Used in a storyboard${number(facets.used)}`], ["false", "Not used yet"]]);
    fill(this.captioned, "With or without words", [["false", `Without words yet${number(facets.uncaptioned)}`], ["true", "With words"]]);
    this.taken.label.hidden = !Object.keys(facets.months).length;
    this.folder.label.hidden = this.folder.options.length < 3;
    for (const [key, value] of Object.entries(before)) this[key].value = [...this[key].options].some((one) => one.value === value) ? value : "";
    if (this.day && !this.day.name) this.day = await api.picture(this.day.id).catch(() => null);
    this.#mark();
    return before;
  }

  #say() {
    const kept = new URLSearchParams(Object.entries({ folder: this.folder.value, taken: this.taken.value, shape: this.shape.value, used: this.used.value, captioned: this.captioned.value, occasion: this.day?.id ?? "" }).filter(([, value]) => value));
    history.replaceState(null, "", `${location.pathname}${kept.size ? `?${kept}` : ""}${location.hash}`);
    this.#mark();
    this.dispatchEvent(new Event("change"));
  }

  #mark() {
    for (const one of this.selects) one.classList.toggle("set", Boolean(one.value));
    this.none.hidden = !this.any;
    this.chip.hidden = !this.day;
    if (this.day) put(this.chip, "Taken on the same day as ", h("bdi", {}, this.day.name ? name(this.day) : "a picture"));
  }
}

function select(words) {
  const made = h("select", { "aria-label": words });
  made.label = h("label", { class: "filter" }, h("span", { class: "unseen" }, words), made);
  return made;
}

function fill(select, all, options) {
  put(select, h("option", { value: "" }, all), options.map(([value, words]) => h("option", { value }, words)));
}

/** Folders under those they lie in; one that was brought is called by its time. */
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

/** "Added Nov 23, 2026, 2:32 PM", and the folder that was brought. */
function brought([, year, number, day, hour, minute, folder]) {
  const time = new Date(Date.UTC(year, number - 1, day, hour, minute)).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
  return `Added ${time}${folder ? ` · ${folder}` : ""}`;
}

/** Years, the months in them, and what nobody knows the day of. */
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
  return undated ? [...listed, ["none", `Day not known${number(undated)}`]] : listed;
}

/** First and last day of a year or a month. */
function span(stamp) {
  if (stamp.length === 4) return [`${stamp}-01-01`, `${stamp}-12-31`];
  const [year, number] = stamp.split("-").map(Number);
  return [`${stamp}-01`, `${stamp}-${new Date(Date.UTC(year, number, 0)).getUTCDate()}`];
}
