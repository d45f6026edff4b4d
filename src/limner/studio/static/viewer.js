// One picture, large, with what is known about it.

import { links } from "./api.js";
import { openDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { copies, credit, described, height, name, thumbnail, width, words } from "./pictures.js";

/** Open the dialog of one picture. */
export function openPicture(picture) {
  const rows = [
    ["Words", words(picture).length ? words(picture).map((text, at) => [at > 0 && h("br"), h("bdi", {}, text)]) : "none"],
    ["Credit", h("bdi", {}, credit(picture))],
    ["Size", `${width(picture)} × ${height(picture)} pixels`],
    copies(picture) > 1 && ["Files", `${copies(picture)} with the same content`],
  ].filter(Boolean);
  openDialog(
    name(picture),
    () => [
      h(
        "div",
        { class: "large" },
        h("img", { src: links.file(picture.id), alt: described(picture), width: width(picture), height: height(picture) }),
        h("dl", {}, rows.map(([term, told]) => [h("dt", {}, term), h("dd", {}, told)])),
      ),
    ],
    { kind: "wide" },
  );
}

/** A thumbnail that opens its picture. */
export function opener(picture, side) {
  return h("button", { type: "button", class: "cell", on: { click: () => openPicture(picture) } }, thumbnail(picture, side));
}
