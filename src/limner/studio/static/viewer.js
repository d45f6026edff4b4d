// Large view of a picture, with its metadata and captions, and the previous and next picture.

import { links } from "./api.js";
import { openDialog } from "./dialogs.js";
import { announce, button, h, put } from "./dom.js";
import { typing } from "./help.js";
import { copies, credit, described, gone, height, name, thumbnail, width } from "./pictures.js";
import { pictureWords } from "./words.js";

const SWIPE_PX = 48;

/**
 * Open the dialog of one picture.
 * @param {object} picture
 * @param {object} [more]
 * @param {(by: number) => Promise<object|null>} [more.step] the picture after (1) or before (-1); null at an end
 * @param {(picture: object) => void} [more.day] shows the pictures of the same day
 * @param {(picture: object) => void} [more.use] uses the picture
 * @param {(picture: object) => boolean} [more.used] whether it is already used
 * @param {boolean} [more.writable] whether its caption may be edited
 * @param {(picture: object) => void} [more.written] called with a picture whose caption has changed
 * @returns {HTMLDialogElement}
 */
export function openPicture(picture, { step, day, use, used, writable = false, written = () => {} } = {}) {
  const stage = h("div", { class: "large" });
  const box = openDialog(name(picture), () => [stage], { kind: "wide viewer" });
  const title = box.querySelector("h2");
  let turning = false;

  const show = (one) => {
    put(title, h("bdi", {}, name(one)));
    const arrow = (by, look, words) => button(words, { look, bare: true, kind: `plain ${look}`, on: { click: () => turn(by) } });
    put(
      stage,
      h("figure", {}, h("img", { draggable: "false", src: links.thumbnail(one.id, 1600), alt: described(one), width: width(one), height: height(one) }), gone(one), step && [arrow(-1, "before", "Previous picture (←)"), arrow(1, "after", "Next picture (→)")]),
      h(
        "div",
        { class: "known" },
        use && (used(one) ? h("p", { class: "quiet" }, "In use at this step") : button("Use this picture", { kind: "main", on: { click: () => { box.close(); use(one); } } })),
        pictureWords(one, { writable, written }),
        h("dl", {}, facts(one).map(([term, told]) => [h("dt", {}, term), h("dd", {}, told)])),
        h("div", { class: "actions" }, day && one.taken && button("More from that day", { look: "day", on: { click: () => { box.close(); day(one); } } }), !one.missing && h("a", { class: "button plain", href: links.file(one.id), target: "_blank", rel: "noopener" }, "Open the file")),
      ),
    );
  };

  let from = null;
  stage.addEventListener("pointerdown", ({ target, clientX }) => (from = target.closest("figure") ? clientX : null));
  stage.addEventListener("pointerup", ({ clientX }) => {
    const moved = from === null ? 0 : clientX - from;
    from = null;
    if (Math.abs(moved) > SWIPE_PX) turn(moved > 0 ? -1 : 1);
  });

  const turn = async (by) => {
    if (!step || turning) return;
    turning = true;
    const focused = stage.querySelector(":focus")?.className;
    const next = await step(by);
    turning = false;
    if (!next) return announce(by > 0 ? "This is the last picture." : "This is the first picture.");
    show(next);
    announce(described(next));
    if (focused) (stage.querySelector(`.${focused.trim().split(/\s+/).join(".")}`) ?? title).focus?.();
  };

  box.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    turn(by);
  });
  show(picture);
  return box;
}

function facts(picture) {
  const taken = picture.taken && new Date(picture.taken.slice(0, 19));
  return [
    taken && ["Taken", taken.toLocaleString("en", { dateStyle: "long", timeStyle: "short" })],
    picture.folder && ["Folder", h("bdi", {}, picture.folder)],
    ["Size", `${width(picture)} × ${height(picture)} pixels`],
    ["Credit", h("bdi", {}, credit(picture))],
    copies(picture) > 1 && ["Files", `${copies(picture)} with the same content`],
  ].filter(Boolean);
}

/** A thumbnail that opens its picture. */
export function opener(picture, side) {
  return h("button", { type: "button", class: "cell", on: { click: () => openPicture(picture) } }, thumbnail(picture, side), gone(picture));
}
