// Pictures in both of their JSON forms: name, caption, credit and thumbnail.

import { h } from "./dom.js";
import { links } from "./api.js";

export const name = (picture) => picture.name ?? (Array.isArray(picture.paths) ? picture.paths[0] : picture.id).split(/[\\/]/).pop();
export const words = (picture) => (picture.captions ?? []).map((caption) => (typeof caption === "string" ? caption : caption.text));
/** Number of files; lists state the number, storyboards the paths. */
export const copies = (picture) => (Array.isArray(picture.paths) ? picture.paths.length : (picture.paths ?? 1));
export const width = (picture) => picture.width ?? picture.width_px;
export const height = (picture) => picture.height ?? picture.height_px;

/** The first caption that is not a list of keywords, as in exports, or the file name. */
export function described(picture) {
  const told = (picture.captions ?? []).find((caption) => typeof caption === "string" || caption.source !== "keywords");
  return (typeof told === "string" ? told : told?.text) ?? words(picture)[0] ?? `${name(picture)}, no description`;
}

export function credit(picture) {
  return `${picture.credit?.trim() || "creator not stated"} · ${picture.license?.trim() || "licence not stated"}`;
}

/**
 * A thumbnail in two sizes, for normal and high-resolution screens.
 * @param {object} picture
 * @param {number} side longest side in CSS pixels
 * @param {object} [props] further attributes; `alt` defaults to the picture's caption.
 */
export function thumbnail(picture, side, props = {}) {
  return h("img", {
    class: picture.missing ? "gone" : undefined,
    title: picture.missing ? "File missing" : undefined,
    alt: `${described(picture)}${picture.missing ? " (file missing)" : ""}`,
    loading: "lazy",
    decoding: "async",
    draggable: "false",
    width: width(picture),
    height: height(picture),
    ...props,
    src: links.thumbnail(picture.id, side),
    srcset: `${links.thumbnail(picture.id, side)} 1x, ${links.thumbnail(picture.id, side * 2)} 2x`,
  });
}

/** Label of a tile whose file is missing; screen readers get it from the image. */
export function gone(picture) {
  return picture.missing ? h("span", { class: "gone-label", "aria-hidden": "true" }, "File missing") : null;
}

/** Width : height that suits most of the pictures: their median, between 4 : 5 and 3 : 2. */
export function shape(pictures) {
  const ratios = pictures.map((picture) => width(picture) / height(picture)).filter((ratio) => ratio > 0).sort((one, other) => one - other);
  const middle = ratios.length ? ratios[ratios.length >> 1] : 4 / 3;
  return Math.min(1.5, Math.max(0.8, middle));
}
