// Uploads: files dropped on the page or chosen, copied into the library, indexed, and removed again on undo.

import { api } from "./api.js";
import { openDialog } from "./dialogs.js";
import { announce, button, count, h, problem, put, when } from "./dom.js";
import { draft, keepDraft } from "./drafts.js";
import { watchFolder } from "./folders.js";
import { openSignIn } from "./signin.js";

const PICTURE = /\.(jpe?g|jpe|jfif|mpo|a?png|webp|gif|tiff?|avifs?|bmp|dib|jp2|j2k|jpx|jpf|p[bgnp]m|ico|qoi|psd|pcx|hei[cf]|hif|dng|cr[23]|nef|arw|orf|rw2|raf|pef|srw)$/i;
const LARGEST = 128 * 2 ** 20;
const AT_ONCE = 2;
const RETRY_MS = 3000;
/** Draft of an interrupted upload. */
const CUT = "upload";
const LISTED = 200;

export class Uploads extends EventTarget {
  /** @param {() => boolean} allowed whether pictures may be uploaded now */
  constructor(allowed) {
    super();
    this.allowed = allowed;
    this.place = h("section", { class: "uploads", "aria-label": "Pictures being added", hidden: true });
    document.body.append(this.place, h("div", { class: "landing", "aria-hidden": "true" }, h("p", {}, "Drop pictures or folders to add them to the library")));
    this.#drops();
  }

  #drops() {
    const files = (event) => event.dataTransfer?.types.includes("Files") && this.allowed() && !document.querySelector("dialog[open]");
    document.addEventListener("dragover", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      document.body.classList.add("landing-on");
    });
    document.addEventListener("dragleave", (event) => event.relatedTarget || document.body.classList.remove("landing-on"));
    document.addEventListener("drop", async (event) => {
      document.body.classList.remove("landing-on");
      if (!files(event)) return;
      event.preventDefault();
      this.upload(await dropped(event.dataTransfer));
    });
  }

  /** Dialog to choose files or a folder, and to undo uploads. */
  async open() {
    const files = h("input", { type: "file", multiple: true, accept: "image/*,.heic,.heif,.dng,.cr2,.cr3,.nef,.arw,.orf,.rw2,.raf,.pef,.srw", hidden: true });
    const folder = h("input", { type: "file", webkitdirectory: true, hidden: true });
    const before = h("div", {});
    const box = openDialog("Add pictures", (close) => {
      const take = (input) => {
        input.addEventListener("change", () => {
          close();
          this.upload([...input.files].map((file) => [file.webkitRelativePath || file.name, file]));
        });
        return input;
      };
      return [
        h("p", {}, "They are copied into the library’s own folder and read. The originals stay as they are; what is there already is not copied again."),
        h("div", { class: "ways" }, button("Choose pictures", { kind: "main", look: "file", on: { click: () => files.click() } }), button("Choose a folder", { look: "folder", on: { click: () => folder.click() } }), take(files), take(folder)),
        h("p", { class: "quiet small" }, "Or drop them anywhere on the page. For thousands of pictures, “Add a folder” reads them where they lie, without copying."),
        before,
      ];
    });
    const batches = await api.batches().catch(() => []);
    if (box.isConnected && batches.length) put(before, h("h3", {}, "Added before"), h("ul", { class: "batches" }, batches.slice(0, 20).map((one) => h("li", {}, h("span", {}, count(one.files, "picture"), h("span", { class: "quiet" }, `, ${when(one.brought_at)}`)), button("Take back", { kind: "plain", on: { click: () => { box.close(); this.takeBack(one.batch); } } })))));
  }

  /**
   * Copy files into the library and index them.
   * @param {Array<[string, File]>} named path and file
   */
  upload(named) {
    if (this.busy) return announce("Pictures are already being added.");
    const waiting = named.filter(([path, file]) => (file.type.startsWith("image/") || PICTURE.test(path)) && !/(^|[\\/])\./.test(path));
    const before = draft(CUT);
    keepDraft(CUT, null);
    return this.#carry({ waiting, all: waiting.length, batch: before?.batch ?? "", kept: 0, known: 0, refused: [], flying: new Set(), others: named.length - waiting.length });
  }

  /** Show an upload that was interrupted when the page was left; it continues when the files are chosen again. */
  resume() {
    const left = draft(CUT);
    if (!left || this.busy) return;
    const end = (run) => () => {
      keepDraft(CUT, null);
      this.place.hidden = true;
      run?.();
    };
    this.#end(
      h("p", {}, `The upload was interrupted: ${count(left.missing.length, "picture")} of ${left.all.toLocaleString("en")} missing.`),
      listed(left.missing.map((path) => [path, ""]), "missing"),
      h("div", { class: "actions" }, button("Discard", { kind: "plain", on: { click: end() } }), left.kept > 0 && button(`Read the ${count(left.kept, "picture")} that came`, { on: { click: end(() => this.#carry({ ...left, waiting: [], known: 0, refused: [], flying: new Set(), others: 0 })) } }), button("Choose them again", { kind: "main", on: { click: () => this.open() } })),
    );
  }

  async #carry(upload) {
    this.busy = true;
    const leave = () => this.#remember(upload);
    addEventListener("pagehide", leave);
    try {
      const cut = await this.#copy(upload);
      if (cut) this.#cutOff(upload, cut);
      else {
        if (upload.kept) await this.#read(upload.batch);
        this.#told(upload);
      }
    } catch (error) {
      this.#end(problem(error));
    }
    removeEventListener("pagehide", leave);
    this.busy = false;
    this.dispatchEvent(new Event("done"));
  }

  #remember({ waiting, flying, all, batch, kept }) {
    const missing = [...flying, ...waiting.map(([path]) => path)];
    keepDraft(CUT, missing.length ? { missing, all, batch, kept } : null);
  }

  /** Upload the waiting files; resolves with the reason for an interruption, if any. */
  async #copy(upload) {
    const { waiting, all, refused } = upload;
    const meter = h("progress", { max: all || 1, value: all - waiting.length, "aria-label": "Pictures copied" });
    const told = h("p", { class: "quiet small numbers" });
    const stop = button("Stop", { on: { click: () => { upload.stopped = stop.disabled = true; } } });
    this.place.hidden = false;
    put(this.place, h("div", { class: "job" }, h("div", { class: "row" }, h("p", {}, "Adding pictures"), stop), meter, told));
    let cut = null;
    let renewing = null;
    const carry = async () => {
      while (waiting.length && !upload.stopped && !cut) {
        const [path, file] = waiting.shift();
        if (file.size > LARGEST) refused.push([path, `larger than ${LARGEST / 2 ** 20} MB`]);
        else {
          const { batch } = upload;
          upload.flying.add(path);
          try {
            if ((await api.upload(batch, path, file)).state === "kept") upload.kept++;
            else upload.known++;
          } catch (error) {
            if (error.status === 403) throw error;
            if (error.status === 404 && (batch !== upload.batch || !renewing)) {
              // A batch of which nothing was stored before a restart.
              waiting.unshift([path, file]);
              renewing ??= api.beginBatch().then((begun) => (upload.batch = begun.batch));
              await renewing.catch((other) => (cut = other));
              continue;
            }
            if (error.status === 0 || error.status === 401 || error.status >= 500) {
              waiting.unshift([path, file]);
              cut = error;
              return;
            }
            refused.push([path, error.message || error.title]);
          } finally {
            upload.flying.delete(path);
          }
        }
        meter.value = all - waiting.length;
        put(told, `Copied ${(all - waiting.length).toLocaleString("en")} of ${all.toLocaleString("en")}`);
      }
    };
    try {
      if (waiting.length && !upload.batch) upload.batch = (await api.beginBatch()).batch;
    } catch (error) {
      if (error.status !== 0 && error.status !== 401) throw error;
      return error;
    }
    await Promise.all(Array.from({ length: AT_ONCE }, carry));
    return cut;
  }

  /** Show what is missing; continue automatically if there was no response, otherwise when the user asks. */
  #cutOff(upload, error) {
    this.#remember(upload);
    let timer = 0;
    const end = (run) => () => {
      clearTimeout(timer);
      keepDraft(CUT, null);
      run();
    };
    const go = end(() => this.#carry(upload));
    const finish = end(() => this.#carry({ ...upload, waiting: [], stopped: true }));
    if (error.status === 0) timer = setTimeout(go, RETRY_MS);
    const missing = count(upload.waiting.length, "picture");
    announce(`The upload was interrupted. ${missing} missing.`);
    this.place.hidden = false;
    put(
      this.place,
      h(
        "div",
        { class: "job" },
        problem(error),
        h("p", {}, `${missing} of ${upload.all.toLocaleString("en")} missing.`),
        listed(upload.waiting.map(([path]) => [path, ""]), "missing"),
        h("div", { class: "actions" }, button(upload.kept ? `Read the ${count(upload.kept, "picture")} that came` : "Discard", { on: { click: finish } }), error.status === 401 ? button("Sign in", { kind: "main", on: { click: () => openSignIn(go) } }) : button("Go on", { kind: "main", on: { click: go } })),
      ),
    );
  }

  async #read(batch) {
    const { job } = await api.finishBatch(batch);
    const state = await this.#watch(job, "the pictures", () => api.finishBatch(batch));
    if (state.state === "failed") throw { title: "The pictures were copied, but not read", message: state.message };
  }

  #watch(job, words, again) {
    const place = h("div", {});
    this.place.hidden = false;
    put(this.place, place);
    return watchFolder(place, job, words, again);
  }

  #told({ kept, known, batch, stopped, refused, others }) {
    const words = [
      kept ? `${count(kept, "picture")} added` : "No picture was added",
      known && `${count(known, "picture")} already in the library`,
      others > 0 && `${count(others, "file")} skipped (not a picture)`,
      stopped && "stopped before the end",
    ].filter(Boolean);
    announce(`${words.join(", ")}.`);
    this.#end(
      h("div", { class: "row" }, h("p", {}, words.join(" · ")), kept > 0 && button("Undo", { on: { click: () => this.takeBack(batch) } })),
      refused.length > 0 && listed(refused, "not added"),
    );
  }

  #end(...nodes) {
    this.place.hidden = false;
    put(this.place, h("div", { class: "job" }, nodes, button("Dismiss", { look: "close", bare: true, kind: "plain dismiss", on: { click: () => (this.place.hidden = true) } })));
  }

  /** Undo an upload. */
  async takeBack(batch) {
    if (this.busy) return;
    this.busy = true;
    try {
      const { job } = await api.takeBack(batch);
      const state = await this.#watch(job, "what was taken back");
      if (state.state === "failed") this.#end(problem({ title: "They could not be taken back", message: state.message }));
      else {
        this.#end(h("p", {}, "Upload undone. The files are in the library’s trash folder."));
        announce("Upload undone.");
      }
    } catch (error) {
      this.#end(problem(error));
    }
    this.busy = false;
    this.dispatchEvent(new Event("done"));
  }
}

/** File names, each with its message. */
function listed(files, words) {
  const more = files.length > LISTED && h("li", {}, `and ${(files.length - LISTED).toLocaleString("en")} more`);
  return h("details", {}, h("summary", { class: "small" }, `${count(files.length, "file")} ${words}`), h("ul", { class: "notes" }, files.slice(0, LISTED).map(([path, why]) => h("li", {}, h("bdi", {}, path), why && `: ${why}`)), more));
}

/** Path and file of everything dropped, including the content of folders. */
async function dropped(transfer) {
  // The dropped items are unavailable after the event, so both are read now.
  const files = [...transfer.files].map((file) => [file.name, file]);
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  for (const entry of entries) await enter(entry, found);
  return found.length ? found : files;
}

async function enter(entry, found) {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed)).catch(() => null);
    if (file) found.push([entry.fullPath.replace(/^\//, ""), file]);
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    // The entries come in portions until none are left.
    const some = await new Promise((done, failed) => reader.readEntries(done, failed)).catch(() => []);
    if (!some.length) return;
    for (const one of some) await enter(one, found);
  }
}
