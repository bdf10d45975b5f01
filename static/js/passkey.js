"use strict";
// Passkeys: a form marked data-passkey asks the server for a challenge, the browser for
// an answer, and then sends itself with the answer in a hidden field.
(() => {
  const bytes = (text) => {
    const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(plain, (c) => c.charCodeAt(0));
  };
  const text = (buffer) => {
    let plain = "";
    for (const b of new Uint8Array(buffer)) plain += String.fromCharCode(b);
    return btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const known = (list) => (list || []).map((c) => ({ ...c, id: bytes(c.id) }));

  const create = async (o) => {
    o.challenge = bytes(o.challenge);
    o.user.id = bytes(o.user.id);
    o.excludeCredentials = known(o.excludeCredentials);
    return navigator.credentials.create({ publicKey: o });
  };
  const get = async (o) => {
    o.challenge = bytes(o.challenge);
    o.allowCredentials = known(o.allowCredentials);
    return navigator.credentials.get({ publicKey: o });
  };

  const answer = (c) => {
    const r = c.response;
    const out = { id: c.id, rawId: text(c.rawId), type: c.type, clientExtensionResults: c.getClientExtensionResults(),
      authenticatorAttachment: c.authenticatorAttachment || undefined, response: { clientDataJSON: text(r.clientDataJSON) } };
    if (r.attestationObject) {
      out.response.attestationObject = text(r.attestationObject);
      if (r.getTransports) out.response.transports = r.getTransports();
    } else {
      out.response.authenticatorData = text(r.authenticatorData);
      out.response.signature = text(r.signature);
      if (r.userHandle) out.response.userHandle = text(r.userHandle);
    }
    return JSON.stringify(out);
  };

  const ask = async (form) => {
    const res = await fetch(form.dataset.begin, { method: "POST", credentials: "same-origin" });
    if (res.redirected) { // prove who you are again, or sign in, first
      location.assign(res.url);
      return null;
    }
    if (!res.ok) throw new Error(String(res.status));
    const { publicKey } = await res.json();
    return answer(await (form.dataset.passkey === "create" ? create(publicKey) : get(publicKey)));
  };

  document.addEventListener("submit", async (e) => {
    const form = e.target.closest("form[data-passkey]");
    if (!form) return;
    e.preventDefault();
    const problem = form.querySelector(".passkey-problem");
    problem.hidden = true;
    try { // app.js keeps the form from being sent a second time meanwhile
      const got = await ask(form);
      if (got) {
        form.elements.credential.value = got;
        form.submit();
      }
    } catch {
      problem.textContent = form.dataset.failed;
      problem.hidden = false;
      window.fusebox.release(form);
    }
  });
})();
