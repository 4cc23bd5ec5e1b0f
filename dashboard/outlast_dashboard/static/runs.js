// The page of runs: selected rows, a period between two instants, and filters that this browser keeps by name.
(() => {
  const at = (id) => document.getElementById(id);
  const boxes = () => [...document.querySelectorAll("input[name=run_id][id]")];

  // --- selected rows; those that have moved to another page meanwhile stay selected, and are counted ---
  const bar = at("selection");
  const selected = new Set();

  function showSelection() {
    if (!bar) return;
    const shown = boxes();
    const here = shown.filter((box) => selected.has(box.value));
    for (const box of shown) {
      box.checked = selected.has(box.value);
      box.closest("tr").classList.toggle("selected", box.checked);
    }
    const all = at("pick-all");
    if (all) {
      all.checked = shown.length > 0 && here.length === shown.length;
      all.indeterminate = here.length > 0 && !all.checked;
    }
    const elsewhere = [...selected].filter((id) => !here.some((box) => box.value === id));
    at("kept").replaceChildren(...elsewhere.map((id) => {
      const kept = document.createElement("input");
      Object.assign(kept, { type: "hidden", name: "run_id", value: id });
      return kept;
    }));
    at("selected").textContent = `${selected.size} selected`;
    at("selected-elsewhere").textContent = elsewhere.length ? `${elsewhere.length} of them no longer on this page` : "";
    bar.classList.toggle("shown", selected.size > 0);
  }

  let last = null;
  document.addEventListener("click", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.name !== "run_id" || !box.id) return;
    const shown = boxes();
    const from = shown.findIndex((one) => one.id === last), to = shown.indexOf(box);
    const range = event.shiftKey && from >= 0 ? shown.slice(Math.min(from, to), Math.max(from, to) + 1) : [box];
    for (const one of range) box.checked ? selected.add(one.value) : selected.delete(one.value);
    last = box.id;
    showSelection();
  });
  document.addEventListener("change", (event) => {
    if (event.target.id !== "pick-all") return;
    for (const box of boxes()) event.target.checked ? selected.add(box.value) : selected.delete(box.value);
    showSelection();
  });
  at("clear-selection")?.addEventListener("click", () => { selected.clear(); showSelection(); });
  document.addEventListener("outlast:refresh", showSelection);
  // A browser that comes back to the page restores its boxes.
  window.addEventListener("pageshow", () => {
    for (const box of boxes()) if (box.checked) selected.add(box.value);
    showSelection();
  });

  // --- the address that the form stands for, without what is empty ---
  const form = at("filters");
  const query = () => new URLSearchParams([...new FormData(form)].filter(([, text]) => text !== ""));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.search = query().toString();
  });

  // --- on a phone the filters are folded until they are wanted or in use ---
  const unfold = form.querySelector(".unfold");
  const fold = (open) => {
    form.classList.toggle("folded", !open);
    unfold.setAttribute("aria-expanded", String(open));
  };
  unfold.addEventListener("click", () => fold(form.classList.contains("folded")));
  fold(form.classList.contains("in-use"));

  // --- between two instants ---
  const utc = () => document.querySelector("[data-zone=utc]").getAttribute("aria-pressed") === "true";
  function showZone() {
    const name = utc() ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const element of document.querySelectorAll("[data-zone-name]")) {
      if (element.textContent !== name) element.textContent = name;
    }
  }
  document.addEventListener("outlast:refresh", showZone);
  at("apply-between").addEventListener("click", () => {
    const wanted = query();
    for (const input of document.querySelectorAll("[data-instant-of]")) {
      wanted.delete(input.dataset.instantOf);
      if (input.value) wanted.set(input.dataset.instantOf, new Date(input.value + (utc() ? "Z" : "")).toISOString());
    }
    location.search = wanted.toString();
  });

  // --- saved filters ---
  const saved = () => {
    try { return Object.entries(JSON.parse(window.outlast.recall("filters") ?? "{}")); } catch { return []; }
  };
  const keep = (pairs) => { window.outlast.remember("filters", JSON.stringify(Object.fromEntries(pairs))); showSaved(); };
  function showSaved() {
    const pairs = saved();
    at("saved-none").hidden = pairs.length > 0;
    at("saved-list").replaceChildren(...pairs.map(([name, text]) => {
      const item = document.createElement("li"), link = document.createElement("a"), remove = document.createElement("button");
      link.href = `?${text}`;
      link.textContent = name;
      remove.type = "button";
      remove.className = "quiet small";
      remove.textContent = "Remove";
      remove.setAttribute("aria-label", `Remove ${name}`);
      remove.addEventListener("click", (event) => {
        event.stopPropagation();
        keep(saved().filter(([other]) => other !== name));
      });
      item.append(link, remove);
      return item;
    }));
  }
  at("save-filter").addEventListener("click", () => {
    const name = at("saved-name").value.trim();
    if (!name) { at("saved-name").focus(); return; }
    keep([...saved().filter(([other]) => other !== name), [name, query().toString()]]);
    at("saved-name").value = "";
  });
  at("saved-name").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    at("save-filter").click();
  });

  showSaved();
  showZone();
  showSelection();
})();
