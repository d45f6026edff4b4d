// Help and keyboard shortcuts; single-key shortcuts can be switched off (WCAG 2.1.4).

import { openDialog } from "./dialogs.js";
import { h } from "./dom.js";

const SETTING = "limner.single-keys";

export const singleKeys = () => localStorage.getItem(SETTING) !== "off";

const EVERYWHERE = [
  [["Tab"], "next control; with Shift, the one before"],
  [["Esc"], "close what is open"],
  [["?"], "this help"],
];
const START = [[["Ctrl", "Enter"], "illustrate the text"]];
const BOARD = [
  [["←", "→", "↑", "↓"], "another step"],
  [["Enter"], "go to the candidates of the step"],
  [["1", "…", "9"], "use the first to ninth candidate"],
  [["L"], "lock or unlock the picture"],
  [["Shift", "L"], "lock the rest"],
  [["A"], "refresh unlocked pictures, after a preview of the changes"],
  [["B"], "no picture at this step"],
  [["T"], "try another: the next best picture"],
  [["C"], "compare: pictures large, side by side, with the neighbours"],
  [["S"], "search by words"],
  [["M"], "more pictures like this one"],
  [["R"], "reasons"],
  [["E"], "edit the text of the step; Ctrl Enter saves it, Ctrl Shift Enter splits at the cursor, Esc closes and keeps what you typed"],
  [["N"], "add a step after this one; with Shift, before it"],
  [["P"], "add a picture after this step; with Shift, before it"],
  [["J"], "merge with the next step"],
  [["Alt", "↑"], "move the step up; Alt ↓ moves it down"],
  [["Del"], "remove the step"],
  [["F"], "crop, caption and alternative text"],
  [["Z"], "view the picture large; arrows go through the candidates"],
  [["X"], "pick the picture up; on another step, X puts it there; Esc drops it"],
  [["Ctrl", "Z"], "undo"],
  [["Ctrl", "Shift", "Z"], "redo"],
  [["Ctrl", "E"], "export"],
];
const LIBRARY = [
  [["←", "→", "↑", "↓"], "another picture"],
  [["Home"], "first picture"],
  [["End"], "last picture"],
  [["Enter"], "see the picture large"],
];

const list = (rows) =>
  h("dl", { class: "keys" }, rows.map(([keys, words]) => [h("dt", {}, keys.map((key) => h("kbd", {}, key))), h("dd", {}, words)]));

/** Open the help dialog. */
export function openHelp() {
  if (document.querySelector("dialog[open]")) return;
  const toggle = h("input", { type: "checkbox", id: "single-keys", checked: singleKeys() });
  toggle.addEventListener("change", () => localStorage.setItem(SETTING, toggle.checked ? "on" : "off"));
  openDialog("Help and keyboard", () => [
    h("p", {}, "Paste a text, and limner chooses a picture from your library for each step. If you know a better one, use it: limner keeps it and leaves the other steps as they are. “Refresh unlocked pictures” chooses again to match the pictures that you locked, after a preview of the changes. Every change is saved at once."),
    h("h3", {}, "Everywhere"),
    list(EVERYWHERE),
    h("h3", {}, "Start page"),
    list(START),
    h("h3", {}, "Storyboard"),
    list(BOARD),
    h("h3", {}, "Library"),
    list(LIBRARY),
    h("label", { class: "choice" }, toggle, h("span", {}, "Single keys", h("small", {}, "Letters and digits act while the focus is on the storyboard, never while you type."))),
  ]);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "?" && singleKeys() && !typing(event.target)) {
    event.preventDefault();
    openHelp();
  }
});

/** Whether keys typed here are text input. */
export function typing(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && !/^(checkbox|radio|button|file)$/.test(target.type ?? "");
}
