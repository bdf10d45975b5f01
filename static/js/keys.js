"use strict";
// Keyboard shortcuts, unless the person switched them off. Nothing fires while somebody
// types, or while a dialog is open.
(() => {
  const root = document.documentElement;
  const help = document.getElementById("keys");
  const WITHIN = 1500; // between g and the letter

  const typing = (el) => el.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");

  // letter is what the key means on a Latin keyboard, so that g is g in Ukrainian too.
  const letter = (e) => {
    if (/^Key[A-Z]$/.test(e.code) && !/^[a-z]$/i.test(e.key)) return e.code.slice(3).toLowerCase();
    return e.key.length === 1 ? e.key.toLowerCase() : e.key;
  };

  const search = () => {
    const box = document.getElementById("q");
    if (!box) return false;
    box.focus();
    box.select();
    return true;
  };

  // ---- Rows. The focus is on a row's link, so Enter opens it and the ring shows it.
  const ROW = "main tbody tr, main [data-row]";
  const linkOf = (row) => row.querySelector(".main a[href], a[href]");
  const step = (by) => {
    const rows = [...document.querySelectorAll(ROW)].filter((r) => linkOf(r) && r.checkVisibility());
    if (!rows.length) return false;
    const at = rows.indexOf(document.activeElement.closest(ROW));
    const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
    linkOf(rows[next]).focus();
    return true;
  };
  const tick = () => {
    const row = document.activeElement.closest(ROW);
    const box = row && row.querySelector("input[type=checkbox]");
    if (!box) return false;
    box.click();
    return true;
  };

  const showHelp = () => {
    if (!help) return false;
    if (!help.open) help.showModal();
    return true;
  };
  if (help) {
    const asked = document.querySelector("[data-keys-help]");
    if (asked) asked.addEventListener("click", showHelp);
  }

  // ---- g and a letter go to a page of the rail.
  let went = 0;
  const go = (key) => {
    const link = document.querySelector(`#rail a[data-key="${CSS.escape(key)}"]`);
    if (!link) return false;
    location.assign(link.href);
    return true;
  };

  const single = { "/": search, "?": showHelp, j: () => step(1), k: () => step(-1), x: tick };
  const press = (key, e) => {
    const second = Date.now() - went < WITHIN;
    went = 0;
    if (second && go(key)) return true;
    if (key === "g") {
      went = Date.now();
      return true;
    }
    return !e.repeat || key === "j" || key === "k" ? (single[key] || (() => false))() : false;
  };

  document.addEventListener("keydown", (e) => {
    if (root.dataset.shortcuts === "false" || e.defaultPrevented || e.isComposing || e.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const key = letter(e);
    const done = e.ctrlKey || e.metaKey ? key === "k" && !e.shiftKey && search() : !typing(e.target) && press(key, e);
    if (done) e.preventDefault();
  });
})();
