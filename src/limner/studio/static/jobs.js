// A job of the server, followed from start to end: a progress bar, the time left, and a stop button.

import { api, links } from "./api.js";
import { button, count, h, put } from "./dom.js";

/** "lost" is a job ended by a restart of the studio. */
const OVER = new Set(["done", "cancelled", "failed", "lost"]);

/**
 * Call `show` with every status of a job until it ends.
 * @param {string} job
 * @param {(state: object) => void} show
 * @returns {Promise<object>} the last state
 */
export function follow(job, show) {
  return new Promise((resolve) => {
    const take = (state) => {
      show(state);
      if (OVER.has(state.state)) resolve(state);
      return OVER.has(state.state);
    };
    const events = new EventSource(links.events(job));
    events.onmessage = (event) => take(JSON.parse(event.data)) && events.close();
    events.onerror = () => {
      events.close();
      poll(job, take);
    };
  });
}

/** If the stream breaks off, poll every second. */
async function poll(job, take) {
  for (;;) {
    try {
      if (take(await api.job(job))) return;
    } catch (error) {
      if (error.status === 404 || error.status === 401) {
        take({ state: "lost", message: "the studio was restarted in the meantime." });
        return;
      }
      // The server may be back at the next request.
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

/**
 * A progress bar with text and a button that stops the job.
 * @param {string} job
 * @param {string|Node|Array} title
 * @param {{label: string, stop: string, words: (state: object) => string}} say what the meter is called, the
 *   button, and the line below
 * @returns {{element: HTMLElement, show: (state: object) => void}}
 */
export function meter(job, title, { label, stop, words }) {
  const bar = h("progress", { "aria-label": label });
  const told = h("p", { class: "quiet small numbers" });
  const cancel = button(stop, { on: { click: () => { cancel.disabled = true; api.cancel(job).catch(() => (cancel.disabled = false)); } } });
  const element = h("div", { class: "job" }, h("div", { class: "row" }, h("p", {}, title), cancel), bar, told);
  const show = (state) => {
    if (state.total) {
      bar.max = state.total;
      bar.value = state.done;
    } else bar.removeAttribute("value");
    const left = state.seconds_left > 0 ? ` · about ${duration(state.seconds_left)} left` : "";
    put(told, `${words(state)}${left}`);
  };
  return { element, show };
}

/** Status texts while a text is illustrated. */
export function reading({ stage, done, total }) {
  if (stage === "waiting") return "Waiting for other texts …";
  if (stage === "text" && total) return `Reading the text: ${Math.floor((100 * done) / total)} %`;
  return "Comparing pictures …";
}

/** Follow a job at the bottom of the page, above everything else. */
export async function attend(job) {
  const { element, show } = meter(job, "Choosing pictures", { label: "Text read", stop: "Cancel", words: reading });
  const place = h("section", { class: "afoot", "aria-label": "Choosing pictures" }, element);
  (document.querySelector("dialog[open]") ?? document.body).append(place);
  const state = await follow(job, show);
  place.remove();
  return state;
}

function duration(seconds) {
  if (seconds < 90) return count(Math.max(1, Math.round(seconds)), "second");
  return count(Math.round(seconds / 60), "minute");
}
