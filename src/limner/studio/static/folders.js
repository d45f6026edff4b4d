// A folder being read: progress as the server sends it, a way to stop, and what came of it.

import { api, links } from "./api.js";
import { announce, button, count, h, problem, put } from "./dom.js";

const OVER = new Set(["done", "cancelled", "failed"]);

const STAGES = { pictures: "Pictures", captions: "Captions", "near-duplicates": "Near-duplicates" };

/**
 * Show a job until it is over.
 * @param {HTMLElement} place
 * @param {string} job
 * @param {string} [path] folder, for words; a job found running names its own
 * @returns {Promise<object>} the last state
 */
export function watchFolder(place, job, path) {
  const meter = h("progress", { "aria-label": "Pictures read" });
  const told = h("p", { class: "quiet small numbers" }, "Looking for pictures …");
  const stop = button("Stop", { on: { click: () => { stop.disabled = true; api.cancel(job).catch(() => {}); } } });
  const title = h("p", {}, path ? ["Reading ", h("bdi", {}, path)] : "Reading a folder");
  place.hidden = false;
  place.className = "job";
  put(place, h("div", { class: "row" }, title, stop), meter, told);
  return new Promise((resolve) => {
    const show = (state) => {
      if (state.total) {
        meter.max = state.total;
        meter.value = state.done;
      } else meter.removeAttribute("value");
      const left = state.seconds_left > 0 ? ` · about ${duration(state.seconds_left)} left` : "";
      if (state.total) put(told, `${STAGES[state.stage] ?? state.stage}: ${state.done.toLocaleString("en")} of ${state.total.toLocaleString("en")}${left}`);
      if (OVER.has(state.state)) {
        finished(place, state, path);
        resolve(state);
      }
      return OVER.has(state.state);
    };
    const events = new EventSource(links.events(job));
    events.onmessage = (event) => show(JSON.parse(event.data)) && events.close();
    events.onerror = () => {
      events.close();
      poll(job, show);
    };
  });
}

/** Where the stream breaks off, ask every second. */
async function poll(job, show) {
  for (;;) {
    try {
      if (show(await api.job(job))) return;
    } catch {
      // The server may be back for the next question.
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

function finished(place, state, path) {
  const folder = path ?? "the folder";
  const words = { done: `Read ${folder}`, cancelled: `Stopped reading ${folder}; what was read so far is kept`, failed: `Could not read ${folder}` }[state.state];
  announce(words);
  put(
    place,
    h("div", { class: "row" }, h("p", {}, h("bdi", {}, words), state.left_out > 0 && h("span", { class: "quiet" }, ` · ${count(state.left_out, "file")} skipped`)), button("Dismiss", { kind: "plain", on: { click: () => (place.hidden = true) } })),
    state.state === "failed" ? problem({ title: "The folder was not added", message: state.message }) : state.message && h("p", { class: "quiet small" }, state.message),
  );
}

function duration(seconds) {
  if (seconds < 90) return count(Math.max(1, Math.round(seconds)), "second");
  return count(Math.round(seconds / 60), "minute");
}
