// Makes the pages quicker to use; all of them work without it.

const form = document.querySelector("#rating");
const KEPT = "limner-study-draft:";

// Send a form only once: ignore a second click before the response.
for (const each of document.querySelectorAll("form[method=post]")) {
  each.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (each.dataset.sent) {
      event.preventDefault();
      return;
    }
    each.dataset.sent = "yes";
    each.querySelector(".go").setAttribute("aria-disabled", "true");
  });
}
addEventListener("pageshow", (event) => {
  // A page restored from the browser's cache may have been answered since.
  if (event.persisted) location.reload();
  for (const each of document.querySelectorAll("form[data-sent]")) {
    delete each.dataset.sent;
    each.querySelector(".go").removeAttribute("aria-disabled");
  }
});

const steps = () => [...form.querySelectorAll("fieldset")];
const answered = (step) => step.querySelector("input:checked") !== null;

function tell() {
  const done = document.querySelector("#done");
  if (!done) return;
  const all = steps();
  done.textContent = `${all.filter(answered).length} of ${all.length} steps answered`;
}

// Ticking a picture unticks "none", and vice versa.
function agree(box) {
  if (box.type !== "checkbox" || !box.checked) return;
  for (const other of box.closest("fieldset").querySelectorAll("input")) {
    if (other !== box && (box.value === "none" || other.value === "none")) other.checked = false;
  }
}

// Ticks of an unfinished page are kept when the browser is closed.
function keep() {
  if (!form.dataset.draft) return;
  const found = steps().map((step) => [...step.querySelectorAll("input:checked")].map((one) => one.value));
  try {
    localStorage.setItem(KEPT + form.dataset.draft, JSON.stringify(found));
  } catch {
    // The browser allows no storage.
  }
}

function recall() {
  if (!form.dataset.draft) return;
  try {
    for (const name of Object.keys(localStorage)) {
      if (name.startsWith(KEPT) && name !== KEPT + form.dataset.draft) localStorage.removeItem(name);
    }
    const found = JSON.parse(localStorage.getItem(KEPT + form.dataset.draft) ?? "[]");
    steps().forEach((step, place) => {
      if (answered(step)) return;
      for (const value of found[place] ?? []) {
        const box = [...step.querySelectorAll("input")].find((one) => one.value === value);
        if (box) box.checked = true;
      }
    });
  } catch {
    // Ignore a draft that cannot be read.
  }
}

function missing(event) {
  const open = steps().find((step) => !answered(step));
  if (!open) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  let fault = form.querySelector(".foot .fault");
  if (!fault) {
    fault = document.createElement("p");
    fault.className = "fault";
    fault.setAttribute("role", "alert");
    form.querySelector(".foot").prepend(fault);
  }
  const number = open.dataset.step;
  fault.textContent = number
    ? `Step ${number} has no answer yet: tick the pictures that fit, or “None of these fits”.`
    : "Choose one of the four answers first.";
  open.querySelector("input").focus();
}

function press(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const all = steps();
  if (/^[0-9]$/.test(event.key)) {
    const step = document.activeElement?.closest("fieldset") ?? (all.length === 1 ? all[0] : all.find((one) => !answered(one)));
    const values = [...(step?.querySelectorAll("input") ?? [])];
    const box = event.key === "0" ? values.find((one) => one.value === "none") : values[Number(event.key) - 1];
    if (!box || (event.key !== "0" && box.value === "none")) return;
    event.preventDefault();
    box.focus();
    if (!(box.type === "radio" && box.checked)) box.click();
  } else if (event.key === "Enter" && !document.activeElement?.closest("a, button, summary")) {
    event.preventDefault();
    form.requestSubmit();
  }
}

if (form) {
  form.addEventListener("submit", missing, { capture: true });
  form.addEventListener("change", (event) => {
    agree(event.target);
    form.querySelector(".foot .fault")?.remove();
    keep();
    tell();
  });
  document.addEventListener("keydown", press);
  recall();
  tell();
  const dialog = document.querySelector("dialog.large");
  for (const link of form.querySelectorAll(".zoom")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const large = dialog.querySelector("img");
      large.src = link.href;
      large.alt = link.closest(".plate").querySelector("img").alt;
      dialog.showModal();
    });
  }
  dialog.addEventListener("click", (event) => {
    if (event.target !== dialog.querySelector("button")) dialog.close();
  });
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const field = document.getElementById(button.dataset.copy);
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      button.parentElement.querySelector(".copied").textContent = "Copied.";
    } catch {
      button.parentElement.querySelector(".copied").textContent = "Selected. Press Ctrl-C to copy.";
    }
  });
}

// Return to the panel automatically after a while, unless the rater chooses to stay.
const AWAY_S = 15;
for (const link of document.querySelectorAll("[data-away]")) {
  const told = link.parentElement.querySelector("[role=status]");
  const stay = link.parentElement.querySelector("button");
  told.textContent = `You will be redirected in ${AWAY_S} seconds.`;
  stay.hidden = false;
  const timer = setTimeout(() => location.assign(link.href), AWAY_S * 1000);
  stay.addEventListener("click", () => {
    clearTimeout(timer);
    stay.hidden = true;
    told.textContent = "You will stay here until you follow the link.";
  });
}
