"use strict";
// Confirm pages as dialogs, and the forms in them sent without leaving the page, so that
// an answer that is no success costs nothing of what was typed. The dialog is outside
// every live region.
(() => {
  const { texts, text, toast, requestID, announce, signIn, release, here } = window.fusebox;
  const dialog = document.getElementById("dialog");
  if (!dialog) return;

  const PATIENCE = 20000; // longer than the server takes to give up
  let opener = ""; // the id or address of the link that opened the dialog

  const openedBy = () => opener &&
    (document.getElementById(opener) || document.querySelector(`a[href="${CSS.escape(opener)}"]`));

  // focusOn moves the focus to what a person has to see or do first.
  const focusOn = (part) => {
    const first = ["[data-autofocus]", "[role=alert]", "textarea, input:not([type=hidden]), select", "h1"]
      .map((selector) => part.querySelector(selector)).find(Boolean);
    if (!first) return;
    if (!first.matches("textarea, input, select")) first.tabIndex = -1;
    first.focus();
  };

  // show puts a confirm form where it belongs: over the one it answers, or into the dialog.
  const show = (part, old) => {
    const inPage = old && !dialog.contains(old);
    if (inPage) old.replaceWith(part);
    else {
      dialog.replaceChildren(part);
      const title = dialog.querySelector("h1");
      if (title) {
        title.id = "dialog-title";
        dialog.setAttribute("aria-labelledby", title.id);
      }
      if (!dialog.open) dialog.showModal();
    }
    focusOn(part);
    document.dispatchEvent(new CustomEvent("fusebox:filled"));
  };

  // problem tells what went wrong above the form, which stays as it is.
  const problem = (note, old) => {
    note.dataset.problem = "";
    if (!old) {
      const close = document.createElement("button");
      close.type = "button";
      close.className = "btn";
      close.dataset.close = "";
      close.textContent = texts.close;
      const box = document.createElement("div");
      box.className = "confirm";
      box.append(note, close);
      show(box);
      dialog.setAttribute("aria-label", note.querySelector("strong")?.textContent || texts.close);
      dialog.removeAttribute("aria-labelledby");
      return;
    }
    for (const before of old.querySelectorAll("[data-problem]")) before.remove();
    const title = old.querySelector("h1");
    if (title) title.after(note);
    else old.prepend(note);
    note.tabIndex = -1;
    note.focus();
    document.dispatchEvent(new CustomEvent("fusebox:filled"));
  };

  // sentence makes the note of a failure that came without words of the server's.
  const sentence = (words, id) => {
    const note = document.createElement("div");
    note.className = "note tone-bad";
    note.setAttribute("role", "alert");
    const body = document.createElement("div");
    body.className = "note-body";
    const p = document.createElement("p");
    p.textContent = words;
    body.append(p);
    if (id) body.append(requestID(id));
    note.append(body);
    return note;
  };

  const retryButton = (note, retry) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "btn btn-small";
    button.dataset.retry = "";
    button.textContent = texts.retry;
    button.addEventListener("click", retry);
    (note.querySelector(".note-body") || note).append(button);
  };

  // ask sends a request and shows what came back. old is the form's frame, if a form asked;
  // retry does it again. Repeating is safe: every form carries a one-time id.
  const ask = async (url, options, old, retry) => {
    let res, html;
    try {
      res = await fetch(url, { ...options, credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE),
        headers: { "HX-Request": "true", "HX-Current-URL": location.href } });
      html = await res.text();
    } catch {
      if (!old) toast(texts.offline, { retry });
      else {
        const note = sentence(texts.noAnswer + " " + texts.unsure);
        retryButton(note, retry);
        problem(note, old);
      }
      return;
    }
    const to = res.headers.get("HX-Redirect");
    if (res.status === 401) signIn(to);
    else if (to) location.assign(to);
    else if (res.redirected) location.assign(res.url);
    else read(res, html, old, retry);
  };

  const read = (res, html, old, retry) => {
    const doc = new DOMParser().parseFromString(html, "text/html");
    const part = doc.querySelector("[data-confirm]"); // the rest of a whole page is of no use here
    if (part) {
      show(part, old);
      return;
    }
    const id = res.headers.get("X-Request-Id");
    const note = doc.querySelector("[data-code]"); // ours; a proxy's page is not
    if (res.status >= 500 && !old) toast(text("failed", res.status), { retry, id });
    else {
      const shown = note || sentence(text("failed", res.status), id);
      if (res.status >= 500) retryButton(shown, retry);
      problem(shown, old);
    }
  };

  // ---- Opening.
  const open = (href, key) => {
    opener = key;
    return ask(href, {}, null, () => open(href, key));
  };
  document.addEventListener("click", (e) => {
    const link = e.target.closest("a[data-dialog]");
    if (!link || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || e.button !== 0) return;
    e.preventDefault();
    if (link.getAttribute("aria-disabled") === "true") return;
    open(link.href, link.id || link.getAttribute("href"));
  });

  // ---- Sending. The form of a confirm page is the same form, wherever it stands.
  const values = (form, submitter) => {
    const data = new FormData(form, submitter);
    for (const [name, value] of [...data]) if (typeof value !== "string") data.delete(name);
    return new URLSearchParams(data);
  };
  document.addEventListener("submit", async (e) => {
    const form = e.target;
    const frame = form.closest("[data-confirm]");
    if (!frame || form.method !== "post" || e.defaultPrevented) return;
    e.preventDefault();
    const { submitter } = e;
    await ask(form.action, { method: "POST", body: values(form, submitter) }, frame,
      () => form.requestSubmit(submitter && submitter.isConnected ? submitter : undefined));
    release(form);
  });

  // ---- Closing. The focus goes back to where the person was.
  dialog.addEventListener("click", (e) => {
    if (e.target.closest("[data-close]")) {
      e.preventDefault();
      dialog.close();
    }
  });
  dialog.addEventListener("cancel", (e) => {
    if (dialog.querySelector("[data-keep]")) e.preventDefault(); // a secret nobody can be shown again
  });
  dialog.addEventListener("close", () => {
    dialog.replaceChildren();
    dialog.removeAttribute("aria-label");
    const back = openedBy() || document.getElementById("content");
    if (back) back.focus();
    opener = "";
  });

  // ---- Signed out while writing: what was typed waits for the person to come back.
  const DRAFT = "fusebox-draft";
  const who = document.documentElement.dataset.who;
  const typed = (form) => [...form.elements].filter((el) => el.name && el.value &&
    el.matches("textarea, select, input:not([type=hidden], [type=password], [type=checkbox], [type=radio])"));
  document.addEventListener("fusebox:leaving", () => {
    const form = document.querySelector("dialog[open] [data-confirm] form, main [data-confirm] form");
    const link = openedBy();
    if (!form || (dialog.contains(form) && !link)) return;
    sessionStorage.setItem(DRAFT, JSON.stringify({ who, page: here(), link: link ? link.getAttribute("href") : "", opener,
      fields: Object.fromEntries(typed(form).map((el) => [el.name, el.value])) }));
  });
  const restore = async () => {
    const draft = JSON.parse(sessionStorage.getItem(DRAFT) || "null");
    if (!draft || !who) return; // not signed in yet
    sessionStorage.removeItem(DRAFT);
    if (draft.who !== who || draft.page !== here()) return;
    if (draft.link) await open(draft.link, draft.opener);
    const form = document.querySelector("dialog[open] [data-confirm] form, main [data-confirm] form");
    if (!form) return;
    for (const [name, value] of Object.entries(draft.fields)) {
      const field = form.elements.namedItem(name);
      if (field && "value" in field) field.value = value;
    }
    announce(texts.kept);
  };
  restore();
})();
