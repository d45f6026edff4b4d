// Selection of several pictures in the library: keywords for all, and actions for the storyboard from which the user came.

import { api, links } from "./api.js";
import { openDialog } from "./dialogs.js";
import { button, count, h, inSentences, problem, put, toast } from "./dom.js";

export class Selection extends EventTarget {
  #project = null;

  /**
   * @param {HTMLElement} place container of the actions
   * @param {HTMLButtonElement} control starts and ends selecting
   * @param {import("./wall.js").Wall} wall
   * @param {() => boolean} writable whether captions may be edited
   */
  constructor(place, control, wall, writable) {
    super();
    Object.assign(this, { place, control, wall, writable });
    control.addEventListener("click", () => this.#turn(!this.wall.picking));
    wall.addEventListener("selected", () => this.#show());
  }

  /** The storyboard, and its step from 0, where a picture can be used. */
  into(project, step) {
    this.#project = { id: project, step };
  }

  end() {
    if (this.wall.picking) this.#turn(false);
  }

  #turn(on) {
    this.wall.selecting = on;
    put(this.control, on ? "Done" : "Select");
  }

  #show() {
    const pictures = [...this.wall.selected.values()];
    const none = !pictures.length;
    this.place.hidden = !this.wall.picking;
    const step = this.#project?.step;
    put(
      this.place,
      h("p", { class: "small numbers", role: "status" }, none ? "Click pictures to select them; Shift selects all between." : `${count(pictures.length, "picture")} selected`),
      this.writable() && button("Add keywords …", { look: "text", disabled: none, on: { click: () => this.#describe(pictures) } }),
      step >= 0 && button(`Use at step ${step + 1}`, { look: "view-large", disabled: pictures.length !== 1, on: { click: () => this.#edit(() => [{ kind: "choose", step, picture: pictures[0].id }], `In use at step ${step + 1}.`) } }),
      this.#project && button("Use as cover", { look: "cover", disabled: pictures.length !== 1, on: { click: () => this.#edit(({ options }) => [{ kind: "options", options: { ...options, cover: pictures[0].id } }], "It is the cover now.") } }),
      this.#project && button("Don’t use in this project", { look: "never", disabled: none, on: { click: () => this.#ban(pictures) } }),
    );
  }

  #describe(pictures) {
    openDialog(`Add keywords to ${count(pictures.length, "picture")}`, (close) => {
      const field = h("input", { type: "text", id: "several-keywords", dir: "auto", autocomplete: "off" });
      const trouble = h("div", { role: "status" });
      const save = h("button", { type: "submit", class: "button main" }, "Save");
      const form = h("form", {}, h("div", { class: "field" }, h("label", { for: "several-keywords" }, "Keywords, separated by commas; existing ones stay"), field), trouble, h("div", { class: "actions" }, button("Cancel", { on: { click: close } }), save));
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const added = field.value.split(",").map((word) => word.trim()).filter(Boolean);
        if (!added.length) return field.focus();
        save.disabled = true;
        const written = [];
        try {
          for (const { id } of pictures) {
            put(trouble, `${written.length.toLocaleString("en")} of ${count(pictures.length, "picture")} saved`);
            const { now } = await api.words(id);
            await api.writeWords(id, { captions: now.captions, keywords: [...new Set([...now.keywords, ...added])] });
            written.push(await api.picture(id));
          }
          close();
          this.#turn(false);
        } catch (error) {
          put(trouble, problem(error), written.length > 0 && `${count(written.length, "picture")} saved.`);
          save.disabled = false;
        }
        this.dispatchEvent(new CustomEvent("written", { detail: written }));
      });
      return [form];
    });
  }

  #ban(pictures) {
    return this.#edit(() => pictures.map(({ id }) => ({ kind: "ban", picture: id })), `${count(pictures.length, "picture")} no longer used in this project.`);
  }

  /** Make changes to the storyboard, one after the other; they are made from the project as it is. */
  async #edit(edits, done) {
    this.place.inert = true;
    try {
      const project = await api.project(this.#project.id);
      for (const [at, edit] of edits(project).entries()) await api.edit(this.#project.id, project.revision + at, edit);
      this.#turn(false);
      toast(done, { action: "Back to the storyboard", run: () => location.assign(links.project(this.#project.id)) });
    } catch (error) {
      toast(inSentences(error));
    } finally {
      this.place.inert = false;
    }
  }
}
