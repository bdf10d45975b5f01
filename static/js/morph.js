"use strict";
// Morphing must not undo what a person did: open details, ticked boxes, typed text,
// open dialogs, selected text. Hidden fields (versions, action ids) do follow the server.
(() => {
  if (!window.Idiomorph) return;
  const { defaults } = window.Idiomorph;
  defaults.ignoreActiveValue = true;

  const element = (node) => node.nodeType === Node.ELEMENT_NODE;
  const touched = (el) => el === document.activeElement || el.value !== el.defaultValue;

  // What scripts put on elements is theirs, not the server's.
  const ours = new Set(["data-disarmed", "data-done", "data-title", "data-sent"]);

  defaults.callbacks.beforeAttributeUpdated = (name, el) => {
    if (ours.has(name)) return false;
    if (name === "open") return !el.matches("details, dialog");
    if (name === "checked") return !el.matches("input[type=checkbox], input[type=radio]");
    if (name === "selected") return !el.matches("option");
    if (name === "value" && el.matches("input:not([type=hidden]), textarea")) return !touched(el);
    if (el.dataset.disarmed !== undefined && ["disabled", "aria-disabled", "aria-describedby", "title"].includes(name)) return false;
    return true;
  };
  defaults.callbacks.beforeNodeMorphed = (old) => !(element(old) && old.matches("dialog[open], [data-keep]"));
  defaults.callbacks.beforeNodeRemoved = (node) => !(element(node) && node.matches("dialog[open]"));
})();
