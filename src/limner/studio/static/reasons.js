// Why a step shows what it shows: a plain sentence, how well it matches, the runner-up; numbers for those who ask.

import { h } from "./dom.js";
import { described, name, thumbnail } from "./pictures.js";

const STRENGTHS = ["least", "less", "an even share", "more", "most"];
const EDGES = [0.5, 0.8, 1.25, 2]; // In even shares, as in the exported page.

/** A number of nats with its sign and a true minus. */
export function signed(nats) {
  const rounded = Number(nats.toFixed(2));
  return rounded === 0 ? "0.00" : `${rounded > 0 ? "+" : "−"}${Math.abs(rounded).toFixed(2)}`;
}

/** 1 to 5; 3 is about an even share. */
export const strength = (share, total) => 1 + EDGES.filter((edge) => share * total >= edge).length;

const MATCHES = [[0.7, "very strong"], [0.5, "strong"], [0.25, "fair"], [0.1, "weak"], [0, "very weak"]];
const CHANCES = [[0.9, "almost certainly fits"], [0.7, "very likely fits"], [0.5, "probably fits"], [0.25, "may fit"], [0, "probably does not fit"]];
const LIKELY = [[0.8, "very likely"], [0.5, "likely"], [0.2, "unlikely"], [0, "very unlikely"]];
const GAPS = [[3, "much "], [1, ""], [0.1, "a little "]];
const said = (scale, value) => scale.find(([edge]) => value >= edge)[1];

/** How well a candidate matches the words of its step, 0 to 1; null where it was found by other words. */
export function matchOf(candidate) {
  if (typeof candidate.probability === "number") return candidate.probability;
  // A trained model has no calibration: odds of 20 to 1 against a picture drawn at random are an even match.
  return candidate.pairwise === undefined ? null : 1 / (1 + Math.exp(3 - candidate.score));
}

/** The same as a word and a bar, which is silent. */
export function match(candidate, words = "Match") {
  const extent = matchOf(candidate);
  return extent === null ? null : h("span", { class: "match" }, h("span", {}, `${words}: `, h("strong", {}, said(MATCHES, extent))), bar(extent, false));
}

let unfolded = false;

/**
 * The reasons of one step: words first, numbers behind “Numbers”.
 * @param {{choice: object, state: string}} step
 * @param {object} library as the server describes it
 * @param {(picture: object) => void} compare puts a picture beside the one that is shown
 */
export function reasons({ choice, state }, library, compare) {
  const chosen = choice.chosen;
  const wording = library.wording ?? {};
  const chance = library.calibrated && typeof choice.probability === "number" ? choice.probability : null;
  const numbers = [
    chosen && evidence(chosen, choice.silent ?? [], wording.channels ?? {}, wording.pairwise ?? "neighbouring pictures"),
    chance !== null && h("p", {}, `${chosen ? "This picture fits" : "The best picture would fit"} with a probability of ${percent(chance)} %.`),
    odds(choice),
    figures(choice.relations ?? {}),
  ].filter(Boolean);
  const details = numbers.length > 0 && h("details", { class: "apart", open: unfolded }, h("summary", { class: "quiet small" }, "Numbers"), numbers);
  if (details) details.addEventListener("toggle", () => (unfolded = details.open));
  return h(
    "div",
    { class: "reasons" },
    h("p", { class: "sentence" }, sentence(choice, state)),
    chosen && Object.keys(chosen.channels ?? {}).length > 0 && match({ probability: choice.probability, ...chosen }, "Match with the words"),
    chance !== null && h("p", {}, `${chosen ? "This picture" : "The best one"} ${said(CHANCES, chance)}.`),
    chosen?.matched?.length > 0 && h("p", {}, "Matching words: ", chosen.matched.map((word, at) => [at > 0 && ", ", h("mark", {}, word)]), "."),
    rival(choice, compare),
    relations(choice.relations ?? {}, wording.relations ?? {}),
    (choice.attention ?? []).length > 0 && legend(),
    details,
  );
}

function sentence(choice, state) {
  if (state === "blank") return "Left blank by you.";
  if (choice.origin === "pinned") return "Locked by you.";
  if (choice.blank === "nothing fits") return "Left blank: no picture of the library fits this step well enough.";
  return choice.origin === "given" ? choice.reason : `${choice.chosen ? "Chosen from the library" : "Left blank"}. ${choice.reason}`;
}

function evidence(chosen, silent, names, pairwise) {
  const told = Object.entries(chosen.channels ?? {}).filter(([channel]) => !silent.includes(channel));
  const parts = told.map(([channel, nats]) => [names[channel] ?? channel, nats]);
  if (chosen.pairwise) parts.push([pairwise, chosen.pairwise]);
  if (!parts.length) return null;
  const largest = Math.max(...parts.map(([, nats]) => Math.abs(nats)), 1e-9);
  return h(
    "table",
    {},
    h("caption", {}, "Match strength, as the natural logarithm of odds"),
    h("tbody", {}, parts.map(([words, nats]) => h("tr", {}, h("th", { scope: "row" }, words), h("td", { class: "meter" }, bar(Math.abs(nats) / largest, nats < 0)), h("td", { class: "numbers" }, signed(nats))))),
    h("tfoot", {}, h("tr", {}, h("th", { scope: "row", colspan: 2 }, "total"), h("td", { class: "numbers" }, signed(chosen.score + (chosen.pairwise ?? 0))))),
  );
}

const ranked = (chances) => Object.entries(chances).sort((one, other) => other[1] - one[1]);

function relations(chances, sentences) {
  const rows = ranked(chances);
  if (!rows.length) return null;
  return h(
    "table",
    { class: "relations" },
    h("caption", {}, "Text and picture, as the model sees them"),
    h("tbody", {}, rows.map(([relation, chance]) => h("tr", { class: chance < 0.5 ? "unlikely" : undefined }, h("th", { scope: "row", title: relation }, sentences[relation] ?? relation, bar(chance, false)), h("td", {}, said(LIKELY, chance))))),
  );
}

function figures(chances) {
  const rows = ranked(chances);
  if (!rows.length) return null;
  return h("table", { class: "shares" }, h("caption", {}, "Probabilities of relations"), h("tbody", {}, rows.map(([relation, chance]) => h("tr", {}, h("th", { scope: "row" }, relation), h("td", { class: "numbers" }, `${percent(chance)} %`)))));
}

function bar(extent, against) {
  const filled = h("span", { class: against ? "against" : "for" });
  filled.style.inlineSize = `${(100 * Math.max(0, Math.min(1, extent))).toFixed(1)}%`;
  return h("span", { class: "bar-line", "aria-hidden": "true" }, filled);
}

function legend() {
  return h("div", { class: "looks" }, h("h3", {}, "Where the model looked in the text above"), h("ol", {}, STRENGTHS.map((words, at) => h("li", { class: `look${at + 1}` }, words))));
}

const second = (choice) => choice.runners_up?.find((candidate) => candidate.picture.id !== choice.chosen?.picture.id);

/** The runner-up, or what came nearest to a blank, as a picture that can be put beside the choice. */
function rival(choice, compare) {
  const other = second(choice);
  if (!other) return null;
  const size = GAPS.find(([edge]) => Math.abs(choice.gap) >= edge);
  const stands = typeof choice.gap !== "number" ? "" : size ? `${size[1]}${choice.gap > 0 ? "weaker" : "stronger"}` : "about as strong";
  const words = choice.chosen ? "Runner-up" : "Comes nearest";
  const open = h("button", { type: "button", class: "offer", "aria-label": `Compare with ${described(other.picture)}`, on: { click: () => compare(other.picture) } }, thumbnail(other.picture, 128, { alt: "" }));
  return h("div", { class: "rival" }, open, h("p", {}, h("span", { class: "quiet" }, stands ? `${words}, ${stands}` : words), h("br"), h("bdi", {}, described(other.picture)), match(other)));
}

function odds(choice) {
  const other = second(choice);
  if (!choice.chosen || !other || typeof choice.gap !== "number") return null;
  const called = h("bdi", {}, name(other.picture));
  const nats = Math.abs(choice.gap);
  if (nats < 0.005) return h("p", {}, "Runner-up: ", called, ", equally strong.");
  const ratio = Math.exp(Math.min(nats, 20));
  const told = ratio > 1000 ? "far more than 1000" : ratio >= 10 ? ratio.toFixed(0) : ratio.toFixed(1);
  return h("p", {}, "Runner-up: ", called, `, ${choice.gap > 0 ? "weaker" : "stronger"} by ${nats.toFixed(2)} (odds ${told} to 1).`);
}

const percent = (value) => (value < 0.01 ? "under 1" : value > 0.99 ? "over 99" : (100 * value).toFixed(0));

/**
 * The text of a step in pieces, shaded by attention; words are found in order, and what lies between stays as it is.
 * @param {string} text
 * @param {Array<[string, number]>} attention
 * @returns {Array<Node|string>}
 */
export function shaded(text, attention) {
  const total = attention.length;
  const folded = text.toLowerCase();
  const pieces = [];
  let end = 0;
  for (const [word, share] of attention) {
    const at = folded.indexOf(word.toLowerCase(), end);
    if (at < 0 || !word) continue;
    if (at > end) pieces.push(text.slice(end, at));
    const level = strength(share, total);
    pieces.push(h("span", { class: `look${level}`, title: `${percent(share)} % of the attention` }, text.slice(at, at + word.length)));
    end = at + word.length;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

/** The text with the matching words marked. */
export function marked(text, words) {
  const wanted = [...new Set(words.filter((word) => word.trim()))].sort((one, other) => other.length - one.length);
  if (!wanted.length) return [text];
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])(${wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})(?![\\p{L}\\p{N}_])`, "giu");
  return text.split(pattern).map((piece, at) => (at % 2 ? h("mark", {}, piece) : piece));
}
