// The studio's REST interface. Every call goes to the server this page came from; errors carry the server's own words.

/** A refusal of the server (problem+json), or no answer at all (status 0). */
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail ?? "");
    this.status = status;
    this.title = title;
  }
}

async function call(method, path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      headers: body === undefined ? { Accept: "application/json" } : { Accept: "application/json", "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The studio does not answer", "Is `limner studio` still running? Nothing that was saved is lost.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer.status === 204 ? null : answer.json();
}

async function refusal(answer) {
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // An answer without a body is told by its status alone.
  }
  const detail = typeof told.detail === "string" ? told.detail : "";
  return new Problem(answer.status, told.title ?? `Error ${answer.status}`, detail);
}

const at = (...parts) => `/api/${parts.map(encodeURIComponent).join("/")}`;
const query = (values) => {
  const kept = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
};

export const api = {
  library: () => call("GET", at("library")),
  pictures: (offset, limit, q, signal) => call("GET", at("library", "pictures") + query({ offset, limit, q }), undefined, signal),
  leftOut: (offset, limit) => call("GET", at("library", "left-out") + query({ offset, limit })),
  duplicates: (offset, limit) => call("GET", at("library", "duplicates") + query({ offset, limit })),
  addFolder: (path) => call("POST", at("library", "folders"), { path }),
  job: (id) => call("GET", at("jobs", id)),
  cancel: (id) => call("POST", at("jobs", id, "cancel"), {}),
  search: (asked, signal) => call("POST", at("search"), asked, signal),
  projects: () => call("GET", at("projects")),
  project: (id) => call("GET", at("projects", id)),
  create: (project) => call("POST", at("projects"), project),
  remove: (id) => call("DELETE", at("projects", id)),
  edit: (id, revision, edit) => call("POST", at("projects", id, "edits"), { revision, edit }),
  undo: (id, revision) => call("POST", at("projects", id, "undo"), { revision }),
  redo: (id, revision) => call("POST", at("projects", id, "redo"), { revision }),
  candidates: (id, step, values, signal) => call("GET", at("projects", id, "steps", step, "candidates") + query(values), undefined, signal),
};

export const links = {
  thumbnail: (id, side) => at("pictures", id, "thumbnail") + query({ side }),
  file: (id) => at("pictures", id, "file"),
  events: (job) => at("jobs", job, "events"),
  export: (id, format) => at("projects", id, "export") + query({ format }),
  preferences: () => at("preferences") + query({ consent: "yes" }),
  project: (id) => `/projects/${encodeURIComponent(id)}`,
};

/** Items of an answer that is a list, or holds one. */
export const items = (answer) => (Array.isArray(answer) ? answer : (answer?.items ?? []));
