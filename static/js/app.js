"use strict";
// What makes the console quicker with JavaScript. Nothing here is needed: every page
// and action works without it.
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const meta = document.querySelector('meta[name="fusebox-texts"]');
  const texts = meta ? JSON.parse(meta.content) : {};
  const text = (key, value) => (texts[key] || "").replace("%", value);

  // ---- What other scripts use.
  const announce = (message) => {
    const box = document.getElementById("announce");
    if (box && box.textContent !== message) box.textContent = message;
  };

  const toast = (message) => {
    const box = document.getElementById("toasts");
    if (!box) return;
    for (const old of box.children) if (old.dataset.message === message) return;
    const el = document.createElement("div");
    el.className = "toast";
    el.dataset.message = message;
    const p = document.createElement("p");
    p.textContent = message;
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "×";
    close.setAttribute("aria-label", texts.close || "×");
    close.addEventListener("click", () => el.remove());
    el.append(p, close);
    box.append(el);
    setTimeout(() => el.remove(), 12000);
  };

  const signIn = () => {
    const here = location.pathname + location.search;
    location.assign("/signin?next=" + encodeURIComponent(here));
  };

  window.fusebox = { texts, text, announce, toast, signIn };

  // ---- The browser's own time zone, so that "my zone" means something.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && root.dataset.zone !== zone) {
    document.cookie = "fusebox_tz=" + encodeURIComponent(zone) + "; path=/; max-age=31536000; samesite=lax" +
      (location.protocol === "https:" ? "; secure" : "");
  }

  // ---- Relative times stay current between two refreshes.
  const span = (seconds) => {
    if (seconds < 60) return [seconds, texts.s];
    if (seconds < 3600) return [Math.floor(seconds / 60), texts.m];
    if (seconds < 48 * 3600) return [Math.floor(seconds / 3600), texts.h];
    return [Math.floor(seconds / 86400), texts.d];
  };
  const refreshTimes = () => {
    if (document.hidden || !texts.ago) return;
    for (const el of document.querySelectorAll("time[data-relative]")) {
      const ms = Date.now() - Date.parse(el.dateTime);
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
    await copyText(button.dataset.copy);
    button.dataset.done = "";
    announce(button.dataset.copied || "");
    setTimeout(() => { delete button.dataset.done; }, 1500);
    button.focus();
  });

  // ---- One submit per form: a double click is one click. Back makes it usable again.
  document.addEventListener("submit", (e) => {
    const form = e.target;
    if (!form.matches("form[data-once]")) return;
    if (form.dataset.sent) {
      e.preventDefault();
      e.stopImmediatePropagation();
      return;
    }
    form.dataset.sent = "1";
    for (const b of form.querySelectorAll('button[type="submit"]')) b.setAttribute("aria-disabled", "true");
  }, true);
  const release = (scope) => {
    for (const form of scope.querySelectorAll("form[data-sent]")) {
      delete form.dataset.sent;
      for (const b of form.querySelectorAll('button[type="submit"]')) b.removeAttribute("aria-disabled");
    }
  };
  window.addEventListener("pageshow", () => release(document));

  // ---- Confirm pages as dialogs. The dialog is outside every live region.
  const dialog = document.getElementById("dialog");
  let opener = null;

  const fill = (html) => {
    const doc = new DOMParser().parseFromString(html, "text/html");
    const part = doc.querySelector("[data-confirm]"); // the rest of a whole page is of no use here
    dialog.replaceChildren(...(part ? [part] : doc.body.childNodes));
    const title = dialog.querySelector("h1");
    if (title) {
      title.id = "dialog-title";
      dialog.setAttribute("aria-labelledby", title.id);
    }
    if (!dialog.open) dialog.showModal();
    const first = dialog.querySelector("[data-autofocus], [role=alert], textarea, input:not([type=hidden]), select");
    if (first) {
      if (!first.matches("textarea, input, select")) first.tabIndex = -1;
      first.focus();
    }
    dialog.dispatchEvent(new CustomEvent("fusebox:filled", { bubbles: true }));
  };

  // ask answers true when the dialog shows what the server said, and false when the
  // browser should go there itself.
  const ask = async (url, options) => {
    let res;
    try {
      res = await fetch(url, { ...options, headers: { "HX-Request": "true", ...options.headers }, credentials: "same-origin" });
    } catch {
      toast(texts.offline);
      return;
    }
    const to = res.headers.get("HX-Redirect");
    if (to) location.assign(to);
    else if (res.redirected) location.assign(res.url);
    else if (res.ok || res.status === 409 || res.status === 422 || res.status === 403) fill(await res.text());
    else toast(text("failed", res.status));
  };

  document.addEventListener("click", (e) => {
    const link = e.target.closest("a[data-dialog]");
    if (!link || !dialog || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || e.button !== 0) return;
    e.preventDefault();
    if (link.getAttribute("aria-disabled") === "true") return;
    opener = link.id || link.getAttribute("href");
    ask(link.href, {});
  });

  if (dialog) {
    dialog.addEventListener("click", (e) => {
      if (e.target.closest("[data-close]")) {
        e.preventDefault();
        dialog.close();
      }
    });
    dialog.addEventListener("submit", async (e) => {
      const form = e.target;
      if (form.method !== "post" || e.defaultPrevented) return;
      e.preventDefault();
      const body = new URLSearchParams(new FormData(form, e.submitter));
      await ask(form.action, { method: "POST", body });
      release(dialog);
    });
    dialog.addEventListener("close", () => {
      dialog.replaceChildren();
      const back = opener && (document.getElementById(opener) || document.querySelector(`a[href="${CSS.escape(opener)}"]`));
      if (back) back.focus();
    });
  }

  // ---- htmx answers that are not pages: it drops error bodies on its own.
  document.addEventListener("htmx:responseError", (e) => {
    const { status } = e.detail.xhr;
    if (status === 401) signIn(); // HX-Redirect went first when the server sent it
    else toast(text("failed", status));
  });
  document.addEventListener("htmx:sendError", () => toast(texts.offline));

  // ---- Menus close like menus.
  document.addEventListener("click", (e) => {
    for (const menu of document.querySelectorAll("details.user-menu[open]")) {
      if (!menu.contains(e.target)) menu.open = false;
    }
  });
  const closeMenus = () => {
    const menu = document.querySelector("details.user-menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    } else if (location.hash === "#rail") {
      location.hash = "#content";
    }
  };

  // ---- Shortcuts, unless switched off. Single keys never fire while typing.
  const typing = (el) => el.closest("input, textarea, select, [contenteditable]");
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !(dialog && dialog.open)) closeMenus();
    if (root.dataset.shortcuts === "false" || (dialog && dialog.open)) return;
    const search = document.getElementById("q");
    const slash = e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !typing(e.target);
    const ctrlK = (e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k";
    if (search && (slash || ctrlK)) {
      e.preventDefault();
      search.focus();
      search.select();
    }
  });

  // ---- A refused form starts at what is wrong.
  const wrong = document.querySelector("main [data-autofocus]");
  if (wrong) wrong.focus();
})();
