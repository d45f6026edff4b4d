// The export dialog: four formats for readers, one for programs, and preferences, which need consent.

import { links, Problem } from "./api.js";
import { openDialog } from "./dialogs.js";
import { announce, button, h, problem, put } from "./dom.js";

const FORMATS = [
  ["html", "Web page", "one file that holds its pictures"],
  ["md", "Markdown", "with copies of the pictures, zipped"],
  ["pptx", "PowerPoint", "one slide for each step"],
  ["pdf", "PDF", "to print or to send"],
  ["json", "JSON", "the storyboard as data, without pictures"],
];

/** Open the dialog for a project. */
export function openExport(store) {
  if (document.querySelector("dialog[open]")) return;
  const trouble = h("div", {});
  openDialog("Export", (close) => [formats(store, trouble, close), trouble, preferences(trouble)]);
}

function formats(store, trouble, close) {
  const chosen = localStorage.getItem("limner.format") ?? "html";
  const choices = FORMATS.map(([format, words, note]) =>
    h("label", { class: "choice" }, h("input", { type: "radio", name: "format", value: format, checked: format === chosen }), h("span", {}, words, h("small", {}, note))),
  );
  const go = h("button", { type: "submit", class: "button main" }, "Download");
  const form = h(
    "form",
    {},
    h("fieldset", {}, h("legend", { class: "unseen" }, "Format"), choices),
    h("p", { class: "quiet small" }, "Alternative texts and credits are written into every format."),
    h("div", { class: "actions" }, go),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const format = new FormData(form).get("format");
    localStorage.setItem("limner.format", format);
    put(trouble);
    go.disabled = true;
    go.textContent = "Writing …";
    try {
      await download(links.export(store.id, format), `storyboard.${format === "md" ? "zip" : format}`);
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
    h("summary", {}, "My choices, to teach or to measure a model"),
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
    throw new Problem(0, "The studio does not answer", "nothing was exported.");
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Problem(answer.status, told.title ?? `Error ${answer.status}`, told.detail);
  }
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
