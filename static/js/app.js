"use strict";
// What every page has: sentences, messages, current times, copy buttons, one submit per
// form, menus. Nothing here is needed: every page and action works without it.
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const meta = document.querySelector('meta[name="fusebox-texts"]');
  const texts = meta ? JSON.parse(meta.content) : {};
  const text = (key, value) => (texts[key] || "").replace("%", value);

  // ---- Speaking. One sentence per tick at most, and of those that wait the last: a
  // screen reader that is never silent is switched off.
  const SPEAK_EVERY = 2000;
  let spoken = 0;
  let waiting = null;
  const announce = (message) => {
    const box = document.getElementById("announce");
    if (!box) return;
    if (waiting) clearTimeout(waiting);
    waiting = setTimeout(() => {
      waiting = null;
      spoken = Date.now();
      if (box.textContent !== message) box.textContent = message;
    }, Math.max(0, spoken + SPEAK_EVERY - Date.now()));
  };

  // toast shows a message that stays until it is closed. retry, if given, is offered as
  // a button; id is the request the server knows it by.
  const toast = (message, { retry, id } = {}) => {
    const box = document.getElementById("toasts");
    if (!box) return;
    for (const old of box.children) if (old.dataset.message === message) old.remove();
    const el = document.createElement("div");
    el.className = "toast";
    el.dataset.message = message;
    const p = document.createElement("p");
    p.textContent = message;
    if (id) p.append(requestID(id));
    el.append(p);
    const button = (label, what) => {
      const b = document.createElement("button");
      b.type = "button";
      b.textContent = label;
      b.addEventListener("click", () => { el.remove(); what(); });
      el.append(b);
      return b;
    };
    if (retry) button(texts.retry, retry);
    button("×", () => {}).setAttribute("aria-label", texts.close || "×");
    box.append(el);
    while (box.children.length > 4) box.firstElementChild.remove();
  };
  const requestID = (id) => {
    const line = document.createElement("span");
    line.className = "toast-id";
    const code = document.createElement("code");
    code.textContent = id;
    line.append(texts.request + " ", code);
    return line;
  };

  const here = () => location.pathname + location.search;

  // signIn leaves for the sign-in page, which comes back here. Whoever holds what was
  // typed hears of it first.
  let leaving = false;
  const signIn = (to) => {
    if (leaving) return;
    leaving = true;
    document.dispatchEvent(new CustomEvent("fusebox:leaving"));
    location.assign(to || "/signin?next=" + encodeURIComponent(here()));
  };

  window.fusebox = { texts, text, announce, toast, requestID, signIn, here };

  // ---- The browser's own time zone, so that "my zone" means something.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && root.dataset.zone !== zone) {
    document.cookie = "fusebox_tz=" + encodeURIComponent(zone) + "; path=/; max-age=31536000; samesite=lax" +
      (location.protocol === "https:" ? "; secure" : "");
  }

  // ---- Relative times stay current between two refreshes, by the server's clock: the
  // one of this machine may be wrong.
  const ahead = (Date.parse(root.dataset.now) || Date.now()) - Date.now();
  const span = (seconds) => {
    if (seconds < 60) return [seconds, texts.s];
    if (seconds < 3600) return [Math.floor(seconds / 60), texts.m];
    if (seconds < 48 * 3600) return [Math.floor(seconds / 3600), texts.h];
    return [Math.floor(seconds / 86400), texts.d];
  };
  const refreshTimes = () => {
    if (document.hidden || !texts.ago) return;
    const now = Date.now() + ahead;
    for (const el of document.querySelectorAll("time[data-relative]")) {
      const ms = now - Date.parse(el.dateTime);
      if (Number.isNaN(ms)) continue;
      const [n, unit] = span(Math.floor(Math.abs(ms) / 1000));
      const words = text(ms < 0 ? "in" : "ago", n + "\u00a0" + unit);
      if (el.textContent !== words) el.textContent = words;
    }
  };
  setInterval(refreshTimes, 5000);
  document.addEventListener("visibilitychange", refreshTimes);

  // ---- Copy buttons.
  const copyText = async (value) => {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(value);
    const area = document.createElement("textarea"); // plain http on a local network
    area.value = value;
    area.className = "sr-only";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    return undefined;
  };
  document.addEventListener("click", async (e) => {
    const button = e.target.closest("[data-copy]");
    if (!button) return;
    try {
      await copyText(button.dataset.copy);
    } catch {
      toast(texts.notCopied);
      return;
    }
    button.dataset.done = "";
    announce(button.dataset.copied || "");
    setTimeout(() => { delete button.dataset.done; }, 1500);
    button.focus();
  });

  // ---- One submit per form: a double click is one click. Back makes it usable again.
  const UNANSWERED = 30000; // a form that led nowhere may be tried again
  const submits = (form) => form.querySelectorAll('button:not([type="button"])');
  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (form.method !== "post" || e.defaultPrevented) return;
    if (form.dataset.sent) {
      e.preventDefault();
      e.stopImmediatePropagation();
      return;
    }
    form.dataset.sent = "1";
    for (const b of submits(form)) b.setAttribute("aria-disabled", "true");
    setTimeout(() => release(form), UNANSWERED);
  }, true);
  const release = (form) => {
    delete form.dataset.sent;
    for (const b of submits(form)) if (b.dataset.disarmed === undefined) b.removeAttribute("aria-disabled");
  };
  window.fusebox.release = release;
  window.addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach(release));

  // ---- htmx answers that are not pages: it drops error bodies on its own. What nobody
  // pressed fails in silence here; live regions look after themselves (live.js).
  const mine = (e) => e.detail.elt && e.detail.elt.matches("a, button, form, input, select");
  const again = (elt) => () => elt.isConnected && (elt.requestSubmit ? elt.requestSubmit() : elt.click());
  document.addEventListener("htmx:beforeOnLoad", (e) => {
    if (e.detail.xhr.status !== 401) return;
    e.preventDefault(); // htmx would leave at once, with what was typed
    signIn(e.detail.xhr.getResponseHeader("HX-Redirect"));
  });
  document.addEventListener("htmx:responseError", (e) => {
    const { xhr, elt } = e.detail;
    if (mine(e)) toast(text("failed", xhr.status), { retry: again(elt), id: xhr.getResponseHeader("X-Request-Id") });
  });
  for (const failure of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(failure, (e) => mine(e) && toast(texts.offline, { retry: again(e.detail.elt) }));
  }

  // ---- Menus close like menus.
  document.addEventListener("click", (e) => {
    for (const menu of document.querySelectorAll("details.user-menu[open]")) {
      if (!menu.contains(e.target)) menu.open = false;
    }
  });
  document.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || document.querySelector("dialog[open]")) return;
    const menu = document.querySelector("details.user-menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    } else if (location.hash === "#rail") {
      location.hash = "#content";
      document.querySelector(".menu-open").focus();
    }
  });

  // ---- A refused form starts at what is wrong.
  const wrong = document.querySelector("main [data-autofocus]");
  if (wrong) wrong.focus();
})();
