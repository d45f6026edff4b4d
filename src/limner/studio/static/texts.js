// A text file as words: its encoding and its format are told here, and a guess is said.

export const LIMIT = 2_000_000;

const SUFFIXES = { md: "markdown", markdown: "markdown", mdown: "markdown", mkd: "markdown", html: "html", htm: "html", xhtml: "html" };

/** Markdown or HTML where the text shows it plainly, else plain. */
export function guessFormat(text) {
  if (/^\s*(<!doctype html|<html[\s>]|<(article|body|main|h1|p|ol|ul)[\s>])/i.test(text)) return "html";
  if (/^(#{1,6} \S|\s{0,3}!\[[^\]]*\]\(|-{3,}\s*$)/m.test(text)) return "markdown";
  return "plain";
}

/**
 * Read a file the user gave.
 * @param {File} file
 * @returns {Promise<{text: string, format: string, note: string}>}
 */
export async function readText(file) {
  if (file.size > LIMIT) throw new Error(`it has ${(file.size / 1e6).toFixed(1)} MB; a text may have ${LIMIT / 1e6} MB.`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const { text, note } = decoded(bytes);
  if (!text.trim()) throw new Error("it holds no text.");
  const suffix = file.name.includes(".") ? file.name.split(".").pop().toLowerCase() : "";
  return { text, format: SUFFIXES[suffix] ?? "plain", note };
}

function decoded(bytes) {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return { text: new TextDecoder("utf-16le").decode(bytes), note: "" };
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return { text: new TextDecoder("utf-16be").decode(bytes), note: "" };
  const start = String.fromCharCode(...bytes.slice(0, 5));
  if (start.startsWith("PK\x03\x04") || start === "%PDF-") throw new Error("it is a Word document, a PDF or an archive, and this page opens texts. In a terminal, limner studio --text FILE opens Word documents and PDFs; or copy the words and paste them here.");
  if (bytes.includes(0)) throw new Error("it is not a text file.");
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), note: "" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), note: "The file is not UTF-8; it was read as Western European (Windows-1252). Look at the accents." };
  }
}
