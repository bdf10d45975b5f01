"use strict";
// Live updates: the server says which topics changed, the page fetches its regions
// and morphs them. One tab of a browser holds the stream (a Web Lock elects it) and
// relays to the others, because HTTP/1.1 allows a browser six connections per host.
(() => {
  const { texts, text, announce, signIn, setStale } = window.fusebox;
  const root = document.documentElement;
  const pill = document.getElementById("live-pill");
  if (!pill || !window.htmx) return;

  const STALE_AFTER = 35000; // two heartbeats and some
  const TAKE_OVER_AFTER = 45000; // of a leader that says nothing: it is frozen
  const GRACE = 5000; // a reconnect this quick is not worth a word
  const POLL_EVERY = 5000;
  const POLL_AFTER = 3; // failed streams before polling
  const LOCK = "fusebox-live";

  // Without a lock every tab would hold a stream of its own; then they poll instead.
  const channel = "BroadcastChannel" in window ? new BroadcastChannel(LOCK) : null;
  const streams = Boolean(window.EventSource && navigator.locks && channel);

  let lastHeard = Date.now(); // from the server
  let leaderSeen = Date.now(); // the leading tab lives, whatever it has to say
  let brokenSince = 0;
  let paused = false;
  let polling = false;
  let state = "";
  const revs = {}; // what the server announced last, by topic
  const pending = new Set(); // topics that changed while paused or hidden
  const failing = new Map(); // regions that could not be fetched: id → since when

  const backoff = (failures) => Math.min(30000, 1000 * 2 ** Math.min(failures - 1, 5)) * (0.5 + Math.random() / 2);

  // ---- Regions.
  const refresh = (topics) => {
    for (const t of topics) pending.add(t);
    if (paused || document.hidden) return;
    for (const t of pending) {
      const regions = document.querySelectorAll(`[data-live="${CSS.escape(t)}"]`);
      if ([...regions].some((r) => r.dataset.rev !== revs[t] || failing.has(r.id))) {
        document.body.dispatchEvent(new CustomEvent("live:" + t));
      }
    }
    pending.clear();
  };

  document.addEventListener("htmx:configRequest", (e) => {
    const { live, rev } = e.detail.elt.dataset;
    if (live && rev) e.detail.headers["Fusebox-Rev"] = rev;
  });

  // A region that cannot be fetched shows old facts, however well the stream does.
  let retries = 0;
  document.addEventListener("htmx:afterRequest", (e) => {
    const { elt, xhr, successful } = e.detail;
    if (!elt.matches("[data-live]")) return;
    if (successful) {
      failing.delete(elt.id);
      if (!failing.size) retries = 0;
    } else if (xhr.status !== 401) {
      if (!failing.has(elt.id)) failing.set(elt.id, Date.now());
      retries += 1;
      setTimeout(() => refresh([elt.dataset.live]), backoff(retries));
    }
    judge();
  });
  const failingSince = () => {
    for (const id of failing.keys()) if (!document.getElementById(id)) failing.delete(id);
    return failing.size ? Math.min(...failing.values()) : 0;
  };

  // ---- The pill.
  const button = document.createElement("button");
  button.type = "button";
  button.className = "pill";
  const dot = document.createElement("span");
  dot.className = "pill-dot";
  const label = document.createElement("span");
  label.className = "pill-text";
  const hint = document.createElement("span");
  hint.className = "sr-only";
  button.append(dot, label, hint);
  pill.replaceChildren(button);

  const clock = (ms) => new Intl.DateTimeFormat(root.lang,
    { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: root.dataset.tz || undefined }).format(ms);
  const show = (next, since) => {
    const words = {
      live: polling ? texts.polling : texts.live,
      connecting: texts.connecting,
      paused: texts.paused,
      stale: text("stale", clock(since)),
    }[next];
    const offer = paused ? texts.resume : texts.pause;
    if (button.title !== offer) {
      button.title = offer;
      hint.textContent = ". " + offer;
    }
    if (label.textContent !== words) label.textContent = words;
    if (next === state) return;
    const before = state;
    state = next;
    pill.dataset.state = next;
    setStale(next === "stale");
    if (before && next !== "connecting") announce(next === "stale" ? words + ". " + texts.disarmed : words);
  };
  const judge = () => {
    const now = Date.now();
    const failed = failingSince();
    const late = (since) => since && now - since > GRACE;
    if (late(brokenSince) || late(failed) || now - lastHeard > STALE_AFTER) show("stale", Math.min(lastHeard, failed || now));
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
  const tell = (message) => channel && channel.postMessage(message);
  let source = null;
  let failures = 0;
  let leading = false;
  let retry = 0;

  const relay = (changed) => {
    heard(changed);
    tell({ heard: changed });
  };
  const hush = () => {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  };
  const connect = () => {
    hush();
    if (!streams || !leading) return;
    source = new EventSource("/live");
    const live = (changed) => {
      failures = 0;
      polling = false;
      relay(changed);
    };
    source.addEventListener("rev", (e) => live(JSON.parse(e.data)));
    source.addEventListener("beat", () => live({}));
    source.addEventListener("end", () => { // renewed by plan, or the server stops
      hush();
      retry = setTimeout(connect, 200 + Math.random() * 2000);
    });
    source.onerror = () => failed(source.readyState === EventSource.CLOSED);
  };
  const failed = (refused) => {
    hush();
    failures += 1;
    broke();
    tell({ broke: true });
    // A stream does not say why it was refused; a poll does: signed out, or not there. Not
    // at once: it also ends when the person goes to another page.
    if (refused || failures >= POLL_AFTER) setTimeout(poll, 300);
    retry = setTimeout(connect, backoff(failures));
  };

  // ---- Polling, for networks that hold streams back.
  const poll = async () => {
    if (source && source.readyState === EventSource.OPEN) return;
    try {
      const res = await fetch("/live/revs", { credentials: "same-origin", cache: "no-store",
        signal: AbortSignal.timeout(15000), headers: { Accept: "application/json" } });
      if (res.status === 401) {
        tell({ signedOut: true });
        signIn();
        return;
      }
      if (!res.ok) throw new Error(String(res.status));
      const body = await res.json();
      polling = failures >= POLL_AFTER || !streams;
      relay(body);
    } catch {
      broke();
      tell({ broke: true });
    }
  };
  setInterval(() => { if (leading && !document.hidden && (failures >= POLL_AFTER || !streams)) poll(); }, POLL_EVERY);

  // ---- Who leads. The lock is held until this tab goes; one that froze is robbed of it.
  const lead = () => {
    leading = true;
    connect();
    return new Promise(() => {});
  };
  let queued = false;
  const stand = (steal) => {
    if (!steal && queued) return;
    queued = queued || !steal;
    navigator.locks.request(LOCK, { steal }, () => {
      if (!steal) queued = false;
      return lead();
    }).catch(() => { // robbed
      leading = false;
      hush();
      leaderSeen = Date.now();
      stand(false);
    });
  };

  if (channel) {
    channel.onmessage = ({ data }) => {
      if (data.hello) {
        if (leading) tell({ heard: revs });
        return;
      }
      if (data.signedOut) signIn();
      if (leading) return;
      leaderSeen = Date.now();
      if (data.heard) heard(data.heard);
      else if (data.broke) broke();
    };
  }
  if (streams) {
    stand(false);
    tell({ hello: true });
  } else {
    leading = true;
    poll();
  }

  // ---- Coming back: ask at once what was missed.
  const back = () => {
    if (document.hidden) return;
    if (!streams) poll();
    else if (!leading) tell({ hello: true });
    else if (!source || Date.now() - lastHeard > STALE_AFTER) connect();
    refresh([]);
    judge();
  };
  document.addEventListener("visibilitychange", back);
  window.addEventListener("pagehide", hush);
  window.addEventListener("pageshow", (e) => e.persisted && connect());
  window.addEventListener("online", back);
  setInterval(() => {
    judge();
    if (streams && !leading && !document.hidden && Date.now() - leaderSeen > TAKE_OVER_AFTER) {
      leaderSeen = Date.now() + Math.random() * 10000; // not all tabs at once, and not again at once
      stand(true);
    }
  }, 1000);
  show("connecting");
})();
