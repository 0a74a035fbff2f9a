// Elements are made of text nodes only: nothing of a dataset is ever parsed as HTML.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export async function fetchJson(url, options = {}) {
  const answer = await fetch(url, options);
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  let message = text;
  try { message = JSON.parse(text).fault; } catch { /* a plain text */ }
  throw new Error(message || `HTTP ${answer.status}`);
}

export function status(text) { document.getElementById("status").textContent = text; }

export function bytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000 || unit === "GB") return `${unit === "B" ? count : count.toFixed(1)} ${unit}`;
    count /= 1000;
  }
}

export function postJson(url, body) {  // the header shows that the request comes from this page
  return fetchJson(url, { method: "POST", headers: { "X-Energon": "1" }, body: JSON.stringify(body) });
}

export function pageLink(url, content, go) {
  return element("a", { href: url, onclick: (event) => { if (!event.ctrlKey && !event.metaKey) { event.preventDefault(); go(url); } } }, content);
}

export const number = (value) => (Number.isInteger(value) ? value.toLocaleString() : String(+value.toPrecision(4)));

export function bars(histogram, open) {
  const most = Math.max(...histogram.map((bar) => bar.count));
  return element("div", { class: "bars" }, ...histogram.map((bar, place) => {
    const title = `${number(bar.low)} – ${number(bar.high)}: ${bar.count.toLocaleString()}`;
    const one = element(open ? "button" : "div", { title, "aria-label": title, onclick: () => open?.(bar, place) }, element("span", {}));
    one.firstChild.style.height = bar.count ? `${Math.max(2, 100 * bar.count / most)}%` : "0";
    return one;
  }));
}
