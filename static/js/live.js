"use strict";
// Live updates: the server says which topics changed, the page fetches its regions
// and morphs them. One tab of a browser holds the stream (a Web Lock elects it) and
// relays to the others, because HTTP/1.1 allows a browser six connections per host.
(() => {
  const { texts, text, announce, signIn } = window.fusebox;
  const pill = document.getElementById("live-pill");
  if (!pill || !window.htmx || !window.EventSource) return;

  const STALE_AFTER = 35000; // two heartbeats and some
  const GRACE = 5000; // a reconnect this quick is not worth a word
  const POLL_EVERY = 5000;
  const POLL_AFTER = 3; // failed streams before polling

  let lastHeard = Date.now();
  let brokenSince = 0;
  let paused = false;
  let polling = false;
  let state = "";
  const revs = {}; // what the server announced last, by topic
  const pending = new Set(); // topics that changed while paused or hidden

  // ---- Regions.
  const refresh = (topics) => {
    for (const t of topics) pending.add(t);
    if (paused || document.hidden) return;
    for (const t of pending) {
      const regions = document.querySelectorAll(`[data-live="${CSS.escape(t)}"]`);
      if ([...regions].some((r) => r.dataset.rev !== revs[t])) {
        document.body.dispatchEvent(new CustomEvent("live:" + t));
      }
    }
    pending.clear();
  };

  document.addEventListener("htmx:configRequest", (e) => {
    const { rev } = e.detail.elt.dataset;
    if (rev) e.detail.headers["Fusebox-Rev"] = rev;
  });

  // Morphing must not undo what a person did: open details, ticked boxes, typed text,
  // open dialogs. Hidden fields (versions, action ids) do follow the server.
  const { defaults } = window.Idiomorph;
  defaults.ignoreActiveValue = true;
  const touched = (el) => el === document.activeElement || el.value !== el.defaultValue;
  defaults.callbacks.beforeAttributeUpdated = (name, el) => {
    if (name === "open") return !el.matches("details, dialog");
    if (name === "checked") return !el.matches("input[type=checkbox], input[type=radio]");
    if (name === "selected") return !el.matches("option");
    if (name === "value" && el.matches("input:not([type=hidden]), textarea")) return !touched(el);
    if ((name === "disabled" || name === "aria-disabled") && el.dataset.disarmed !== undefined) return false;
    if (name === "data-disarmed" || name === "data-done" || name === "data-title") return false;
    if (name === "title" && el.dataset.disarmed !== undefined) return false;
    return true;
  };
  defaults.callbacks.beforeNodeMorphed = (old) =>
    !(old.nodeType === Node.ELEMENT_NODE && (old.matches("dialog[open]") || old.matches("[data-keep]")));
  defaults.callbacks.beforeNodeRemoved = (node) =>
    !(node.nodeType === Node.ELEMENT_NODE && node.matches("dialog[open]"));

  // ---- While stale, nothing that changes something may be pressed.
  const arm = () => {
    for (const el of document.querySelectorAll("[data-disarmed]")) {
      el.removeAttribute("aria-disabled");
      delete el.dataset.disarmed;
      el.title = el.dataset.title || "";
      if (!el.title) el.removeAttribute("title");
    }
    for (const note of document.querySelectorAll(".stale-note")) note.remove();
  };
  const explain = (el) => {
    const place = el.closest("form") || el.parentElement;
    if (place.querySelector(".stale-note")) return;
    const note = document.createElement("span");
    note.className = "stale-note";
    note.textContent = texts.disarmed;
    el.after(note);
  };
  const disarm = () => {
    for (const el of document.querySelectorAll("[data-mutates]")) {
      if (el.dataset.disarmed === undefined) {
        el.setAttribute("aria-disabled", "true");
        el.dataset.disarmed = "";
        el.dataset.title = el.title;
        el.title = texts.disarmed;
      }
      explain(el); // a morph takes the note away, not the mark
    }
  };
  const refuse = (e) => {
    const el = e.target.closest && e.target.closest("[data-disarmed]");
    const form = e.type === "submit" && e.target.querySelector("[data-disarmed]");
    if (!el && !form) return;
    e.preventDefault();
    e.stopImmediatePropagation();
    announce(texts.disarmed);
  };
  document.addEventListener("click", refuse, true);
  document.addEventListener("submit", refuse, true);
  const settle = () => (state === "stale" ? disarm() : undefined);
  document.addEventListener("htmx:afterSettle", settle);
  document.addEventListener("fusebox:filled", settle);

  // ---- The pill.
  const button = document.createElement("button");
  button.type = "button";
  button.className = "pill";
  const dot = document.createElement("span");
  dot.className = "pill-dot";
  const label = document.createElement("span");
  label.className = "pill-text";
  button.append(dot, label);
  pill.replaceChildren(button);

  const clock = (ms) => new Intl.DateTimeFormat(document.documentElement.lang,
    { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(ms);
  const show = (next) => {
    const words = {
      live: polling ? texts.polling : texts.live,
      connecting: texts.connecting,
      paused: texts.paused,
      stale: text("stale", clock(lastHeard)),
    }[next];
    button.title = paused ? texts.resume : texts.pause;
    if (label.textContent !== words) label.textContent = words;
    if (next === state) return;
    const before = state;
    state = next;
    pill.dataset.state = next;
    if (next === "stale") disarm();
    else if (before === "stale") arm();
    if (before && next !== "connecting") announce(words);
  };
  const judge = () => {
    const now = Date.now();
    const broken = brokenSince && now - brokenSince > GRACE;
    if (broken || now - lastHeard > STALE_AFTER) show("stale");
    else if (paused) show("paused");
    else if (brokenSince || !Object.keys(revs).length) show("connecting");
    else show("live");
  };
  button.addEventListener("click", () => {
    paused = !paused;
    judge();
    if (!paused) refresh([]);
  });

  // ---- What was heard, from the stream, from a poll or from the leading tab.
  const heard = (changed) => {
    lastHeard = Date.now();
    brokenSince = 0;
    const topics = Object.keys(changed).filter((t) => revs[t] !== changed[t]);
    Object.assign(revs, changed);
    judge();
    if (topics.length) refresh(topics);
  };
  const broke = () => {
    if (!brokenSince) brokenSince = Date.now();
    judge();
  };

  // ---- The stream, held by one tab.
  const channel = "BroadcastChannel" in window ? new BroadcastChannel("fusebox-live") : null;
  const tell = (message) => channel && channel.postMessage(message);
  let source = null;
  let failures = 0;
  let leading = false;
  let retry = 0;

  const relay = (changed) => {
    failures = 0;
    heard(changed);
    tell({ heard: changed });
  };
  const connect = () => {
    clearTimeout(retry);
    if (source) source.close();
    source = new EventSource("/live");
    source.addEventListener("rev", (e) => { polling = false; relay(JSON.parse(e.data)); });
    source.addEventListener("beat", () => relay({}));
    source.addEventListener("end", () => again(0)); // renewed by plan, or the server stops
    source.onerror = () => again(1);
  };
  const again = (failed) => {
    source.close();
    source = null;
    failures += failed;
    if (failed) {
      broke();
      tell({ broke: true });
    }
    if (failures >= POLL_AFTER) poll();
    const pause = failed ? Math.min(30000, 1000 * 2 ** Math.min(failures - 1, 5)) : 500;
    retry = setTimeout(connect, pause * (0.5 + Math.random() / 2));
  };

  // ---- Polling, for networks that hold streams back.
  const poll = async () => {
    if (source && source.readyState === EventSource.OPEN) return;
    try {
      const res = await fetch("/live/revs", { credentials: "same-origin", cache: "no-store", headers: { Accept: "application/json" } });
      if (res.status === 401) return signIn();
      if (!res.ok) throw new Error(String(res.status));
      const body = await res.json();
      polling = true;
      heard(body);
      tell({ heard: body });
    } catch {
      broke();
    }
    return undefined;
  };
  setInterval(() => { if (leading && failures >= POLL_AFTER) poll(); }, POLL_EVERY);

  const lead = () => {
    leading = true;
    connect();
    return new Promise(() => {}); // the lock is held until this tab goes
  };

  if (channel) {
    channel.onmessage = ({ data }) => {
      if (data.hello && leading) tell({ heard: revs });
      else if (!leading && data.heard) heard(data.heard);
      else if (!leading && data.broke) broke();
    };
  }
  if (navigator.locks && channel) {
    navigator.locks.request("fusebox-live", lead);
    tell({ hello: true });
  } else {
    lead();
  }

  // ---- Coming back: ask at once what was missed.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    if (leading && (!source || Date.now() - lastHeard > STALE_AFTER)) connect();
    else tell({ hello: true });
    refresh([]);
    judge();
  });
  window.addEventListener("online", () => leading && connect());
  setInterval(judge, 1000);
  show("connecting");
})();
