// Texts that a page opens, and the notes on how they were read.

import { h } from "./dom.js";

const LIMIT = 8 * 2 ** 20; // Of a request.
const DOCUMENT = /^(PK\x03\x04|(\xef\xbb\xbf)?[\s\0]*%PDF-\d)/;

const SUFFIXES = { md: "markdown", markdown: "markdown", mdown: "markdown", mkd: "markdown", html: "html", htm: "html", xhtml: "html" };

/** Markdown or HTML if the text clearly is, else plain. */
export function guessFormat(text) {
  if (/^\s*(<!doctype html|<html[\s>]|<(article|body|main|h1|p|ol|ul)[\s>])/i.test(text)) return "html";
  if (/^(#{1,6} \S|\s{0,3}!\[[^\]]*\]\(|-{3,}\s*$)/m.test(text)) return "markdown";
  return "plain";
}

/** Options of commands in a note; the pages have controls for them. */
const OPTIONS = / \(--[^()]*\)/g;

/** Notes on how the text was read and divided, one per line; null without notes. */
export const importNotes = (notes) => (notes?.length ? h("ul", { class: "notes" }, notes.map((note) => h("li", {}, note.replace(OPTIONS, "")))) : null);

/**
 * The text of a file in UTF-8; null for documents and other encodings, which the server reads.
 * @param {File} file
 * @returns {Promise<{text: string, format: string}|null>}
 */
export async function readText(file) {
  if (file.size > LIMIT || DOCUMENT.test(String.fromCharCode(...new Uint8Array(await file.slice(0, 1024).arrayBuffer())))) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return { text, format: SUFFIXES[file.name.split(".").pop().toLowerCase()] ?? "plain" };
  } catch {
    return null;
  }
}
