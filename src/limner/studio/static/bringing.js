// Pictures brought from elsewhere: dropped on the page or chosen, copied into the library, read, and taken back.

import { api } from "./api.js";
import { openDialog } from "./dialogs.js";
import { announce, button, count, h, problem, put, when } from "./dom.js";
import { watchFolder } from "./folders.js";

const PICTURE = /\.(jpe?g|jpe|jfif|mpo|a?png|webp|gif|tiff?|avifs?|bmp|dib|jp2|j2k|jpx|jpf|p[bgnp]m|ico|qoi|psd|pcx|hei[cf]|hif|dng|cr[23]|nef|arw|orf|rw2|raf|pef|srw)$/i;
const LARGEST = 128 * 2 ** 20;
const AT_ONCE = 2;

export class Bringing extends EventTarget {
  /** @param {() => boolean} allowed whether pictures may be brought now */
  constructor(allowed) {
    super();
    this.allowed = allowed;
    this.place = h("section", { class: "bringing", "aria-label": "Pictures being added", hidden: true });
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
      this.bring(await dropped(event.dataTransfer));
    });
  }

  /** A dialog to choose files or a folder, and to take back what was brought. */
  async open() {
    const files = h("input", { type: "file", multiple: true, accept: "image/*,.heic,.heif,.dng,.cr2,.cr3,.nef,.arw,.orf,.rw2,.raf,.pef,.srw", hidden: true });
    const folder = h("input", { type: "file", webkitdirectory: true, hidden: true });
    const before = h("div", {});
    const box = openDialog("Add pictures", (close) => {
      const take = (input) => {
        input.addEventListener("change", () => {
          close();
          this.bring([...input.files].map((file) => [file.webkitRelativePath || file.name, file]));
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
   * Copy files into the library and read them.
   * @param {Array<[string, File]>} named path and file
   */
  async bring(named) {
    if (this.busy) return announce("Pictures are being added already.");
    const fit = named.filter(([path, file]) => (file.type.startsWith("image/") || PICTURE.test(path)) && !/(^|[\\/])\./.test(path));
    const refused = [];
    const others = named.length - fit.length;
    this.busy = true;
    try {
      const { kept, known, batch, stopped } = await this.#copy(fit, refused);
      if (kept) await this.#read(batch);
      this.#told({ kept, known, batch, stopped, refused, others });
    } catch (error) {
      this.#end(problem(error));
    }
    this.busy = false;
    this.dispatchEvent(new Event("done"));
  }

  async #copy(fit, refused) {
    const meter = h("progress", { max: fit.length || 1, value: 0, "aria-label": "Pictures copied" });
    const told = h("p", { class: "quiet small numbers" });
    let stopped = false;
    const stop = button("Stop", { on: { click: () => { stopped = stop.disabled = true; } } });
    this.place.hidden = false;
    put(this.place, h("div", { class: "job" }, h("div", { class: "row" }, h("p", {}, "Adding pictures"), stop), meter, told));
    const batch = fit.length ? (await api.beginBatch()).batch : "";
    let [kept, known, done] = [0, 0, 0];
    const waiting = [...fit];
    const carry = async () => {
      while (waiting.length && !stopped) {
        const [path, file] = waiting.shift();
        if (file.size > LARGEST) refused.push([path, `larger than ${LARGEST / 2 ** 20} MB`]);
        else {
          try {
            if ((await api.bring(batch, path, file)).state === "kept") kept++;
            else known++;
          } catch (error) {
            if (error.status === 0 || error.status === 403) throw error;
            refused.push([path, error.message || error.title]);
          }
        }
        done++;
        meter.value = done;
        put(told, `Copied ${done.toLocaleString("en")} of ${fit.length.toLocaleString("en")}`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, carry));
    return { kept, known, batch, stopped };
  }

  async #read(batch) {
    const { job } = await api.finishBatch(batch);
    const state = await this.#watch(job, "the pictures");
    if (state.state === "failed") throw { title: "The pictures were copied, but not read", message: state.message };
  }

  #watch(job, words) {
    const place = h("div", {});
    this.place.hidden = false;
    put(this.place, place);
    return watchFolder(place, job, words);
  }

  #told({ kept, known, batch, stopped, refused, others }) {
    const words = [
      kept ? `${count(kept, "picture")} added` : "No picture was added",
      known && `${count(known, "picture")} there already`,
      others && `${count(others, "other file")} passed by`,
      stopped && "stopped before the end",
    ].filter(Boolean);
    announce(`${words.join(", ")}.`);
    this.#end(
      h("div", { class: "row" }, h("p", {}, words.join(" · ")), kept > 0 && button("Undo", { on: { click: () => this.takeBack(batch) } })),
      refused.length > 0 && h("details", {}, h("summary", { class: "small" }, `${count(refused.length, "file")} not added`), h("ul", { class: "notes" }, refused.slice(0, 200).map(([path, why]) => h("li", {}, h("bdi", {}, path), `: ${why}`)))),
    );
  }

  #end(...nodes) {
    this.place.hidden = false;
    put(this.place, h("div", { class: "job" }, nodes, button("Dismiss", { look: "close", bare: true, kind: "plain dismiss", on: { click: () => (this.place.hidden = true) } })));
  }

  /** Take a batch out of the library again. */
  async takeBack(batch) {
    if (this.busy) return;
    this.busy = true;
    try {
      const { job } = await api.takeBack(batch);
      const state = await this.#watch(job, "what was taken back");
      if (state.state === "failed") this.#end(problem({ title: "They could not be taken back", message: state.message }));
      else {
        this.#end(h("p", {}, "Taken back. The files are in the library’s trash folder."));
        announce("Taken back.");
      }
    } catch (error) {
      this.#end(problem(error));
    }
    this.busy = false;
    this.dispatchEvent(new Event("done"));
  }
}

/** Path and file of everything that was dropped, folders with all that is in them. */
async function dropped(transfer) {
  // What is dropped is forgotten after the event: both are taken now.
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
    // Some of the entries at a time, until none are left.
    const some = await new Promise((done, failed) => reader.readEntries(done, failed)).catch(() => []);
    if (!some.length) return;
    for (const one of some) await enter(one, found);
  }
}
