// Unsaved text and changes: kept in this browser until they are saved or discarded by the user.

import { toast } from "./dom.js";

const PREFIX = "limner.draft.";
let warned = false;

/** Draft with a name, or null. */
export function draft(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name));
  } catch {
    return null;
  }
}

/** Store a draft; null deletes it. */
export function keepDraft(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    if (!warned) toast("This browser has no room to keep what you type until it is saved. Do not close this page.", { stay: true });
    warned = true;
  }
}

/** Names and drafts whose names have a prefix. */
export function drafts(beginning) {
  const names = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX + beginning));
  return names.map((key) => [key.slice(PREFIX.length), draft(key.slice(PREFIX.length))]).filter(([, value]) => value);
}
