// Crop area, focal point, caption and alt text of a picture at a step.

import { openDialog } from "./dialogs.js";
import { announce, button, h } from "./dom.js";
import { described, height, name, thumbnail, width, words } from "./pictures.js";

const WHOLE = { x: 0, y: 0, width: 1, height: 1 };
const SMALLEST = 0.02;
const limit = (value, low, high) => Math.min(high, Math.max(low, value));

/** The largest part of a crop area with a given shape that includes the focal point. */
export function part(picture, framing, ratio) {
  const crop = framing.crop ?? WHOLE;
  const pixels = (width(picture) * crop.width) / (height(picture) * crop.height);
  const size = pixels > ratio ? { width: (crop.width * ratio) / pixels, height: crop.height } : { width: crop.width, height: (crop.height * pixels) / ratio };
  const [fx, fy] = framing.focus ?? [crop.x + crop.width / 2, crop.y + crop.height / 2];
  const x = limit(fx - size.width / 2, crop.x, crop.x + crop.width - size.width);
  const y = limit(fy - size.height / 2, crop.y, crop.y + crop.height - size.height);
  return { x, y, ...size, ratio };
}

/** A picture as its step shows it: the part of its crop area that fills a box of a given shape. */
export function view(picture, framing, side, { ratio, ...props }) {
  const shown = part(picture, framing, ratio);
  // A copy large enough to make the part as sharp as the whole would be.
  const image = thumbnail(picture, Math.min(800, Math.round(side / Math.max(shown.width, shown.height))), { alt: "", ...props });
  const box = h("span", { class: "view" }, image);
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

/** What a step shows: the picture chosen for it, and those of the text itself, each with its caption there. */
export function shownAt({ text, choice }) {
  const chosen = choice.chosen?.picture;
  const own = text.pictures.filter(({ path }) => path).map(({ sha256: id, target: name, alt, caption }) => ({ ...(chosen?.id === id ? chosen : { id, name, captions: [alt || caption].filter(Boolean) }), caption }));
  return chosen && choice.origin !== "given" ? [chosen, ...own] : own;
}

/** The pictures of a step side by side, in a box of a given shape. */
export function views(step, side, ratio, props = {}) {
  const { chosen, framing } = step.choice;
  const each = shownAt(step).map((picture) => h("span", { class: "shown", dir: "auto" }, picture.id === chosen?.picture.id ? view(picture, framing, side, { ratio, ...props }) : thumbnail(picture, side, { ...props, alt: "" }), picture.caption && h("span", { class: "small" }, picture.caption)));
  return h("span", { class: "mosaic", data: { count: Math.min(each.length, 4) } }, each);
}

/** Handles of a crop area: the edges that each moves; the keyboard reaches those of a single edge. */
const HANDLES = { "top left": [-1, -1], top: [0, -1], "top right": [1, -1], left: [-1, 0], right: [1, 0], "bottom left": [-1, 1], bottom: [0, 1], "bottom right": [1, 1] };
const RATIOS = [["Free", null], ["Original", 0], ["1:1", 1], ["4:3", 4 / 3], ["3:2", 3 / 2], ["16:9", 16 / 9]];
const KEY_STEP = 0.01;

/**
 * The crop area after a handle has moved.
 * @param {object} crop before, in fractions of the picture
 * @param {[number, number]} sides -1, 0 or 1: left, no or right edge moves; upper, no or lower edge
 * @param {number} dx
 * @param {number} dy distance in the same fractions
 * @param {number|null} shape width : height in these fractions, to be kept; null for any
 */
function resized(crop, [sx, sy], dx, dy, shape) {
  const middle = [crop.x + crop.width / 2, crop.y + crop.height / 2];
  const fixed = [sx < 0 ? crop.x + crop.width : sx ? crop.x : middle[0], sy < 0 ? crop.y + crop.height : sy ? crop.y : middle[1]];
  const room = (side, at) => (side < 0 ? at : side ? 1 - at : 2 * Math.min(at, 1 - at));
  let size = [crop.width + sx * dx, crop.height + sy * dy];
  if (shape) {
    const across = !sx ? size[1] * shape : sy ? Math.max(size[0], size[1] * shape) : size[0];
    const width = limit(across, Math.max(SMALLEST, SMALLEST * shape), Math.min(room(sx, fixed[0]), room(sy, fixed[1]) * shape));
    size = [width, width / shape];
  } else size = [sx, sy].map((side, axis) => (side ? limit(size[axis], SMALLEST, room(side, fixed[axis])) : size[axis]));
  const [x, y] = [sx, sy].map((side, axis) => (side < 0 ? fixed[axis] - size[axis] : side ? fixed[axis] : fixed[axis] - size[axis] / 2));
  return { x, y, width: size[0], height: size[1] };
}

/** Open the dialog of one picture of a step. */
export function openFraming(store, step, picture) {
  if (document.querySelector("dialog[open]")) return;
  const { framing } = store.step(step).choice;
  let crop = { ...(framing.crop ?? WHOLE) };
  let focus = framing.focus ? [...framing.focus] : null;
  let shape = null;
  const own = width(picture) / height(picture);
  const hole = h("span", { class: "cropped" });
  const handle = (words) => h("button", { type: "button", class: `handle ${words}`, data: { part: words }, tabindex: HANDLES[words].includes(0) ? 0 : -1, "aria-label": `Crop area, ${words} ${HANDLES[words].includes(0) ? "edge" : "corner"}: arrow keys move it` });
  const box = h("div", { class: "crop-box" }, h("button", { type: "button", class: "mover", data: { part: "area" }, "aria-label": "Crop area: arrow keys move it" }), Object.keys(HANDLES).map(handle));
  const dot = h("button", { type: "button", class: "focal", data: { part: "focus" }, title: "Focal point", "aria-label": "Focal point: arrow keys move it" });
  const stage = h("div", { class: "stage" }, thumbnail(picture, 800, { alt: "" }), h("span", { class: "dim" }, hole), box, dot);
  stage.style.setProperty("--ratio", own.toFixed(4));
  const ratios = RATIOS.map(([words, ratio], at) => h("label", { class: "chip" }, h("input", { type: "radio", name: "ratio", checked: at === 0, on: { change: () => reshape(ratio) } }), words));
  const caption = h("input", { type: "text", id: "framing-caption", maxlength: 2000, dir: "auto" });
  caption.value = framing.caption ?? "";
  const alt = h("textarea", { id: "framing-alt", rows: 2, maxlength: 2000, dir: "auto", placeholder: words(picture).length ? described(picture) : "" });
  alt.value = framing.alt ?? "";

  const point = () => focus ?? [crop.x + crop.width / 2, crop.y + crop.height / 2];
  const percent = (value) => `${(100 * value).toFixed(2)}%`;

  function draw() {
    for (const one of [hole, box]) Object.assign(one.style, { left: percent(crop.x), top: percent(crop.y), width: percent(crop.width), height: percent(crop.height) });
    const [x, y] = point();
    Object.assign(dot.style, { left: percent(x), top: percent(y) });
    dot.classList.toggle("usual", !focus);
  }

  /** Fix a shape from now on, and use the largest crop area with it around the previous centre. */
  function reshape(ratio) {
    shape = ratio === null ? null : ratio === 0 ? 1 : ratio / own;
    if (shape) {
      const size = [Math.min(1, shape), Math.min(1, 1 / shape)];
      const place = (start, extent, wanted) => limit(start + extent / 2 - wanted / 2, 0, 1 - wanted);
      crop = { x: place(crop.x, crop.width, size[0]), y: place(crop.y, crop.height, size[1]), width: size[0], height: size[1] };
    }
    draw();
  }

  function shift(part, before, dx, dy) {
    if (part === "focus") focus = [limit(before.point[0] + dx, 0, 1), limit(before.point[1] + dy, 0, 1)];
    else if (part === "area") crop = { ...before.crop, x: limit(before.crop.x + dx, 0, 1 - before.crop.width), y: limit(before.crop.y + dy, 0, 1 - before.crop.height) };
    else crop = resized(before.crop, HANDLES[part], dx, dy, shape);
    draw();
  }

  stage.addEventListener("pointerdown", (event) => {
    const part = event.target.closest("[data-part]");
    if (!part || event.button) return;
    event.preventDefault();
    part.focus();
    stage.setPointerCapture(event.pointerId);
    const edges = stage.getBoundingClientRect();
    const before = { crop, point: point() };
    const move = (one) => shift(part.dataset.part, before, (one.clientX - event.clientX) / edges.width, (one.clientY - event.clientY) / edges.height);
    stage.addEventListener("pointermove", move);
    const end = () => stage.removeEventListener("pointermove", move);
    for (const kind of ["pointerup", "pointercancel"]) stage.addEventListener(kind, end, { once: true });
  });
  stage.addEventListener("keydown", (event) => {
    const part = event.target.dataset.part;
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!part || !by) return;
    event.preventDefault();
    const [dx, dy] = by.map((one) => one * KEY_STEP * (event.shiftKey ? 10 : 1));
    shift(part, { crop, point: point() }, dx, dy);
    const [x, y] = point().map((one) => Math.round(100 * one));
    announce(part === "focus" ? `Focal point: ${x} % from the left, ${y} % from the top` : `Crop area: ${Math.round(100 * crop.width)} % wide from ${Math.round(100 * crop.x)} %, ${Math.round(100 * crop.height)} % high from ${Math.round(100 * crop.y)} %`);
  });

  const whole = () => {
    crop = { ...WHOLE };
    ratios[0].querySelector("input").checked = true;
    reshape(null);
  };
  const center = () => {
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
        h(
          "div",
          { class: "stack" },
          h("fieldset", {}, h("legend", { class: "quiet small" }, "Crop area"), h("div", { class: "ratios" }, ratios), button("Whole picture", { kind: "plain", on: { click: whole } })),
          h("fieldset", {}, h("legend", { class: "quiet small" }, "Focal point"), h("p", { class: "small" }, "The ring marks the part that stays visible if the picture is cropped to fit a page."), button("Center", { kind: "plain", on: { click: center } })),
          h("div", { class: "field" }, h("label", { for: "framing-caption" }, "Caption below it"), caption),
          h("div", { class: "field" }, h("label", { for: "framing-alt" }, "Alternative text, for readers who cannot see it"), alt),
          h("p", { class: "quiet small" }, "Your file does not change; only copies are cropped. ", h("bdi", {}, name(picture))),
        ),
        h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), h("button", { type: "submit", class: "button main" }, "Apply")),
      );
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        close();
        const isWhole = crop.width > 1 - 1e-6 && crop.height > 1 - 1e-6;
        const kept = { crop: isWhole ? null : crop, focus, caption: caption.value.trim() || null, alt: alt.value.trim() || null };
        store.edit({ kind: "frame", step, picture: picture.id, framing: kept });
      });
      return [form];
    },
    { kind: "wide" },
  );
  draw();
}
