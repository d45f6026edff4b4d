// The export dialog: formats, layout with a preview, contents; and preference data, which need consent.

import { api, links, Problem } from "./api.js";
import { openDialog } from "./dialogs.js";
import { announce, button, h, problem, put, toast } from "./dom.js";

const FORMATS = [
  ["html", "Shareable page", "one file with its pictures inside; opens anywhere, also without a network"],
  ["pdf", "PDF", "to print or to send"],
  ["docx", "Word", "to go on writing"],
  ["epub", "EPUB", "a book for e-readers"],
  ["pptx", "PowerPoint", "slides with pictures beside the words"],
  ["md", "Markdown", "with copies of the pictures, zipped"],
  ["json", "JSON", "the storyboard as data, without pictures"],
];
const PREVIEWS = { html: "The first steps of the page.", pdf: "The first pages, exactly as exported.", pptx: "The first slides, approximately as exported.", docx: "The first steps, approximately as Word shows them.", epub: "The first steps, approximately as e-readers show them." };
const LAYOUTS = { "": "Automatic", book: "Picture book", recipe: "Recipe", article: "Article", slides: "Slides" };
const PAGES = { "": "Automatic", a4: "A4", a5: "A5", letter: "Letter" };

/** Open the dialog of a project. */
export async function openExport(store) {
  if (document.querySelector("dialog[open]")) return;
  const trouble = h("div", {});
  const place = h("div", {});
  openDialog("Export", (close) => {
    api.library().then(
      (library) => put(place, formats(store, library.wording, trouble, close)),
      (error) => put(trouble, problem(error)),
    );
    return [place, trouble, preferences(trouble)];
  }, { kind: "wide" });
}

function formats(store, wording, trouble, close) {
  const kept = JSON.parse(localStorage.getItem("limner.export") ?? "{}");
  const choices = FORMATS.map(([format, words, note]) =>
    h("label", { class: "choice" }, h("input", { type: "radio", name: "format", value: format, checked: format === (kept.format ?? "html") }), h("span", {}, words, h("small", {}, note))),
  );
  const layout = select("layout", "Layout", LAYOUTS, kept.layout);
  const pages = select("page_size", "Page size", PAGES, kept.page_size);
  const go = h("button", { type: "submit", class: "button main" }, "Download");
  const told = h("figcaption", { class: "quiet small" });
  const frame = h("iframe", { title: "Preview of the first steps", sandbox: "", tabindex: "-1", "aria-hidden": "true" });
  const shown = h("figure", { class: "preview" }, h("div", { class: "page" }, frame), told);
  frame.addEventListener("load", () => shown.removeAttribute("aria-busy"));
  const content = h("label", { class: "choice" }, h("input", { type: "checkbox", name: "with_reasons", value: "true" }), h("span", {}, "With reasons", h("small", {}, "why each picture was chosen, and how")));
  const form = h(
    "form",
    { class: "exporting" },
    h("div", { class: "stack" }, h("fieldset", {}, h("legend", { class: "unseen" }, "Format"), choices), h("div", { class: "side-by-side" }, layout, pages), content),
    shown,
    h("div", { class: "actions" }, go),
  );
  const asked = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
  const follow = () => {
    const { format, ...plan } = asked();
    const having = wording.layouts[format] ?? [];
    for (const option of layout.querySelectorAll("option")) option.disabled = Boolean(option.value) && !having.includes(option.value);
    const own = layout.querySelector("select");
    if (own.selectedOptions[0]?.disabled) own.value = "";
    layout.hidden = shown.hidden = !having.length;
    pages.hidden = !wording.paged.includes(format);
    pages.querySelector("option").textContent = `Automatic (${format === "pptx" ? "wide slides" : "A4"})`;
    content.hidden = format === "json"; // JSON contains everything, and no pictures.
    if (!having.length) return;
    // "Automatic" means the first layout of the format if it lacks the one that suits the text.
    const place = links.layoutPage(store.id, { format, ...plan, layout: own.value || (having.length < 3 ? having[0] : "") });
    put(told, PREVIEWS[format]);
    if (frame.getAttribute("src") === place) return;
    shown.setAttribute("aria-busy", "true");
    frame.setAttribute("src", place);
  };
  form.addEventListener("change", follow);
  follow();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { format, ...plan } = asked();
    localStorage.setItem("limner.export", JSON.stringify({ format, ...plan }));
    if (layout.hidden) delete plan.layout;
    if (pages.hidden) delete plan.page_size;
    put(trouble);
    go.disabled = true;
    go.textContent = "Writing …";
    try {
      await download(links.export(store.id, format, plan), `storyboard.${format === "md" ? "zip" : format}`);
      announce("Downloaded.");
      close();
    } catch (error) {
      put(trouble, problem(error));
    }
    go.disabled = false;
    go.textContent = "Download";
  });
  return form;
}

function select(name, words, options, chosen = "") {
  const id = `export-${name}`;
  const offered = Object.entries(options).map(([value, told]) => h("option", { value, selected: value === chosen }, told));
  return h("div", { class: "field" }, h("label", { for: id }, words), h("select", { id, name }, offered));
}

function preferences(trouble) {
  const consent = h("input", { type: "checkbox", id: "consent" });
  const go = button("Download my choices", { disabled: true });
  consent.addEventListener("change", () => (go.disabled = !consent.checked));
  go.addEventListener("click", async () => {
    put(trouble);
    try {
      await download(links.preferences(), "preferences.jsonl");
      announce("Downloaded.");
    } catch (error) {
      put(trouble, problem(error));
    }
  });
  return h(
    "details",
    { class: "apart" },
    h("summary", {}, "Export my choices as training data"),
    h("p", { class: "quiet small" }, "Wherever you replaced a picture, in all projects of this library, the file names the step’s words and the text around it, the picture shown, the one you took, those you were offered, and the time. It stays on this machine unless you give it to somebody."),
    h("label", { class: "choice" }, consent, h("span", {}, "I agree that my choices are written to a file")),
    h("div", { class: "actions" }, go),
  );
}

async function download(path, fallback) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin" });
  } catch {
    throw new Problem(0, "The studio is not responding", "It may have been closed. Start it again, then download again.");
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Problem(answer.status, told.title ?? `Error ${answer.status}`, told.detail);
  }
  const notes = answer.headers.get("Limner-Notes");
  if (notes) toast(`Exported. ${decodeURIComponent(notes).split("\n").join("; ")}.`);
  const place = URL.createObjectURL(await answer.blob());
  const link = h("a", { href: place, download: fileName(answer.headers.get("Content-Disposition")) ?? fallback });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(place), 60_000);
}

function fileName(disposition) {
  const plain = /filename="([^"]+)"/.exec(disposition ?? "")?.[1] ?? /filename=([^;]+)/.exec(disposition ?? "")?.[1];
  const coded = /filename\*=UTF-8''([^;]+)/i.exec(disposition ?? "")?.[1];
  return coded ? decodeURIComponent(coded) : plain?.trim();
}
