"use strict";
// The print button of the evidence page; without scripts the browser's own menu prints.
for (const b of document.querySelectorAll("[data-print]")) {
  b.hidden = false;
  b.addEventListener("click", () => window.print());
}
