// The project as the server has it, and the edits on their way there. Nothing counts as saved before the server says so.

import { api } from "./api.js";

const RETRY_MS = 3000;

/**
 * @typedef {"loading"|"saved"|"saving"|"unsaved"} Saving
 */
export class Store extends EventTarget {
  #queue = [];
  #working = false;
  #timer = 0;

  constructor(id) {
    super();
    this.id = id;
    this.project = null;
    this.library = null;
    /** @type {Saving} */
    this.saving = "loading";
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
    const at = (step) => (step.chosen ? [step.chosen.picture, ...(step.more ?? [])].map((picture) => [picture.id, step.position]) : []);
    return new Map(this.board.steps.flatMap(at));
  }

  async load() {
    [this.project, this.library] = await Promise.all([api.project(this.id), api.library()]);
    this.#say("saved");
    this.#changed(null);
  }

  /** Fetch the project again where another window changed it. */
  async refresh() {
    if (this.#queue.length || this.#working || !this.project) return;
    const fresh = await api.project(this.id);
    if (fresh.revision !== this.project.revision) {
      const before = this.project;
      this.project = fresh;
      this.#changed(before);
    }
  }

  /** Queue one edit; resolves with true once the server has kept it. */
  edit(edit) {
    return this.#push((revision) => api.edit(this.id, revision, edit));
  }

  undo() {
    return this.project.can_undo || this.#queue.length ? this.#push((revision) => api.undo(this.id, revision)) : Promise.resolve(false);
  }

  redo() {
    return this.project.can_redo ? this.#push((revision) => api.redo(this.id, revision)) : Promise.resolve(false);
  }

  /** Whether something has not reached the server yet. */
  get pending() {
    return this.#queue.length > 0;
  }

  /** Try what failed again, now. */
  retry() {
    clearTimeout(this.#timer);
    this.#work();
  }

  #push(send) {
    return new Promise((resolve) => {
      this.#queue.push({ send, resolve });
      this.#work();
    });
  }

  async #work() {
    if (this.#working) return;
    this.#working = true;
    clearTimeout(this.#timer);
    while (this.#queue.length) {
      this.#say("saving");
      const { send, resolve } = this.#queue[0];
      try {
        const before = this.project;
        this.project = await send(before.revision);
        this.#queue.shift();
        this.#changed(before);
        resolve(true);
      } catch (problem) {
        if (problem.status === 0) {
          this.#say("unsaved", problem);
          this.#timer = setTimeout(() => this.#work(), RETRY_MS);
          this.#working = false;
          return;
        }
        this.#queue.shift();
        await this.#refused(problem);
        resolve(false);
      }
    }
    this.#working = false;
    this.#say("saved");
  }

  async #refused(problem) {
    if (problem.status === 409) {
      const before = this.project;
      try {
        this.project = await api.project(this.id);
        this.#changed(before);
      } catch {
        // The next edit will say that the server does not answer.
      }
    }
    this.dispatchEvent(new CustomEvent("refused", { detail: problem }));
  }

  #say(saving, problem = null) {
    this.saving = saving;
    this.dispatchEvent(new CustomEvent("saving", { detail: problem }));
  }

  #changed(before) {
    this.dispatchEvent(new CustomEvent("change", { detail: before }));
  }
}
