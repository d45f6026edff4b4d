// Reads a file as text: its encoding and format are detected here, and a guess is reported; the server reads
// files that are not text.

import { api } from "./api.js";
import { h } from "./dom.js";

const LIMIT = 2_000_000;
const DOCUMENT_LIMIT = 128 * 2 ** 20;
const DOCUMENT = /^(PK\x03\x04|PK\x05\x06|(\xef\xbb\xbf)?[\s\0]*%PDF-\d)/;

const SUFFIXES = { md: "markdown", markdown: "markdown", mdown: "markdown", mkd: "markdown", html: "html", htm: "html", xhtml: "html" };

/** Markdown or HTML if the text clearly is, else plain. */
export function guessFormat(text) {
  if (/^\s*(<!doctype html|<html[\s>]|<(article|body|main|h1|p|ol|ul)[\s>])/i.test(text)) return "html";
  if (/^(#{1,6} \S|\s{0,3}!\[[^\]]*\]\(|-{3,}\s*$)/m.test(text)) return "markdown";
  return "plain";
}

/** Notes on how the text was read and divided, one per line; null without notes. */
export const importNotes = (notes) => (notes?.length ? h("ul", { class: "notes" }, notes.map((note) => h("li", {}, note))) : null);

/**
 * Read a file of the user; its content decides its kind.
 * @param {File} file
 * @param {AbortSignal} signal
 * @returns {Promise<{text: string, format: string, notes: string[], given?: Object<number, string>}>} given:
 *   the pictures of the library that a document shows, by step
 */
export async function readText(file, signal) {
  const isDocument = DOCUMENT.test(latin(await file.slice(0, 1024).arrayBuffer()));
  const limit = isDocument ? DOCUMENT_LIMIT : LIMIT;
  if (file.size > limit) throw new Error(`It is ${megabytes(file.size)} MB; a ${isDocument ? "document" : "text"} may be at most ${megabytes(limit)} MB.`);
  if (isDocument) return api.openDocument(file, signal);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const { text, note } = decoded(bytes);
  if (text === null) return api.openDocument(file, signal);
  if (!text.trim()) throw new Error("It contains no text.");
  const suffix = file.name.includes(".") ? file.name.split(".").pop().toLowerCase() : "";
  return { text, format: SUFFIXES[suffix] ?? "plain", notes: note ? [note] : [] };
}

const latin = (buffer) => String.fromCharCode(...new Uint8Array(buffer));
const megabytes = (size) => (size / 1e6).toFixed(size % 1e6 ? 1 : 0);

/** Decoded text; null if it is not text. */
function decoded(bytes) {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return { text: new TextDecoder("utf-16le").decode(bytes), note: "" };
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return { text: new TextDecoder("utf-16be").decode(bytes), note: "" };
  if (bytes.includes(0)) return { text: null };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), note: "" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), note: "The file is not UTF-8; it was read as Western European (Windows-1252). Check the accents." };
  }
}
