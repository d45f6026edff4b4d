// Why a step shows what it shows: the plain sentence, the parts of the evidence, relations, and where the model looked.

import { h } from "./dom.js";
import { name } from "./pictures.js";

const ORIGINS = { decoded: "Chosen from the library", pinned: "Locked by you", given: "Given by the text", blank: "Left blank" };
const STRENGTHS = ["least", "less", "an even share", "more", "most"];
const EDGES = [0.5, 0.8, 1.25, 2]; // In even shares, as in the exported page.

/** A number of nats with its sign and a true minus. */
export function signed(nats) {
  const rounded = Number(nats.toFixed(2));
  return rounded === 0 ? "0.00" : `${rounded > 0 ? "+" : "−"}${Math.abs(rounded).toFixed(2)}`;
}

/** 1 to 5; 3 is about an even share. */
export const strength = (share, total) => 1 + EDGES.filter((edge) => share * total >= edge).length;

/**
 * The reasons of one step.
 * @param {{text: object, choice: object, state: string}} step
 * @param {{channels?: object, relations?: object}} wording
 */
export function reasons({ choice, state }, wording) {
  const chosen = choice.chosen;
  const origin = state === "blank" ? "Left blank by you" : ORIGINS[choice.origin];
  return h(
    "div",
    { class: "reasons" },
    h("p", { class: "sentence" }, `${origin}. `, choice.reason),
    chosen && evidence(chosen, choice.silent ?? [], wording.channels ?? {}, wording.pairwise ?? "neighbouring pictures"),
    relations(choice.relations ?? {}, wording.relations ?? {}),
    (choice.attention ?? []).length > 0 && legend(),
    chosen?.matched?.length > 0 && h("p", {}, "Matching words: ", chosen.matched.map((word, at) => [at > 0 && ", ", h("mark", {}, word)]), "."),
    typeof choice.probability === "number" && h("p", {}, `${chosen ? "This picture fits" : "The best picture would fit"} with a probability of ${percent(choice.probability)} %.`),
    rival(choice),
  );
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
    h("caption", {}, "Match strength"),
    h("tbody", {}, parts.map(([words, nats]) => h("tr", {}, h("th", { scope: "row" }, words), h("td", { class: "meter" }, bar(Math.abs(nats) / largest, nats < 0)), h("td", { class: "numbers" }, signed(nats))))),
    h("tfoot", {}, h("tr", {}, h("th", { scope: "row", colspan: 2 }, "total"), h("td", { class: "numbers" }, signed(chosen.score + (chosen.pairwise ?? 0))))),
  );
}

function relations(chances, sentences) {
  const rows = Object.entries(chances).sort((one, other) => other[1] - one[1]);
  if (!rows.length) return null;
  return h(
    "table",
    { class: "relations" },
    h("caption", {}, "Text and picture, as the model sees them"),
    h("tbody", {}, rows.map(([relation, chance]) => h("tr", { class: chance < 0.5 ? "unlikely" : undefined }, h("th", { scope: "row", title: relation }, sentences[relation] ?? relation, bar(chance, false)), h("td", { class: "numbers" }, `${percent(chance)} %`)))),
  );
}

function bar(extent, against) {
  const filled = h("span", { class: against ? "against" : "for" });
  filled.style.inlineSize = `${(100 * Math.min(1, extent)).toFixed(1)}%`;
  return h("span", { class: "bar-line", "aria-hidden": "true" }, filled);
}

function legend() {
  return h("div", { class: "looks" }, h("h3", {}, "Where the model looked in the text above"), h("ol", {}, STRENGTHS.map((words, at) => h("li", { class: `look${at + 1}` }, words))));
}

function rival(choice) {
  const other = choice.runners_up?.find((candidate) => candidate.picture.id !== choice.chosen?.picture.id);
  if (!choice.chosen || !other) return null;
  const called = h("bdi", {}, name(other.picture));
  if (typeof choice.gap !== "number") return h("p", {}, "Runner-up: ", called, ".");
  const nats = Math.abs(choice.gap);
  if (nats < 0.005) return h("p", {}, "Runner-up: ", called, ", equally strong.");
  const odds = Math.exp(Math.min(nats, 20));
  const ratio = odds > 1000 ? "far more than 1000" : odds >= 10 ? odds.toFixed(0) : odds.toFixed(1);
  return h("p", {}, "Runner-up: ", called, `, ${choice.gap > 0 ? "weaker" : "stronger"} by ${nats.toFixed(2)} (odds ${ratio} to 1).`);
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
