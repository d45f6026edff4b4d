// Reasons for a step's picture: a sentence, the probability that it fits, the evidence, and the runners-up.

import { h } from "./dom.js";
import { described, thumbnail } from "./pictures.js";

const STRENGTHS = ["least", "less", "an even share", "more", "most"];
const EDGES = [0.5, 0.8, 1.25, 2]; // In even shares, as in the exported page.

/** 1 to 5; 3 is about an even share. */
export const strength = (share, total) => 1 + EDGES.filter((edge) => share * total >= edge).length;

const FITS = [[0.5, "fits"], [0.2, "may fit"], [0, "weak"]]; // As in the exported page.
const RATINGS = [[1.5, "It stands out in the library by"], [0.5, "It is above average by"], [-Infinity, "It is one of many by"]]; // In standard deviations.
const LIKELY = [[0.8, "very likely"], [0.5, "likely"], [0.2, "unlikely"], [0, "very unlikely"]];
const RUNNERS_UP = 3;
const said = (scale, value) => scale.find(([edge]) => value >= edge)[1];

/** A probability as a word: "fits", "may fit" or "weak"; null if unknown. */
export const fit = (chance) => (typeof chance === "number" ? said(FITS, chance) : null);

/** A probability as a word and in percent; null if unknown. */
const chanceLine = (chance) => fit(chance) && h("span", { class: "match" }, h("strong", {}, fit(chance)), " ", h("span", { class: "quiet small" }, `${percent(chance)} %`));

/** The probability that a candidate fits its step; null for results of another search. */
export const chanceOf = (candidate) => (candidate.agreement === undefined ? null : chanceLine(candidate.probability));

const VERDICTS = { fits: "fits this step", "may fit": "may fit this step", weak: "probably does not fit this step" };

let unfolded = false;

/**
 * The reasons of one step; numbers on relations are behind “Numbers”.
 * @param {{choice: object, state: string}} step
 * @param {object} library as returned by the server
 * @param {(picture: object) => void} compare shows a picture next to the step's
 */
export function reasons({ choice, state }, library, compare) {
  const chosen = choice.chosen;
  const wording = library.wording ?? {};
  const shares = figures(choice.relations ?? {});
  const details = shares && h("details", { class: "apart", open: unfolded }, h("summary", { class: "quiet small" }, "Numbers"), shares);
  if (details) details.addEventListener("toggle", () => (unfolded = details.open));
  return h(
    "div",
    { class: "reasons" },
    choice.blank !== "nothing fits" && verdict(choice.probability, chosen ? "The picture" : "The best picture"),
    h("p", { class: "sentence" }, sentence(choice, state)),
    chosen && ratings(chosen.channels ?? {}, wording.channels ?? {}),
    rivals(choice, compare),
    relations(choice.relations ?? {}, wording.relations ?? {}),
    (choice.attention ?? []).length > 0 && legend(),
    details,
  );
}

function verdict(chance, subject) {
  return fit(chance) && h("p", { class: "verdict" }, `${subject} ${VERDICTS[fit(chance)]}. `, h("span", { class: "quiet small" }, `Probability: ${percent(chance)} %`), bar(chance));
}

function sentence(choice, state) {
  if (state === "blank") return "Left blank by you.";
  if (choice.origin === "pinned") return "Locked by you.";
  return choice.origin === "given" ? choice.reason : `${choice.chosen ? "Chosen from the library" : "Left blank"}. ${choice.reason}`;
}

/** The channels in which the picture stands out in the library, one sentence for each rating. */
function ratings(channels, names) {
  const rated = Object.entries(channels).map(([channel, deviations]) => [said(RATINGS, deviations), names[channel] ?? channel]);
  return RATINGS.map(([, words]) => [words, rated.filter(([rating]) => rating === words).map(([, channel]) => channel)]).filter(([, by]) => by.length).map(([words, by]) => h("p", { class: "rating" }, `${words} ${by.join(", ")}.`));
}

const ranked = (chances) => Object.entries(chances).sort((one, other) => other[1] - one[1]);

function relations(chances, sentences) {
  const rows = ranked(chances);
  if (!rows.length) return null;
  return h(
    "table",
    { class: "relations" },
    h("caption", {}, "Text and picture, as the model sees them"),
    h("tbody", {}, rows.map(([relation, chance]) => h("tr", { class: chance < 0.5 ? "unlikely" : undefined }, h("th", { scope: "row", title: relation }, sentences[relation] ?? relation, bar(chance)), h("td", {}, said(LIKELY, chance))))),
  );
}

function figures(chances) {
  const rows = ranked(chances);
  if (!rows.length) return null;
  return h("table", { class: "shares" }, h("caption", {}, "Probabilities of relations"), h("tbody", {}, rows.map(([relation, chance]) => h("tr", {}, h("th", { scope: "row" }, relation), h("td", { class: "numbers" }, `${percent(chance)} %`)))));
}

function bar(extent) {
  const filled = h("span", {});
  filled.style.inlineSize = `${(100 * Math.max(0, Math.min(1, extent))).toFixed(1)}%`;
  return h("span", { class: "bar-line", "aria-hidden": "true" }, filled);
}

function legend() {
  return h("div", { class: "looks" }, h("h3", {}, "The model's attention to the text above"), h("ol", {}, STRENGTHS.map((words, at) => h("li", { class: `look${at + 1}` }, words))));
}

/** The runners-up, or the nearest pictures of a blank, which can be compared with the choice. */
function rivals(choice, compare) {
  const others = (choice.runners_up ?? []).filter((candidate) => candidate.picture.id !== choice.chosen?.picture.id).slice(0, RUNNERS_UP);
  if (!others.length) return null;
  const words = choice.chosen ? (others.length > 1 ? "Runners-up" : "Runner-up") : "Nearest pictures";
  const told = typeof others[0].probability === "number" ? (others.length > 1 ? ", with their chances to fit" : ", with its chance to fit") : "";
  return h("section", { class: "rivals" }, h("h3", {}, words, told), h("ol", {}, others.map((other) => rival(other, compare))));
}

function rival(other, compare) {
  const open = h("button", { type: "button", class: "offer", "aria-label": `Compare with ${described(other.picture)}`, on: { click: () => compare(other.picture) } }, thumbnail(other.picture, 128, { alt: "" }));
  return h("li", { class: "rival" }, open, h("p", {}, h("bdi", {}, described(other.picture)), chanceLine(other.probability, "")));
}

/** A probability as a whole number of percent. */
export const percent = (value) => (value < 0.01 ? "under 1" : value > 0.99 ? "over 99" : (100 * value).toFixed(0));

/**
 * The text of a step in pieces shaded by attention; words are found in order, and the text between stays as it is.
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
