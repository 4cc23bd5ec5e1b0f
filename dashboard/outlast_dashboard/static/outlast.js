// For every page: times that count and follow the chosen zone, the state of the connection, menus, copying.
(() => {
  document.documentElement.classList.add("js");
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const all = (selector, within = document) => within.querySelectorAll(selector);

  // --- storage: a private window may refuse it ---
  const recall = (name) => { try { return localStorage.getItem(`outlast.${name}`); } catch { return null; } };
  const remember = (name, text) => { try { localStorage.setItem(`outlast.${name}`, text); } catch { /* not kept */ } };

  // --- times ---
  // The server's clock counts: a machine whose own clock is wrong shows the same as all others.
  const told = document.querySelector("meta[name=now]");
  const off = told ? Date.parse(told.content) - Date.now() : 0;
  const skew = Math.abs(off) > 2000 ? off : 0;
  let zone = recall("zone") === "utc" ? "utc" : "local";

  function words(seconds) {
    seconds = Math.abs(seconds);
    for (const [size, unit, less, lesser] of units) {
      if (seconds >= size) {
        const whole = Math.floor(seconds / size);
        const rest = Math.floor((seconds % size) / less);
        return rest ? `${whole} ${unit} ${rest} ${lesser}` : `${whole} ${unit}`;
      }
    }
    return `${Math.floor(seconds)} s`;
  }

  // How long ago, in one unit: what is a minute old does not need to tick.
  function rough(seconds) {
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    }
    return `${Math.floor(seconds)} s`;
  }

  const two = (number) => String(number).padStart(2, "0");
  function clock(iso, precise) {
    const at = new Date(iso);
    const shown = zone === "utc" ? at : new Date(at.getTime() - at.getTimezoneOffset() * 60000);
    const text = shown.toISOString().replace("T", " ").replace("Z", "");
    return precise ? text : text.slice(0, 19);
  }
  function offset(iso) {
    const minutes = zone === "utc" ? 0 : -new Date(iso).getTimezoneOffset();
    return minutes ? ` ${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}` : "Z";
  }

  function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }
  const look = (left, near, soon) => (left <= 0 ? "passed" : left <= near ? "near" : left <= soon ? "soon" : "far");

  function tick() {
    const now = Date.now() + skew;
    for (const element of all("[data-until]")) {
      const left = (Date.parse(element.dateTime) - now) / 1000;
      put(element, left <= 0 ? `${words(left)} over` : `${words(left)} left`);
      element.className = `until ${look(left, element.dataset.near, element.dataset.soon)}`;
    }
    for (const element of all("[data-ahead]")) {
      const left = (Date.parse(element.dateTime) - now) / 1000;
      put(element, left <= 0 ? `${words(left)} over` : `in ${words(left)}`);
      element.className = `ahead ${left <= 0 ? "passed" : "far"}`;
    }
    for (const element of all("[data-since]")) {
      const gone = (now - Date.parse(element.dateTime)) / 1000;
      put(element, gone >= 0 ? `${rough(gone)} ago` : `in ${rough(-gone)}`);
    }
    for (const element of all("[data-lasts]")) {
      put(element, words(Math.max(0, (now - Date.parse(element.dateTime)) / 1000)));
    }
    for (const element of all("progress[data-from]")) {
      const from = Date.parse(element.dataset.from), to = Date.parse(element.dataset.to);
      element.value = Math.min(Math.max(0, (now - from) / 1000), element.max);
      element.className = `meter ${look((to - now) / 1000, element.dataset.near, element.dataset.soon)}`;
    }
    for (const element of all("rect.now[data-from]")) {
      const from = Date.parse(element.dataset.from), to = Date.parse(element.dataset.to);
      element.setAttribute("x", `${(100 * Math.min(Math.max(0, (now - from) / (to - from)), 1)).toFixed(2)}%`);
    }
  }

  function localize() {
    for (const element of all("time[datetime]")) {
      const { instant } = element.dataset;
      if (instant !== undefined) put(element, clock(element.dateTime, instant === "precise"));
      const title = clock(element.dateTime, true) + offset(element.dateTime);
      if (element.title !== title) element.title = title;
    }
    for (const button of all("[data-zone]")) {
      button.setAttribute("aria-pressed", String(button.dataset.zone === zone));
      if (button.dataset.zone === "local") button.title = Intl.DateTimeFormat().resolvedOptions().timeZone;
    }
  }

  // --- what is larger than its frame opens where something happens, and stays where it is scrolled to ---
  const MATTERS = [".failed, .timed_out, .compensation_failed", ".backing_off", ".running", ".waiting", ".node"];
  const LIT = [".lit.failed.begins, .lit.timed_out.begins", ".lit.begins"];
  const placed = new WeakSet();
  function place() {
    for (const frame of all(".drawing, .source")) {
      if (placed.has(frame)) continue;
      placed.add(frame);
      const looks = frame.matches(".source") ? LIT : MATTERS.map((look) => `:is(${look}) > rect.box`);
      const found = looks.map((look) => frame.querySelector(look)).find(Boolean);
      if (!found) continue;
      const box = found.getBoundingClientRect(), around = frame.getBoundingClientRect();
      if (!frame.matches(".source")) frame.scrollLeft += box.left - around.left - (around.width - box.width) / 2;
      frame.scrollTop += box.top - around.top - (around.height - box.height) / 2;
    }
  }

  // Seen as a whole and then at its size again, it has forgotten how it was scrolled.
  document.addEventListener("change", (event) => {
    if (!event.target.closest(".whole")) return;
    for (const frame of all(".drawing")) placed.delete(frame);
    place();
  });

  // --- connection ---
  function say(state, text) {
    const status = document.getElementById("live");
    if (!status) return;
    status.dataset.state = state;
    put(status, text);
  }

  // --- after each message of the server, and at the start ---
  function refresh() {
    localize();
    tick();
    place();
    document.dispatchEvent(new CustomEvent("outlast:refresh"));
  }

  document.addEventListener("htmx:after:swap", refresh);
  document.addEventListener("htmx:sse:after:connection", () => say("live", "live"));
  document.addEventListener("htmx:sse:after:message", () => { say("live", "live"); refresh(); });
  document.addEventListener("htmx:sse:error", (event) => {
    // Signed out elsewhere: the page itself leads to the form.
    if (event.detail.status === 401) location.reload();
    else if (event.detail.status === 503) say("lost", "database does not answer");
    else say("lost", "reconnecting");
  });
  document.addEventListener("htmx:sse:close", () => say("lost", "not connected"));

  document.addEventListener("click", (event) => {
    const chosen = event.target.closest("[data-zone]");
    if (chosen) {
      zone = chosen.dataset.zone;
      remember("zone", zone);
      refresh();
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      copyText(copy.dataset.copy).then(() => {
        copy.classList.add("copied");
        setTimeout(() => copy.classList.remove("copied"), 1500);
      });
    }
    for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of all("details.menu[open]")) {
      const inside = menu.contains(document.activeElement);
      menu.open = false;
      if (inside) menu.querySelector("summary").focus();
    }
  });

  // The clipboard is closed to pages that are served over plain HTTP from another machine.
  async function copyText(text) {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  // On a phone the navigation is wider than the screen.
  const here = document.querySelector(".bar nav [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft + here.offsetWidth - here.parentElement.clientWidth;

  window.outlast = { recall, remember };
  refresh();
  setInterval(tick, 1000);
})();
