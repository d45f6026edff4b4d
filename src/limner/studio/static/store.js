// The project on the server, and the edits being sent. Nothing counts as saved until the server confirms it.

import { api } from "./api.js";
import { toast } from "./dom.js";
import { draft, keepDraft } from "./drafts.js";
import { shownAt } from "./framing.js";

const RETRY_MS = 3000;
/** Statuses of changes that are impossible; after any other error, a change waits and can be sent again. */
const IMPOSSIBLE = new Set([400, 413, 422]);
/** Changes that move steps: until they are made, no step can be addressed. */
const RENUMBERING = new Set(["retext", "split", "merge", "remove", "insert-before", "insert-after", "place", "move"]);
const AFTERWARDS = { lock: "locked", choose: "locked", swap: "locked", blank: "blank", unlock: "free" };

/**
 * A change that is not saved yet.
 * @typedef {{act: "edit"|"undo"|"redo", key: string, revision: number, edit?: object, draft?: string}} Waiting
 * `revision` is the one that the user saw, `key` lets the server make the change only once, `draft` names
 * the draft to delete when it is saved.
 * @typedef {"loading"|"saved"|"saving"|"unsaved"} Saving
 */
export class Store extends EventTarget {
  /** @type {Array<Waiting>} */
  #queue = [];
  #known = new Set();
  #resolvers = new Map();
  #working = false;
  #timer = 0;

  constructor(id) {
    super();
    this.id = id;
    this.project = null;
    this.library = null;
    /** @type {Saving} */
    this.saving = "loading";
    /** Why the first change was not saved. */
    this.problem = null;
  }

  get board() {
    return this.project.board;
  }

  /** Story step, board step and state of one position. */
  step(position) {
    return {
      text: this.board.story.steps[position],
      choice: this.board.steps[position],
      state: this.project.steps[position].state,
      relation: this.project.steps[position].relation ?? null,
    };
  }

  /** picture id → 0-based step that shows it. */
  shown() {
    return new Map(this.board.steps.flatMap((_, at) => shownAt(this.step(at)).map(({ id }) => [id, at])));
  }

  /** Unsaved changes, oldest first. */
  get waiting() {
    return this.#queue;
  }

  /** Whether anything has not reached the server yet. */
  get pending() {
    return this.#queue.length > 0;
  }

  /** Whether a pending change will move steps. */
  get renumbering() {
    return this.#queue.some(({ edit }) => RENUMBERING.has(edit?.kind));
  }

  /** The unsaved changes of a step. */
  changing(position) {
    return this.#queue.filter(({ edit }) => edit && [edit.step, edit.a, edit.b].includes(position));
  }

  /** The state of a step once all pending changes are saved. */
  stateAfter(position) {
    const last = this.changing(position).map(({ edit }) => AFTERWARDS[edit.kind]).filter(Boolean).pop();
    return last ?? this.step(position).state;
  }

  async load() {
    [this.project, this.library] = await Promise.all([api.project(this.id), api.library()]);
    this.#queue = draft(this.#place) ?? [];
    for (const { key } of this.#queue) this.#known.add(key);
    if (!this.pending) this.#say("saved");
    this.#changed(null);
    this.#work();
  }

  /** Fetch the project again if another window changed it. */
  async refresh() {
    if (this.pending || this.#working || !this.project) return;
    await this.#fetch();
  }

  /**
   * Queue an edit; resolves with true once the server has saved it.
   * @param {object} edit
   * @param {{draft?: string, revision?: number}} [options] a draft to delete then; the revision that the user saw,
   *   unless it is the current one
   */
  edit(edit, { draft: name, revision } = {}) {
    return this.#push({ act: "edit", edit, draft: name, revision });
  }

  /** Undo the last change; with a revision, only the change that created it. */
  undo(revision) {
    return this.project.can_undo || this.pending ? this.#push({ act: "undo", revision }) : Promise.resolve(false);
  }

  redo() {
    return this.project.can_redo ? this.#push({ act: "redo" }) : Promise.resolve(false);
  }

  /** Retry failed changes now. */
  retry() {
    clearTimeout(this.#timer);
    this.#work();
  }

  /** Make the changes on the current project, whatever was changed elsewhere. */
  insist() {
    for (const one of this.#queue) {
      one.revision = this.project.revision;
      delete one.edit?.offer;
    }
    this.retry();
  }

  /** Wait until nothing is being sent. */
  async settled() {
    while (this.saving === "saving") await new Promise((resolve) => this.addEventListener("saving", resolve, { once: true }));
  }

  /** Discard unsaved changes. */
  discard() {
    if (this.#working) return;
    clearTimeout(this.#timer);
    for (const { key } of this.#queue.splice(0)) this.#resolve(key, false);
    this.#keep();
    this.#say("saved");
  }

  get #place() {
    return `${this.id}.waiting`;
  }

  /** Store pending changes in the browser, next to those of other windows of this project. */
  #keep() {
    const others = (draft(this.#place) ?? []).filter(({ key }) => !this.#known.has(key));
    const all = [...others, ...this.#queue];
    keepDraft(this.#place, all.length ? all : null);
  }

  #push(waiting) {
    return new Promise((resolve) => {
      const key = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
      this.#known.add(key);
      this.#resolvers.set(key, resolve);
      this.#queue.push({ ...waiting, key, revision: waiting.revision ?? this.project.revision });
      this.#keep();
      if (this.saving !== "saved") this.#say(this.saving, this.problem);
      this.#work();
    });
  }

  #resolve(key, kept) {
    this.#resolvers.get(key)?.(kept);
    this.#resolvers.delete(key);
  }

  #send({ act, revision, edit, key }) {
    return act === "edit" ? api.edit(this.id, revision, edit, key) : api[act](this.id, revision, key);
  }

  async #work() {
    if (this.#working) return;
    // A conflict stays until the user resolves it.
    if (this.saving === "unsaved" && this.problem?.status === 409 && this.#queue[0]?.revision !== this.project.revision) return;
    this.#working = true;
    clearTimeout(this.#timer);
    while (this.#queue.length) {
      this.#say("saving");
      const first = this.#queue[0];
      try {
        const before = this.project;
        this.project = await this.#applied(await this.#send(first));
        this.#queue.shift();
        // Later changes were made on the result of this one, unless others came in between.
        if (this.project.revision === first.revision + 1) for (const one of this.#queue) if (one.revision === first.revision) one.revision++;
        this.#keep();
        if (first.draft) keepDraft(first.draft, null);
        this.#changed(before);
        this.#resolve(first.key, true);
      } catch (problem) {
        if (problem.status === 409) await this.#fetch().catch(() => {});
        const undoing = first.act !== "edit" && problem.status === 409;
        if (!IMPOSSIBLE.has(problem.status) && !undoing) {
          this.#working = false;
          this.#say("unsaved", problem);
          if (problem.status === 0) this.#timer = setTimeout(() => this.#work(), RETRY_MS);
          return;
        }
        this.#queue.shift();
        this.#keep();
        this.dispatchEvent(new CustomEvent("refused", { detail: problem }));
        this.#resolve(first.key, false);
      }
    }
    this.#working = false;
    this.#say("saved");
  }

  /** The project after a response: changes applied to the current one if they refer to it, or else the whole project. */
  #applied(answer) {
    if (answer.since === undefined) return answer;
    return answer.since === this.project.revision ? applied(this.project, answer) : api.project(this.id);
  }

  async #fetch() {
    const fresh = await api.project(this.id);
    if (fresh.revision === this.project.revision) return;
    const before = this.project;
    this.project = fresh;
    this.#changed(before);
  }

  #say(saving, problem = null) {
    this.saving = saving;
    this.problem = problem;
    this.dispatchEvent(new CustomEvent("saving", { detail: problem }));
  }

  #changed(before) {
    this.dispatchEvent(new CustomEvent("change", { detail: before }));
  }
}

/** A project with the changes of one response; unchanged parts stay the same objects. */
export function applied(project, { since, count, order, steps, text, story: told, blocks, runs, cover, threshold, settings, ...head }) {
  const places = order ?? Array.from({ length: count }, (_, place) => place);
  const at = (list) => places.map((place, position) => (place === null || place === position ? (list[place] ?? null) : { ...list[place], position }));
  const story = places.map((place) => project.board.story.steps[place] ?? null);
  const board = at(project.board.steps);
  const states = at(project.steps);
  for (const step of steps) [story[step.position], board[step.position], states[step.position]] = [step.story, step.board, step.state];
  const placed = runs ? story.map((step, position) => ({ ...step, run: runs[position] })) : story;
  return {
    ...project,
    ...head,
    text: text ?? project.text,
    steps: states,
    board: { ...project.board, cover, threshold, settings, steps: board, story: { ...project.board.story, ...told, blocks: blocks ?? project.board.story.blocks, steps: placed } },
  };
}

/** Announce the last change, with an undo button until the next change. */
export function undoable(store, words) {
  const { revision } = store.project;
  if (store.pending) return toast(words);
  const note = toast(words, { action: "Undo", run: () => store.undo(revision) });
  const followed = () => {
    if (store.project.revision === revision && !store.pending) return;
    note.querySelector("button")?.remove();
    for (const kind of ["change", "saving"]) store.removeEventListener(kind, followed);
  };
  for (const kind of ["change", "saving"]) store.addEventListener(kind, followed);
  return note;
}
