"use strict";
// While the page is stale nothing that changes something may be pressed, and each such
// button says why, to the eye and to a screen reader. live.js says when.
(() => {
  const { texts, toast } = window.fusebox;
  // What is marked, every way to a confirm page, and every form that posts.
  const MUTATES = "[data-mutates], a[data-dialog], main form[method=post] button:not([type=button]), #dialog form[method=post] button:not([type=button])";
  const WHY = "stale-why"; // the sentence all of them are described by
  let stale = false;

  const reason = () => {
    let el = document.getElementById(WHY);
    if (!el) {
      el = document.createElement("p");
      el.id = WHY;
      el.hidden = true;
      el.textContent = texts.disarmed;
      document.body.append(el);
    }
    return el;
  };

  const mark = (el) => {
    if (el.dataset.disarmed !== undefined) return;
    el.dataset.disarmed = el.getAttribute("aria-describedby") || "";
    el.dataset.title = el.title;
    el.setAttribute("aria-disabled", "true");
    el.setAttribute("aria-describedby", (el.dataset.disarmed + " " + WHY).trim());
    el.title = texts.disarmed;
  };
  const note = (el) => {
    if (el.closest("table")) return; // a sentence in every row would hide the rows
    const place = el.closest("form, .form-actions, .head-actions, li") || el.parentElement;
    if (place.querySelector(".stale-note")) return;
    const words = document.createElement("span");
    words.className = "stale-note";
    words.setAttribute("aria-hidden", "true"); // said by aria-describedby
    words.textContent = texts.disarmed;
    el.after(words);
  };
  const disarm = () => {
    reason();
    for (const el of document.querySelectorAll(MUTATES)) {
      mark(el);
      note(el); // a morph takes the note away, not the mark
    }
  };
  const restore = (el, name, value) => (value ? el.setAttribute(name, value) : el.removeAttribute(name));
  const arm = () => {
    for (const el of document.querySelectorAll("[data-disarmed]")) {
      el.removeAttribute("aria-disabled");
      restore(el, "aria-describedby", el.dataset.disarmed);
      restore(el, "title", el.dataset.title);
      delete el.dataset.disarmed;
      delete el.dataset.title;
    }
    for (const words of document.querySelectorAll(".stale-note, .toast")) {
      if (words.matches(".stale-note") || words.dataset.message === texts.disarmed) words.remove();
    }
  };

  const refuse = (e) => {
    const pressed = e.target.closest && e.target.closest("[data-disarmed]");
    const form = e.type === "submit" && e.target.querySelector("[data-disarmed]");
    if (!pressed && !form) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    toast(texts.disarmed);
  };
  window.addEventListener("click", refuse, true); // before everybody else
  window.addEventListener("submit", refuse, true);

  const settle = () => stale && disarm();
  document.addEventListener("htmx:afterSettle", settle);
  document.addEventListener("fusebox:filled", settle);
  window.fusebox.setStale = (now) => {
    if (now === stale) return;
    stale = now;
    if (stale) disarm();
    else arm();
  };
})();
