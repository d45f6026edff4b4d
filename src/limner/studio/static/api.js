// The studio's REST API. Every request goes to the server of this page; error messages are the server's.

/** An error response (problem+json), or no response at all (status 0). */
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail ?? "");
    this.status = status;
    this.title = title;
  }
}

async function call(method, path, body, signal, headers = {}) {
  const raw = body instanceof Blob;
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": raw ? "application/octet-stream" : "application/json" }), ...headers },
      body: body === undefined || raw ? body : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The studio is not responding", "It may have been closed. Start it again, then try again. Saved work is not lost.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer.status === 204 ? null : answer.json();
}

async function refusal(answer) {
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // A response without a body is described by its status alone.
  }
  const detail = typeof told.detail === "string" ? told.detail : "";
  return new Problem(answer.status, told.title ?? `Error ${answer.status}`, detail);
}

const at = (...parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;
const LATER = { Prefer: "respond-async" };
const SOON = { Prefer: "respond-async, wait=1" };

/** Send a request that may take long; if it continues as a job, show its progress, and fetch the result at the end. */
async function long(path, body, fetched) {
  const answer = await call("POST", path, body, undefined, SOON);
  if (!answer.job) return answer;
  const { attend } = await import("./jobs.js");
  const state = await attend(answer.job);
  if (state.state === "done") return fetched();
  if (state.state === "cancelled") throw new Problem(400, "Cancelled", "Nothing was changed.");
  // Jobs ended by a restart are started again; failed ones may be.
  throw state.state === "lost" ? new Problem(0, "The studio was restarted", state.message) : new Problem(500, "That was not done", state.message);
}

const query = (values) => {
  const kept = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
};

export const api = {
  library: () => call("GET", at("library")),
  pictures: (offset, limit, asked, signal) => call("GET", at("library", "pictures") + query({ offset, limit, ...asked }), undefined, signal),
  picture: (id) => call("GET", at("pictures", id)),
  facets: () => call("GET", at("library", "facets")),
  words: (id) => call("GET", at("pictures", id, "words")),
  writeWords: (id, words) => call("PUT", at("pictures", id, "words"), words),
  forgetWords: (id) => call("DELETE", at("pictures", id, "words")),
  folders: (path) => call("GET", at("folders") + query({ path })),
  openDocument: (file, asked) => call("POST", at("documents") + query({ name: file.name, ...asked }), file, undefined, LATER),
  batches: () => call("GET", at("library", "batches")),
  beginBatch: () => call("POST", at("library", "batches"), {}),
  upload: (batch, name, file) => call("POST", at("library", "batches", batch, "files") + query({ name }), file),
  finishBatch: (batch) => call("POST", at("library", "batches", batch, "finish"), {}),
  takeBack: (batch) => call("DELETE", at("library", "batches", batch)),
  leftOut: (offset, limit) => call("GET", at("library", "left-out") + query({ offset, limit })),
  duplicates: (offset, limit) => call("GET", at("library", "duplicates") + query({ offset, limit })),
  addFolder: (path, forget = false) => call("POST", at("library", "folders"), { path, forget }),
  jobs: () => call("GET", at("jobs")),
  job: (id) => call("GET", at("jobs", id)),
  cancel: (id) => call("POST", at("jobs", id, "cancel"), {}),
  search: (asked, signal) => call("POST", at("search"), asked, signal),
  projects: () => call("GET", at("projects")),
  project: (id) => call("GET", at("projects", id)),
  create: (project) => call("POST", at("projects"), project, undefined, LATER),
  duplicate: (id) => call("POST", at("projects", id, "duplicate"), {}),
  remove: (id) => call("DELETE", at("projects", id)),
  trash: () => call("GET", at("trash")),
  restore: (item) => call("POST", at("trash", item, "restore"), {}),
  edit: (id, revision, edit, key = "") => long(at("projects", id, "edits"), { revision, edit, key }, () => api.project(id)),
  preview: (id, revision, options) => {
    const asked = options ? { revision, options } : { revision };
    return long(at("projects", id, "preview"), asked, () => call("POST", at("projects", id, "preview"), asked));
  },
  undo: (id, revision, key) => call("POST", at("projects", id, "undo"), { revision, key }),
  redo: (id, revision, key) => call("POST", at("projects", id, "redo"), { revision, key }),
  candidates: (id, step, values, signal) => call("GET", at("projects", id, "steps", step, "candidates") + query(values), undefined, signal),
};

export const links = {
  thumbnail: (id, side) => at("pictures", id, "thumbnail") + query({ side }),
  file: (id) => at("pictures", id, "file"),
  events: (job) => at("jobs", job, "events"),
  export: (id, format, plan) => at("projects", id, "export") + query({ format, ...plan }),
  layoutPage: (id, plan) => at("projects", id, "export", "preview") + query(plan),
  preferences: () => at("preferences") + query({ consent: "yes" }),
  project: (id) => `/projects/${encodeURIComponent(id)}`,
};

/** Items of a response that is or contains a list. */
export const items = (answer) => (Array.isArray(answer) ? answer : (answer?.items ?? []));
