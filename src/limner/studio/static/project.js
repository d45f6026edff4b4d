// The storyboard page: passes the user's actions to the store, and shows the store's state.

import { openAgain } from "./again.js";
import { Board } from "./board.js";
import { Uploads } from "./uploads.js";
import { Carrying } from "./carrying.js";
import { api } from "./api.js";
import { openCompare } from "./compare.js";
import { openDialog } from "./dialogs.js";
import { $, announce, button, count, gliding, h, inSentences, problem, put, toast } from "./dom.js";
import { openExport } from "./exporting.js";
import { openFraming, shownAt } from "./framing.js";
import { openHelp, singleKeys, typing } from "./help.js";
import { openMenu } from "./menus.js";
import { Panel } from "./panel.js";
import { described, name } from "./pictures.js";
import { fit } from "./reasons.js";
import { openSettings, openText } from "./settings.js";
import { openSignIn } from "./signin.js";
import { Store, undoable } from "./store.js";
import { importNotes } from "./texts.js";
import { opener, openPicture } from "./viewer.js";

const store = new Store(decodeURIComponent(location.pathname.split("/").filter(Boolean).pop()));
const carrying = new Carrying($("steps"));
const board = new Board($("steps"), store);
const panel = new Panel($("panel"), store, carrying, board);
const uploads = new Uploads(() => store.library?.writable === true);

function choose(step, picture) {
  const { offer, seen } = panel.offers;
  const offered = step === panel.step && seen.includes(picture);
  return store.edit({ kind: "choose", step, picture, ...(offered ? { seen } : {}), ...(offered && offer ? { offer } : {}) });
}

const compare = (picture) => openCompare({ store, board, panel, choose }, picture);

/** Whether a step has a picture that may be moved: not one of the text itself. */
const movable = (step) => !["given", "blank"].includes(store.step(step).choice.origin);

function frame(step) {
  const { chosen } = store.step(step).choice;
  if (chosen) openFraming(store, step, chosen.picture);
}

/** The picture that stands for the text: one that somebody chose, or that the text itself names. */
function cover() {
  const { cover: chosen, story } = store.board;
  const { path, sha256: id, target: name, alt } = store.project.options.cover ? {} : (story.cover ?? {});
  return chosen ?? (path ? { id, name, captions: [alt].filter(Boolean) } : null);
}

/** Let a picture stand for the text, or "none". */
const setCover = (cover) => store.edit({ kind: "options", options: { ...store.project.options, cover } });

/** Menu item that makes a picture the cover, or takes it away. */
const covering = (picture) => {
  const is = picture && cover()?.id === picture.id;
  return { words: is ? "No cover" : "Use as cover", look: "cover", disabled: !picture, run: () => setCover(is ? "none" : picture.id) };
};

function showCover() {
  const picture = cover();
  const away = button("No cover", { look: "close", bare: true, kind: "plain", on: { click: () => setCover("none") } });
  put($("cover"), picture && [opener(picture, 128), h("span", { class: "quiet small" }, "Cover"), away]);
}

/** View the picture of a step, or a candidate, large; keys and swipes lead to the others. */
function zoom(step, picture = store.step(step).choice.chosen?.picture) {
  if (!picture || document.querySelector("dialog[open]")) return;
  const candidates = () => {
    const offered = panel.offers.step === step ? panel.offers.found.map((one) => one.picture) : [];
    return [...new Map([...shownAt(store.step(step)), ...offered].map((one) => [one.id, one])).values()];
  };
  let now = picture;
  const next = async (by) => {
    if (panel.offers.list.hasAttribute("aria-busy")) await new Promise((done) => panel.offers.addEventListener("loaded", done, { once: true }));
    const all = candidates();
    const found = all[all.findIndex(({ id }) => id === now.id) + by] ?? null;
    if (found) now = found;
    return found;
  };
  openPicture(picture, { step: next, used: ({ id }) => store.shown().get(id) === step, use: ({ id }) => choose(step, id) });
}

/** Pick an item up and say how to put it down. */
function carry(thing, words) {
  panel.close();
  carrying.take(thing, words);
  const note = toast(thing.kind === "step" ? "Choose the step to swap with." : "Choose the step where it goes.", { action: "Cancel", run: () => carrying.release(), stay: true });
  carrying.addEventListener("ended", () => note.remove(), { once: true });
}

/** All actions on the picture of a step; in the menu of a card also those that the panel has as buttons. */
function stepMenu(step, at) {
  const card = at.closest(".step");
  board.select(step);
  const { choice } = store.step(step);
  const none = !choice.chosen;
  const state = store.stateAfter(step);
  openMenu(`Step ${step + 1}`, at, [
    card && { words: choice.origin === "given" ? "Add a picture" : "Choose another picture", look: "view-small", run: () => openStep(step) },
    card && { words: "Try another", look: "again", key: "T", run: () => another(step) },
    card && { words: state === "free" ? "Lock" : "Unlock", look: state === "free" ? "lock" : "unlock", key: "L", disabled: !movable(step) && state === "free", run: () => toggleLock(step) },
    { words: "View large", look: "enlarge", key: "Z", disabled: none, run: () => zoom(step) },
    { words: "Compare", look: "view-strip", key: "C", run: () => compare() },
    { words: "More like this", look: "alike", key: "M", disabled: none, run: () => { panel.open(); panel.likeThis(); } },
    { words: "Crop & caption", look: "frame", key: "F", disabled: none, run: () => frame(step) },
    covering(choice.chosen?.picture),
    card && { words: "Add a picture before", look: "plus", key: "Shift P", run: () => panel.wording.place(0) },
    card && { words: "Add a picture after", look: "plus", key: "P", run: () => panel.wording.place(1) },
    { words: "Swap with another step …", look: "moved", key: "X", disabled: !movable(step) || store.board.steps.length < 2, run: () => carry({ kind: "step", step }, `the picture of step ${step + 1}`) },
    { words: state === "blank" ? "Choose a picture again" : "No picture", look: "blank", key: "B", disabled: choice.origin === "given", run: () => toggleBlank(step) },
    { words: "Lock the rest", look: "lock", key: "Shift L", run: () => lockOthers(step) },
  ]);
}

/** All actions on a candidate. */
function offerMenu(picture, at) {
  const { step } = panel;
  openMenu(name(picture), at, [
    { words: "Use this picture", look: "view-large", run: () => choose(step, picture.id) },
    { words: "Use at another step …", look: "moved", key: "X", run: () => carry({ kind: "picture", id: picture.id }, described(picture)) },
    { words: "View large", look: "enlarge", key: "Z", run: () => zoom(step, picture) },
    covering(picture),
    { words: "Compare", look: "view-strip", key: "C", run: () => compare(picture) },
    { words: "More like this", look: "alike", key: "M", run: () => panel.offers.ask({ like: picture }) },
    picture.taken && { words: "More from that day", look: "day", run: () => panel.offers.ask({ day: picture }) },
    { words: "Don’t use in this project", look: "never", run: () => ban(picture) },
  ]);
}

async function ban(picture) {
  if (await store.edit({ kind: "ban", picture: picture.id })) undoable(store, "This project will not use that picture.");
}

async function toggleLock(step) {
  const state = store.stateAfter(step);
  if (state === "free" && !movable(step)) return;
  await store.edit({ kind: state === "free" ? "lock" : "unlock", step });
}

async function lockOthers(step) {
  if (await store.edit({ kind: "lock-others", step })) undoable(store, "All other steps are locked.");
}

async function toggleBlank(step) {
  await store.edit({ kind: store.stateAfter(step) === "blank" ? "unlock" : "blank", step });
}

function told(before, changed) {
  if (!before) return;
  const step = board.selected;
  const { choice, state } = store.step(step);
  const others = changed.filter((position) => position !== step).length;
  const own = `Step ${step + 1}${state === "free" ? "" : state === "blank" ? ", left blank" : ", locked"}: ${choice.chosen ? described(choice.chosen.picture) : "no picture"}.`;
  announce(others ? `${own} ${count(others, "other step")} changed too.` : own);
}

function summary() {
  const states = store.project.steps.map((step) => step.state);
  const locked = states.filter((state) => state === "locked").length;
  const blank = store.board.steps.filter((step) => !step.chosen).length;
  const weak = store.board.steps.filter((step) => step.chosen && fit(step.probability) === "weak").length;
  const parts = [count(states.length, "step"), locked && `${locked} locked`, blank && `${blank} left blank`, weak && `${weak} weak`, store.project.missing.length > 0 && `${count(store.project.missing.length, "picture file")} missing`, ...store.project.repeated.map((steps) => `steps ${steps.map((step) => step + 1).join(" and ")} show the same picture`)];
  put($("summary"), parts.filter(Boolean).join(" · "));
  advise();
}

/** Commands in an advice; the page has buttons for them. */
const COMMANDS = / \([^()]*'limner [^']*'\)/g;

/** Advice if most steps lack a fitting picture; shown until it is dismissed, once per project. */
function advise() {
  const dismissed = `limner.advised.${store.id}`;
  const { advice } = store.project;
  const dismiss = () => {
    localStorage.setItem(dismissed, "yes");
    put($("advice"));
    $("steps").focus({ preventScroll: true });
  };
  put(
    $("advice"),
    advice && !localStorage.getItem(dismissed) && h("section", { class: "advice", "aria-label": "What would help" }, h("p", { class: "small" }, advice.replace(COMMANDS, "")), h("div", { class: "actions" }, store.library.writable && button("Add pictures", { look: "plus", on: { click: () => uploads.open() } }), store.library.captioned < store.library.pictures && h("a", { class: "button", href: `/library?${new URLSearchParams({ captioned: false, project: store.id, step: board.selected + 1 })}` }, "Pictures without captions"), button("Dismiss", { kind: "plain", on: { click: dismiss } }))),
  );
}

store.addEventListener("change", ({ detail: before }) => {
  const { project } = store;
  const title = project.title || "Untitled";
  document.title = `${title} · limner studio`;
  $("heading").textContent = title;
  if (document.activeElement !== $("title")) $("title").value = project.title ?? "";
  $("title").dir = store.board.story.direction;
  $("undo").disabled = !project.can_undo;
  $("redo").disabled = !project.can_redo;
  const notes = importNotes(project.notes);
  put($("notes"), notes && h("details", {}, h("summary", { class: "quiet small" }, `Import notes (${project.notes.length})`), notes));
  $("add-pictures").hidden = !store.library.writable;
  showCover();
  const changed = board.show(before);
  $("board").removeAttribute("aria-busy");
  summary();
  panel.show(board.selected);
  unfinished();
  told(before, changed);
});

store.addEventListener("saving", ({ detail: error }) => {
  const many = store.waiting.length > 1 ? ` ${store.waiting.length} changes` : "";
  const words = { loading: "", saving: `Saving${many} …`, saved: "Saved", unsaved: "Not saved" }[store.saving];
  const place = $("saving");
  place.dataset.state = store.saving;
  put(place, words);
  if (store.saving === "unsaved") {
    place.title = inSentences(error);
    const [way, go] = error.status === 401 ? ["Sign in", () => openSignIn(() => store.retry())] : error.status === 409 ? ["Review", openConflict] : ["Try again", () => store.retry()];
    const act = (label, click) => h("button", { type: "button", class: "link", on: { click } }, label);
    place.append(" ", act(way, go));
    if (error.status !== 409) place.append(" ", act("Discard", openDiscard));
    if (error.status === 409) announce("Not saved: this was changed in another window too.");
  } else place.removeAttribute("title");
  $("board").classList.toggle("working", store.saving === "saving");
  // Until steps have their new positions, a click on one could mean another.
  $("steps").inert = $("panel").inert = store.renumbering;
  board.waiting();
  if (store.saving === "saved" && board.cards.length) {
    panel.wording.show(board.selected);
    unfinished();
  }
});

/** Description of an unsaved change; typed text is shown in full. */
function inWords({ act, edit }) {
  if (act !== "edit") return act === "undo" ? "Undo" : "Redo";
  const names = { reword: "new text", "insert-before": "a step before it", "insert-after": "a step after it", choose: "another picture", blank: "no picture", retitle: "Title", retext: "The whole text", again: "Pictures of unlocked steps", options: "Picture settings", swap: "Pictures swapped", place: "A place for a picture" };
  const what = names[edit.kind] ?? edit.kind.replaceAll("-", " ");
  return [edit.step === undefined ? what : `Step ${edit.step + 1}: ${what}`, edit.text !== undefined && h("p", { class: "clipped", dir: "auto" }, edit.text), edit.title && h("p", { dir: "auto" }, edit.title)];
}

const unsaved = () => h("ul", { class: "notes" }, store.waiting.map((one) => h("li", {}, inWords(one))));

function openDiscard() {
  if (document.querySelector("dialog[open]")) return;
  openDialog("Discard unsaved changes?", (close) => {
    const discard = () => {
      close();
      store.discard();
    };
    return [unsaved(), h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), button("Discard", { kind: "main", on: { click: discard } }))];
  });
}

/** Another window changed the same thing: the user decides which change counts. */
function openConflict() {
  if (document.querySelector("dialog[open]")) return;
  openDialog("Changed in another window too", (close) => {
    const end = (run) => () => {
      close();
      run();
    };
    return [
      h("p", {}, "The board shows the other window’s change. Your unsaved changes:"),
      unsaved(),
      h("div", { class: "actions" }, button("Discard mine", { on: { click: end(() => store.discard()) } }), button("Apply mine", { kind: "main", on: { click: end(() => store.insist()) } })),
    ];
  });
}

/** Steps with unsaved text, each with a link to it. */
function unfinished() {
  const open = panel.wording.unfinished();
  put($("drafts"), open.length > 0 && ["Text not saved: ", open.map(({ step, how }, at) => [at > 0 && ", ", h("button", { type: "button", class: "link", on: { click: () => { board.select(step); panel.wording.open(how); } } }, how === "reword" ? `step ${step + 1}` : `a new step ${how === "insert-before" ? "before" : "after"} step ${step + 1}`)])]);
}

/** Show the next best picture at a step; pictures shown before come again when all others have been. */
const tried = new Map();
async function another(step, control) {
  control?.setAttribute("aria-busy", "true");
  try {
    const { chosen } = store.step(step).choice;
    const seen = tried.get(step)?.words === store.step(step).text.text ? tried.get(step).seen : new Set();
    if (chosen) seen.add(chosen.picture.id);
    for (const { edit } of store.changing(step)) if (edit.picture) seen.add(edit.picture);
    const { items, revision } = await api.candidates(store.id, step, { limit: 40, relation: store.step(step).relation });
    const shown = store.shown();
    const next = items.find(({ picture }) => !seen.has(picture.id) && !shown.has(picture.id));
    if (!next) {
      tried.delete(step);
      return toast(`No other matches for step ${step + 1}. Next, the list starts again with the best.`);
    }
    seen.add(next.picture.id);
    tried.set(step, { words: store.step(step).text.text, seen });
    await store.edit({ kind: "choose", step, picture: next.picture.id, seen: items.map(({ picture }) => picture.id), ...(revision === store.project.revision && !store.pending ? { offer: { step, revision } } : {}) });
  } catch (error) {
    toast(inSentences(error));
  } finally {
    control?.removeAttribute("aria-busy");
  }
}

store.addEventListener("refused", ({ detail }) => {
  const words = detail.status === 409 ? "This project was changed in another window. This is the current version; nothing was undone." : inSentences(detail);
  toast(words);
  announce(words);
});

board.addEventListener("another", ({ detail: { step, control } }) => {
  board.select(step);
  another(step, control);
});
board.addEventListener("select", ({ detail }) => panel.show(detail));
board.addEventListener("asked", ({ detail }) => store.edit({ kind: "reword", ...detail }));
board.addEventListener("place", ({ detail }) => panel.wording.place(0, detail));
$("add-pictures").addEventListener("click", () => uploads.open());
$("to-library").addEventListener("pointerdown", toLibrary);
$("to-library").addEventListener("focus", toLibrary);
function toLibrary() {
  $("to-library").href = `/library?${new URLSearchParams({ project: store.id, step: board.selected + 1 })}`;
}
function openStep(step) {
  panel.open();
  // If the panel is a sheet over the board, its picture stays visible above it.
  if (matchMedia("(max-width: 61.99rem)").matches) board.cards[step].item.scrollIntoView({ block: "start", behavior: gliding() });
}
board.addEventListener("open", ({ detail }) => (carrying.held ? carrying.put(detail) : openStep(detail)));
board.addEventListener("more", ({ detail: { step, at } }) => stepMenu(step, at));
board.addEventListener("lock", ({ detail }) => {
  board.select(detail);
  toggleLock(detail);
});
panel.addEventListener("lock", ({ detail }) => toggleLock(detail));
panel.addEventListener("more", ({ detail }) => stepMenu(detail, panel.more));
panel.addEventListener("compare", ({ detail }) => compare(detail));
panel.addEventListener("before", () => board.select(board.selected - 1));
panel.addEventListener("after", () => board.select(board.selected + 1));
panel.addEventListener("closed", () => board.select(board.selected, { focus: true, told: false }));
panel.addEventListener("relation", ({ detail }) => store.edit({ kind: "relation", step: panel.step, relation: detail }));
panel.offers.addEventListener("choose", ({ detail }) => choose(panel.step, detail));
panel.offers.addEventListener("more", ({ detail: { picture, at } }) => offerMenu(picture, at));
carrying.addEventListener("deliver", async ({ detail: { thing, step } }) => {
  const done = thing.kind === "step" ? store.edit({ kind: "swap", a: thing.step, b: step }) : choose(step, thing.id);
  board.select(step);
  await done;
});

uploads.resume();
uploads.addEventListener("done", () => store.project && panel.offers.load());
for (const radio of document.querySelectorAll("#views input")) {
  radio.checked = radio.value === board.view;
  radio.addEventListener("change", () => (board.view = radio.value));
}
$("undo").addEventListener("click", () => store.undo());
$("redo").addEventListener("click", () => store.redo());
$("export").addEventListener("click", () => openExport(store));
$("settings").addEventListener("click", () => openSettings(store));
$("again").addEventListener("click", () => openAgain(store));
$("retext").addEventListener("click", () => openText(store));
$("more").addEventListener("click", () => {
  const act = (id, look) => ({ words: $(id).textContent, look, run: () => $(id).click() });
  toLibrary();
  openMenu("Storyboard", $("more"), [act("retext", "text"), act("again", "again"), act("settings", "settings"), !$("add-pictures").hidden && act("add-pictures", "plus"), act("to-library", "folder")]);
});
$("help").addEventListener("click", () => openHelp());
$("title").addEventListener("change", () => store.edit({ kind: "retitle", title: $("title").value.trim() }));
$("title").addEventListener("keydown", (event) => event.key === "Enter" && event.target.blur());

function chord(event) {
  const key = event.key.toLowerCase();
  if (key === "z" && !typing(event.target)) return event.shiftKey ? () => store.redo() : () => store.undo();
  if (key === "y" && !typing(event.target)) return () => store.redo();
  if (key === "e") return () => openExport(store);
  return null;
}

const inOffers = () => Boolean(document.activeElement?.closest("#offers"));

/** Single-key shortcuts of the board and the panel. */
const SINGLE = {
  l: () => toggleLock(board.selected),
  L: () => lockOthers(board.selected),
  a: () => openAgain(store),
  b: () => toggleBlank(board.selected),
  c: () => compare(panel.offers.current() ?? undefined),
  s: () => panel.search(),
  m: () => {
    panel.open();
    panel.likeThis(panel.offers.current() ?? undefined);
  },
  r: () => {
    panel.open();
    panel.turn(panel.page === "reasons" ? "offers" : "reasons");
  },
  t: () => another(board.selected),
  x: () => pickUpOrPut(),
  z: () => zoom(board.selected, panel.offers.current() ?? undefined),
  e: () => panel.wording.open(),
  n: () => panel.wording.open("insert-after"),
  N: () => panel.wording.open("insert-before"),
  p: () => panel.wording.place(1),
  P: () => panel.wording.place(0),
  j: () => panel.wording.merge(),
  f: () => frame(board.selected),
};

function pickUpOrPut() {
  if (inOffers()) {
    const picture = panel.offers.current();
    carrying.take({ kind: "picture", id: picture.id }, described(picture));
    board.select(board.selected, { focus: true, told: false });
  } else if (carrying.held) carrying.put(board.selected);
  else if (movable(board.selected)) carrying.take({ kind: "step", step: board.selected }, `the picture of step ${board.selected + 1}`);
}

/** Whether a key is meant for the selected step: on its card, or on nothing, as right after loading. */
const onStep = (event) => event.target === document.body || Boolean(event.target.closest(".plate"));

function arrows(event) {
  if (!onStep(event)) return null;
  const forward = store.board.story.direction === "rtl" ? -1 : 1;
  const to = { ArrowRight: board.selected + forward, ArrowLeft: board.selected - forward, Home: 0, End: board.cards.length - 1 }[event.key];
  if (to !== undefined) return to;
  return event.key === "ArrowDown" ? board.vertical(1) : event.key === "ArrowUp" ? board.vertical(-1) : null;
}

document.addEventListener("keydown", (event) => {
  if (!store.project || document.querySelector("dialog[open]") || store.renumbering) return;
  if (event.ctrlKey || event.metaKey) {
    const act = event.altKey ? null : chord(event);
    if (act) {
      event.preventDefault();
      act();
    }
    return;
  }
  if (event.key === "Escape") {
    if (!carrying.release()) panel.close();
    return;
  }
  const by = event.altKey && !typing(event.target) ? { ArrowUp: -1, ArrowDown: 1 }[event.key] : undefined;
  if (by) {
    event.preventDefault();
    panel.wording.move(by);
    return;
  }
  if (event.altKey || typing(event.target)) return;
  const to = arrows(event);
  if (to !== null) {
    event.preventDefault();
    board.select(to, { focus: true });
    return;
  }
  if (event.key === "Enter" && onStep(event)) {
    event.preventDefault();
    panel.open();
    panel.turn("offers");
    panel.offers.focus();
    return;
  }
  if (!singleKeys() || !(onStep(event) || event.target.closest("#board, #panel"))) return;
  if (/^[1-9]$/.test(event.key)) {
    panel.offers.take(Number(event.key) - 1);
    return;
  }
  if (event.key === "Delete") {
    panel.wording.remove();
    return;
  }
  const act = SINGLE[event.shiftKey ? event.key.toUpperCase() : event.key.toLowerCase()];
  if (act) {
    event.preventDefault();
    act();
  }
});

// Words that are being typed on a card are kept, as when the field is left.
window.addEventListener("pagehide", () => document.activeElement?.blur());
window.addEventListener("beforeunload", (event) => store.saving === "unsaved" && event.preventDefault());
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible") return;
  if (store.saving === "unsaved") store.retry(); // Another tab may have signed in.
  store.refresh().catch(() => {});
});
panel.wording.addEventListener("drafted", unfinished);

store.load().catch((error) => {
  put($("board"), h("div", { class: "lost" }, h("h1", {}, "This project cannot be shown"), problem(error, () => location.reload()), h("p", {}, h("a", { href: "/" }, "To the start page"))));
  $("board").removeAttribute("aria-busy");
});
