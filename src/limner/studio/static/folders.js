// Indexing of a folder: progress from the server, a stop button, and the result.

import { api } from "./api.js";
import { announce, button, count, h, problem, put } from "./dom.js";
import { follow, meter } from "./jobs.js";

const STAGES = { pictures: "Pictures", captions: "Captions", "near-duplicates": "Near-duplicates" };

/**
 * Show a job until it ends.
 * @param {HTMLElement} place
 * @param {string} job
 * @param {string} [path] folder, for messages; a job that is already running names its own
 * @param {() => Promise<{job: string}>} [again] starts it again if a restart has ended it
 * @returns {Promise<object>} the last state
 */
export async function watchFolder(place, job, path, again) {
  const title = path ? ["Reading ", h("bdi", {}, path)] : "Indexing a folder";
  const { element, show } = meter(job, title, { label: "Pictures indexed", stop: "Stop", words });
  place.hidden = false;
  put(place, element);
  let subject;
  const state = await follow(job, (now) => {
    subject = now.subject ?? subject;
    show(now);
  });
  if (state.state === "lost") return interrupted(put(element), place, path, again ?? (subject && (() => api.addFolder(subject))));
  finished(put(element), place, state, path ?? state.subject);
  return state;
}

function words(state) {
  if (!state.total) return "Looking for pictures …";
  return `${STAGES[state.stage] ?? state.stage}: ${state.done.toLocaleString("en")} of ${state.total.toLocaleString("en")}`;
}

/** A job ended by a restart, with a button to start it again. */
function interrupted(element, place, path, again) {
  const words = `The studio was restarted while it was indexing ${path ?? "a folder"}. Pictures indexed so far are kept.`;
  announce(words);
  return new Promise((resolve) => {
    const end = async () => {
      try {
        resolve(await watchFolder(place, (await again()).job, path, again));
      } catch (error) {
        put(place, problem(error));
        resolve({ state: "failed", message: error.message });
      }
    };
    const dismiss = () => {
      place.hidden = true;
      resolve({ state: "cancelled" });
    };
    put(element, h("div", { class: "row" }, h("p", {}, words), again && button("Start again", { on: { click: end } }), button("Dismiss", { kind: "plain", on: { click: dismiss } })));
  });
}

/** Index the folder again and treat missing pictures as deleted. */
async function forget(place, state, path) {
  try {
    const { job } = await api.addFolder(state.subject, true);
    await watchFolder(place, job, path);
    location.reload();
  } catch (error) {
    put(place, problem(error));
  }
}

function finished(element, place, state, path) {
  const folder = path ?? "the folder";
  const words = { done: `Read ${folder}`, cancelled: `Stopped indexing ${folder}; pictures indexed so far are kept`, failed: `Could not read ${folder}` }[state.state];
  announce(words);
  put(
    element,
    h("div", { class: "row" }, h("p", {}, h("bdi", {}, words), state.left_out > 0 && h("span", { class: "quiet" }, ` · ${count(state.left_out, "file")} skipped`)), button("Dismiss", { kind: "plain", on: { click: () => (place.hidden = true) } })),
    state.missing > 0 && h("div", { class: "row" }, h("p", {}, `${count(state.missing, "picture")} missing. Is the drive connected?`), button(`Forget ${count(state.missing, "picture")}`, { on: { click: () => forget(place, state, path) } })),
    state.state === "failed" ? problem({ title: "The folder was not added", message: state.message }) : state.message && h("p", { class: "quiet small" }, state.message),
  );
}
