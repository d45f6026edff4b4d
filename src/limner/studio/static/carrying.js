// Moving pictures: by drag and drop, or picked up and put down by keyboard.
//
// A carried item is {kind: "picture", id, words} (a candidate or search result) or {kind: "step", step} (another step's picture).

import { announce } from "./dom.js";

const TYPE = "application/x-limner";
/** Value of `draggable`: without a hovering pointer, a long press opens the menu, from which pictures are swapped. */
export const DRAGGABLE = String(!matchMedia("(hover: none)").matches);

export class Carrying extends EventTarget {
  /** @param {HTMLElement} steps list whose items have data-step */
  constructor(steps) {
    super();
    this.held = null;
    this.dragged = null;
    this.steps = steps;
    steps.addEventListener("dragstart", (event) => {
      const plate = event.target.closest(".plate");
      if (plate?.querySelector("img")) this.start(event, { kind: "step", step: Number(plate.dataset.step) }, plate.querySelector("img"));
      else event.preventDefault();
    });
    steps.addEventListener("dragover", (event) => this.#over(event));
    steps.addEventListener("dragleave", (event) => {
      const item = event.target.closest?.("[data-step].step");
      if (item && !item.contains(event.relatedTarget)) item.classList.remove("target");
    });
    steps.addEventListener("drop", (event) => this.#drop(event));
    document.addEventListener("dragend", () => this.#end());
  }

  /** Start a drag; `image` follows the pointer. */
  start(event, thing, image) {
    this.dragged = thing;
    event.dataTransfer.effectAllowed = "copyMove";
    event.dataTransfer.setData(TYPE, thing.kind);
    event.dataTransfer.setData("text/plain", "");
    if (image) event.dataTransfer.setDragImage(image, 24, 24);
    document.body.classList.add("dragging");
  }

  /** Pick an item up by keyboard. */
  take(thing, words) {
    this.held = thing;
    this.#marks();
    announce(`Picked up ${words}. Go to another step and press X to put it there; Escape cancels.`);
  }

  /** Cancel. */
  release() {
    if (!this.held) return false;
    this.held = null;
    this.#marks();
    this.dispatchEvent(new Event("ended"));
    announce("Cancelled.");
    return true;
  }

  /** Put the carried item at a step. */
  put(step) {
    const thing = this.held;
    this.held = null;
    this.#marks();
    this.dispatchEvent(new Event("ended"));
    if (thing) this.#deliver(thing, step);
  }

  #over(event) {
    const item = event.target.closest?.(".step");
    if (!this.dragged || !item) return;
    const step = Number(item.dataset.step);
    if (this.dragged.kind === "step" && this.dragged.step === step) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = this.dragged.kind === "step" ? "move" : "copy";
    item.classList.add("target");
  }

  #drop(event) {
    const item = event.target.closest?.(".step");
    if (!this.dragged || !item) return;
    event.preventDefault();
    const thing = this.dragged;
    this.#end();
    this.#deliver(thing, Number(item.dataset.step));
  }

  #deliver(thing, step) {
    if (thing.kind === "step" && thing.step === step) return;
    this.dispatchEvent(new CustomEvent("deliver", { detail: { thing, step } }));
  }

  #end() {
    this.dragged = null;
    document.body.classList.remove("dragging");
    for (const item of this.steps.querySelectorAll(".target")) item.classList.remove("target");
  }

  #marks() {
    for (const item of this.steps.children) item.classList.toggle("held", this.held?.kind === "step" && Number(item.dataset.step) === this.held.step);
    document.body.classList.toggle("carrying", Boolean(this.held));
  }
}
