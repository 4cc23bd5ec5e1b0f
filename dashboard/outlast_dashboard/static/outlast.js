// Counts times up and down between the server's messages, and shows whether the page is live.
(() => {
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

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

  function tick() {
    const now = Date.now();
    for (const element of document.querySelectorAll("[data-until]")) {
      const left = (Date.parse(element.dateTime) - now) / 1000;
      element.textContent = left <= 0 ? `${words(left)} over` : `${words(left)} left`;
      element.className = `until ${left <= 0 ? "passed" : left <= element.dataset.near ? "near" : left <= element.dataset.soon ? "soon" : "far"}`;
    }
    for (const element of document.querySelectorAll("[data-ahead]")) {
      const left = (Date.parse(element.dateTime) - now) / 1000;
      element.textContent = left <= 0 ? `${words(left)} over` : `in ${words(left)}`;
      element.className = `until ${left <= 0 ? "passed" : "far"}`;
    }
    for (const element of document.querySelectorAll("[data-since]")) {
      const gone = (now - Date.parse(element.dateTime)) / 1000;
      element.textContent = gone >= 0 ? `${words(gone)} ago` : `in ${words(gone)}`;
    }
  }

  function say(text) {
    const status = document.getElementById("live");
    if (status && status.textContent !== text) status.textContent = text;
  }

  document.addEventListener("htmx:sse:after:connection", () => say("live"));
  document.addEventListener("htmx:sse:after:message", () => say("live"));
  document.addEventListener("htmx:sse:error", (event) => {
    // Signed out elsewhere: the page itself leads to the form.
    if (event.detail.status === 401) location.reload();
    else say("not connected; trying again");
  });
  document.addEventListener("htmx:sse:close", () => say("not connected"));
  setInterval(tick, 1000);
})();
