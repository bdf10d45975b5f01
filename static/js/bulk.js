"use strict";
// Ticks in lists: how many are ticked, all of a page at once, and ranges with Shift.
// Without JavaScript the same form posts the same ticks.
(() => {
  const form = document.querySelector("form[data-bulk]");
  if (!form) return;
  const said = form.querySelector("[data-picked]");
  const boxes = () => [...document.querySelectorAll('input[name="pick"][form="bulk"]')];
  let last = "";

  const count = () => {
    const all = boxes();
    const on = all.filter((b) => b.checked).length;
    const words = on ? said.dataset.picked.replace("%", on) : "";
    if (said && said.textContent !== words) said.textContent = words;
    const head = document.getElementById("pick-all");
    if (head) {
      head.checked = on > 0 && on === all.length;
      head.indeterminate = on > 0 && on < all.length;
    }
  };

  document.addEventListener("click", (e) => {
    const box = e.target.closest && e.target.closest('input[name="pick"]');
    if (!box) return;
    const all = boxes();
    const from = all.findIndex((b) => b.id === last);
    const to = all.indexOf(box);
    if (e.shiftKey && from >= 0) {
      for (const b of all.slice(Math.min(from, to), Math.max(from, to) + 1)) b.checked = box.checked;
    }
    last = box.id;
    count();
  });
  document.addEventListener("change", (e) => {
    if (e.target.matches("[data-pick-all]")) for (const b of boxes()) b.checked = e.target.checked;
    count();
  });
  document.addEventListener("htmx:afterSettle", count);
  window.addEventListener("pageshow", count);
  count();
})();
