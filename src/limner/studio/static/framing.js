// How a picture is shown at a step: the part of it, the point that stays in sight, its caption and alternative text.

import { openDialog } from "./dialogs.js";
import { button, h, put } from "./dom.js";
import { described, height, name, thumbnail, width, words } from "./pictures.js";

const WHOLE = { x: 0, y: 0, width: 1, height: 1 };
const SMALLEST = 0.02;
const limit = (value, low, high) => Math.min(high, Math.max(low, value));

/** The largest part of a crop that has a shape, around what must stay in sight. */
export function part(picture, framing, ratio) {
  const crop = framing?.crop ?? WHOLE;
  const pixels = (width(picture) * crop.width) / (height(picture) * crop.height);
  if (!ratio) return { ...crop, ratio: pixels };
  const size = pixels > ratio ? { width: (crop.width * ratio) / pixels, height: crop.height } : { width: crop.width, height: (crop.height * pixels) / ratio };
  const [fx, fy] = framing?.focus ?? [crop.x + crop.width / 2, crop.y + crop.height / 2];
  const x = limit(fx - size.width / 2, crop.x, crop.x + crop.width - size.width);
  const y = limit(fy - size.height / 2, crop.y, crop.y + crop.height - size.height);
  return { x, y, ...size, ratio };
}

/** A picture as its step shows it; without a ratio, in the shape of its crop. */
export function view(picture, framing, side, { ratio = null, ...props } = {}) {
  const shown = part(picture, framing, ratio);
  // A copy as large as makes the part as sharp as the whole would be.
  const image = thumbnail(picture, Math.min(800, Math.round(side / Math.max(shown.width, shown.height))), { alt: "", ...props });
  const box = h("span", { class: ratio ? "view" : "view own" }, image);
  box.style.setProperty("--ratio", shown.ratio.toFixed(4));
  Object.assign(image.style, {
    width: `${100 / shown.width}%`,
    height: `${100 / shown.height}%`,
    insetInlineStart: "auto",
    left: `${(-100 * shown.x) / shown.width}%`,
    top: `${(-100 * shown.y) / shown.height}%`,
  });
  return box;
}

/** All pictures of a step side by side, in a place of a shape. */
export function views(choice, side, ratio, props = {}) {
  const pictures = shownAt(choice);
  const shape = (at) => (pictures.length === 1 ? null : pictures.length === 2 || (pictures.length === 3 && at === 0) ? ratio / 2 : ratio);
  const each = pictures.map((picture, at) => view(picture, choice.framing?.[picture.id], pictures.length > 1 ? side / 2 : side, { ratio: shape(at), ...props }));
  return h("span", { class: "mosaic", data: { count: pictures.length } }, each);
}

/** The pictures of a step, in order. */
export const shownAt = (choice) => (choice.chosen ? [choice.chosen.picture, ...(choice.more ?? [])] : []);

const MOST_LETTERS = 120;

/** Whether a picture has words of its own. */
const worded = (picture) => words(picture).length > 0;

/** The first words of a step, as exports have them for a picture without words of its own. */
function opening(text) {
  const line = text.text.trim().replace(/\s+/g, " ");
  if (line.length <= MOST_LETTERS) return line;
  const cut = line.slice(0, MOST_LETTERS + 1);
  return `${cut.slice(0, cut.lastIndexOf(" ") > 0 ? cut.lastIndexOf(" ") : MOST_LETTERS)} …`;
}

/** What the author says of a picture at a step, else its own words, else those of the step, marked as such. */
export const told = (choice, picture, text) => choice.framing?.[picture.id]?.alt || (worded(picture) ? described(picture) : `${opening(text)} (from the step’s words)`);

/** Open the dialog of one picture of a step. */
export function openFraming(store, step, picture) {
  if (document.querySelector("dialog[open]")) return;
  const framing = store.step(step).choice.framing?.[picture.id] ?? {};
  let crop = { ...(framing.crop ?? WHOLE) };
  let focus = framing.focus ? [...framing.focus] : null;
  const image = thumbnail(picture, 800, { alt: "" });
  const frame = h("span", { class: "cropped" });
  const dot = h("span", { class: "focal" });
  const stage = h("div", { class: "stage" }, image, frame, dot);
  stage.style.setProperty("--ratio", (width(picture) / height(picture)).toFixed(4));
  const mode = ["crop", "focus"].map((value) => h("input", { type: "radio", name: "drag", value, checked: value === "crop" }));
  const fields = Object.fromEntries(
    [["x", "From the left"], ["y", "From the top"], ["width", "Width"], ["height", "Height"], ["fx", "From the left"], ["fy", "From the top"]].map(([key, words]) => {
      const input = h("input", { type: "number", min: key === "width" || key === "height" ? 2 : 0, max: 100, step: "any", id: `framing-${key}` });
      input.addEventListener("input", () => typed(key));
      return [key, { input, row: h("div", { class: "field" }, h("label", { for: `framing-${key}` }, `${words}, %`), input) }];
    }),
  );
  const caption = h("input", { type: "text", id: "framing-caption", maxlength: 2000, dir: "auto" });
  caption.value = framing.caption ?? "";
  const alt = h("textarea", { id: "framing-alt", rows: 2, maxlength: 2000, dir: "auto", placeholder: worded(picture) ? described(picture) : opening(store.step(step).text) });
  alt.value = framing.alt ?? "";

  function draw(but = null) {
    const percent = (value) => `${(100 * value).toFixed(2)}%`;
    Object.assign(frame.style, { left: percent(crop.x), top: percent(crop.y), width: percent(crop.width), height: percent(crop.height) });
    const [x, y] = focus ?? [crop.x + crop.width / 2, crop.y + crop.height / 2];
    Object.assign(dot.style, { left: percent(x), top: percent(y) });
    dot.classList.toggle("usual", !focus);
    for (const [key, value] of Object.entries({ ...crop, fx: x, fy: y })) {
      if (key !== but) fields[key].input.value = String(Math.round(1000 * value) / 10);
    }
  }

  function typed(key) {
    const value = Number(fields[key].input.value) / 100;
    if (!fields[key].input.value || !Number.isFinite(value)) return;
    if (key === "fx" || key === "fy") focus = [limit(key === "fx" ? value : Number(fields.fx.input.value) / 100, 0, 1), limit(key === "fy" ? value : Number(fields.fy.input.value) / 100, 0, 1)];
    else {
      const side = { x: "width", y: "height", width: "x", height: "y" }[key];
      if (key === "x" || key === "y") {
        crop[key] = limit(value, 0, 1 - SMALLEST);
        crop[side] = Math.min(crop[side], 1 - crop[key]);
      } else crop[key] = limit(value, SMALLEST, 1 - crop[side]);
    }
    draw(key);
  }

  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    event.preventDefault();
    stage.setPointerCapture(event.pointerId);
    const edges = stage.getBoundingClientRect();
    const at = (one) => [limit((one.clientX - edges.left) / edges.width, 0, 1), limit((one.clientY - edges.top) / edges.height, 0, 1)];
    const from = at(event);
    const before = { ...crop };
    const move = (one) => {
      const to = at(one);
      if (mode[1].checked) focus = to;
      else {
        const size = [Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
        crop = Math.min(...size) < SMALLEST ? { ...before } : { x: Math.min(from[0], to[0]), y: Math.min(from[1], to[1]), width: size[0], height: size[1] };
      }
      draw();
    };
    if (mode[1].checked) move(event);
    stage.addEventListener("pointermove", move);
    const end = () => stage.removeEventListener("pointermove", move);
    for (const kind of ["pointerup", "pointercancel"]) stage.addEventListener(kind, end, { once: true });
  });

  const whole = () => {
    crop = { ...WHOLE };
    draw();
  };
  const middle = () => {
    focus = null;
    draw();
  };
  openDialog(
    `Picture of step ${step + 1}`,
    (close) => {
      const form = h(
        "form",
        { class: "framing" },
        stage,
        h("fieldset", { class: "dragging-sets" }, h("legend", { class: "quiet small" }, "Dragging on the picture sets"), h("label", { class: "choice" }, mode[0], "the crop area"), h("label", { class: "choice" }, mode[1], "the focal point")),
        h("fieldset", { class: "part" }, h("legend", { class: "quiet small" }, "Crop area"), ["x", "y", "width", "height"].map((key) => fields[key].row), button("Whole picture", { on: { click: whole } })),
        h("fieldset", { class: "part" }, h("legend", { class: "quiet small" }, "Focal point"), ["fx", "fy"].map((key) => fields[key].row), button("Center", { on: { click: middle } })),
        h("div", { class: "field" }, h("label", { for: "framing-caption" }, "Caption below it"), caption),
        h("div", { class: "field" }, h("label", { for: "framing-alt" }, "Alternative text, for readers who cannot see it; limner's own unless you write one"), alt, !worded(picture) && h("p", { class: "quiet small" }, "From the step’s words: the picture has none of its own.")),
        h("p", { class: "quiet small" }, "Your file stays as it is: only copies are cropped. ", h("bdi", {}, name(picture))),
        h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), h("button", { type: "submit", class: "button main" }, "Apply")),
      );
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        close();
        const isWhole = crop.x <= 0 && crop.y <= 0 && crop.width >= 1 && crop.height >= 1;
        const kept = { crop: isWhole ? null : crop, focus, caption: caption.value.trim() || null, alt: alt.value.trim() || null };
        store.edit({ kind: "frame", step, picture: picture.id, framing: kept });
      });
      return [form];
    },
    { kind: "wide" },
  );
  draw();
}

/** The pictures of the step one is at: each with its frame and words, its place among them, and a way out. */
export class Showing {
  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.store = store;
    this.list = h("ol", { class: "shown-here", "aria-label": "Pictures of this step" });
    this.element = h("div", { class: "showing" }, this.list);
  }

  show(step) {
    const { choice, text } = this.store.step(step);
    const pictures = shownAt(choice);
    this.element.hidden = pictures.length < 2;
    const focused = this.list.contains(document.activeElement);
    const ids = pictures.map((picture) => picture.id);
    const order = (from, to) => {
      const moved = ids.filter((_, at) => at !== from);
      moved.splice(to, 0, ids[from]);
      this.store.edit({ kind: "order-pictures", step, pictures: moved });
    };
    put(
      this.list,
      pictures.map((picture, at) => {
        const framing = choice.framing?.[picture.id];
        const which = pictures.length > 1 ? `picture ${at + 1} of ${pictures.length}` : "the picture";
        const tool = (words, look, click) => button(`${words}: ${which}`, { look, bare: true, kind: "tiny", title: words, on: { click } });
        return h(
          "li",
          {},
          h("button", { type: "button", class: "frame-it", "aria-label": `Crop, caption and alternative text of ${which}: ${told(choice, picture, text)}`, title: "Crop, caption, alternative text (F)", on: { click: () => openFraming(this.store, step, picture) } }, view(picture, framing, 128, { ratio: 4 / 3 }), h("span", { class: "sign", "aria-hidden": "true" }, framing ? "✓" : "…")),
          pictures.length > 1 && h("span", { class: "tools-of" }, at > 0 && tool("Show earlier", "before", () => order(at, at - 1)), at < pictures.length - 1 && tool("Show later", "after", () => order(at, at + 1)), tool("Take away", "close", () => this.store.edit({ kind: "remove-picture", step, picture: picture.id }))),
          framing?.caption && h("p", { class: "small clipped", dir: "auto" }, framing.caption),
        );
      }),
    );
    if (focused) this.list.querySelector("button")?.focus();
  }
}
