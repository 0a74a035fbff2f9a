// The grid, the bar above it, and the keyboard.
import { element, fetchJson, status } from "./dom.js";
import { Grid } from "./grid.js";
import { parseSampleUrl, sampleUrl } from "./links.js";
import { showSample } from "./sample.js";

const main = document.getElementById("main"), bar = document.getElementById("bar");
main.tabIndex = -1;
const { datasets, edit } = await fetchJson("/api/catalogue");
const chosen = new Map();
let grid = null, search = null, page = null, found = null;
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";

const options = (values) => values.map(([value, text]) => element("option", { value }, text));
const label = (one) => `${one.place ? `${one.place} ` : ""}${one.name} (${one.samples.toLocaleString()})${one.weight === null ? "" : ` × ${one.weight}`}`;
const controls = {
  dataset: element("select", { title: "dataset", onchange: changeDataset }, ...options(datasets.map((one, number) => [number, label(one)]))),
  part: element("select", { title: "split part", onchange: restart }),
  shard: element("select", { title: "shard", onchange: restart }),
  order: element("select", { title: "order", onchange: restart }, ...options([["", "shard order"], ["1", "shuffled"]])),
  seed: element("input", { type: "number", min: 0, value: 0, title: "seed of the shuffle", onchange: restart }),
  kind: element("select", { title: "where to search", onchange: restart }, ...options([["keys", "keys begin with"], ["texts", "texts contain"]])),
  text: element("input", { type: "search", placeholder: "search ( / )", onchange: restart }),
  jump: element("input", { type: "number", min: 0, placeholder: "go to", title: "go to a place", onchange: () => grid?.jump(Number(controls.jump.value)) }),
};
bar.append(element("b", {}, "energon"), ...Object.values(controls),
  element("button", { title: "keys of the selection", onclick: exportKeys }, "export keys"),
  ...(edit ? [element("button", { onclick: exclude }, "exclude")] : []),
  element("button", { title: "dark or light", onclick: toggleTheme }, "◐"), element("button", { onclick: help }, "?"));

function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  localStorage.setItem("theme", document.documentElement.dataset.theme = dark ? "light" : "dark");
}

function changeDataset() {
  const one = datasets[controls.dataset.value];
  controls.part.replaceChildren(...options([["", "all parts"], ...one.split_parts.map((name) => [name, name])]));
  controls.shard.replaceChildren(...options([["", "all shards"], ...one.shards.map((name) => [name, name])]));
  chosen.clear();
  restart();
}

const current = () => datasets[controls.dataset.value];
const api = () => `/api/d/${controls.dataset.value}`;
const chosenName = (row) => `${row.shard}/${row.key}`;
const withThumbnail = (row) => ({ ...row, thumbnail: `${api()}/${row.n}/thumbnail?${new URLSearchParams({ part: row.picture ?? "", pixels: 256 })}` });

function facets() {
  const query = new URLSearchParams();
  if (controls.part.value) query.set("split_part", controls.part.value);
  if (controls.shard.value) query.set("shard", controls.shard.value);
  return query;
}

async function load(start, count) {
  if (found) return { rows: found.slice(start, start + count), total: found.length };
  const query = facets();
  query.set("start", start); query.set("count", count);
  if (controls.order.value) query.set("seed", controls.seed.value || 0);
  const answer = await fetchJson(`${api()}/rows?${query}`);
  if (!start) status(`${answer.total.toLocaleString()} samples of ${current().path}`);
  return { total: answer.total, rows: answer.rows.map(withThumbnail) };
}

async function restart() {
  search?.abort();
  search = null;
  controls.seed.hidden = !controls.order.value;
  if (parseSampleUrl(location)) history.pushState(null, "", "/");
  if (!grid) showGrid();
  found = controls.text.value ? [] : null;
  grid.reset();
  if (found) await runSearch().catch((error) => { if (error.name !== "AbortError") status(error.message); });
}

async function runSearch() {
  search = new AbortController();
  const mine = search, rows = found, query = facets();
  query.set("text", controls.text.value); query.set("in", controls.kind.value);
  const answer = await fetch(`${api()}/search?${query}`, { signal: mine.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done || mine !== search) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const batch = JSON.parse(line);
      rows.push(...batch.rows.map(withThumbnail));
      status(`${rows.length.toLocaleString()} found in ${batch.searched.toLocaleString()} samples …`);
    }
    grid?.pages.clear(); grid?.setTotal(rows.length); grid?.schedule();
  }
  if (mine === search) status(`${rows.length.toLocaleString()} found`);
}

function showGrid() {
  page = null;
  grid = new Grid(main, { load, open, chosen: (row) => chosen.has(chosenName(row)) });
}

function choose(row) {
  if (!chosen.delete(chosenName(row))) chosen.set(chosenName(row), row);
  status(`${chosen.size.toLocaleString()} selected`);
  grid?.refresh();
}

function open(row, event) {
  if (!row) return;
  if (event?.ctrlKey || event?.metaKey || event?.shiftKey) choose(row);
  else go(sampleUrl(current().name, row.shard, row.key));
}

function go(url) { history.pushState(null, "", url); route(); }

async function route() {
  const names = parseSampleUrl(location);
  bar.hidden = Boolean(names);
  if (!names) { if (!grid) { showGrid(); grid.reset(); } return; }
  grid?.close(); grid = null;
  try { page = await showSample(main, names, datasets, go); status(""); } catch (error) { main.replaceChildren(element("p", { class: "fault" }, error.message)); }
}

function exportKeys() {
  if (!chosen.size) { status("select samples first: x, or Ctrl and click"); return; }
  const url = URL.createObjectURL(new Blob([[...chosen.keys(), ""].join("\n")], { type: "text/plain" }));
  element("a", { href: url, download: "keys.txt" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function exclude() {
  if (!chosen.size || !confirm(`Exclude ${chosen.size} samples?`)) return;
  try {
    const report = await fetchJson(`${api()}/exclude`, { method: "POST", headers: { "X-Energon": "1" }, body: JSON.stringify({ keys: [...chosen.keys()] }) });
    chosen.clear();
    grid.reset();
    status(`${report.samples} samples excluded in ${report.file}`);
  } catch (error) { status(error.message); }
}

function help() {
  const dialog = element("dialog", { onclose: () => dialog.remove() }, element("pre", {},
    "arrows   move, or previous and next sample\nEnter    open\nx        select\n/        search\ng        go to a place\nEsc      back to the grid\n?        this help"),
    element("form", { method: "dialog" }, element("button", {}, "close")));
  document.body.append(dialog);
  dialog.showModal();
}

addEventListener("popstate", route);
addEventListener("keydown", (event) => {
  if (event.target.matches("input, select")) { if (event.key === "Escape") main.focus(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  const step = grid ? { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns }[event.key] : undefined;
  const side = page && { ArrowLeft: page.before, ArrowRight: page.after }[event.key];
  if (step !== undefined) grid.jump(grid.focus + step);
  else if (side) go(sampleUrl(page.dataset, side.shard, side.key));
  else if (event.key === "Enter" && grid) open(grid.row(grid.focus));
  else if (event.key === "x" && grid?.row(grid.focus)) choose(grid.row(grid.focus));
  else if (event.key === "/") controls.text.focus();
  else if (event.key === "g") controls.jump.focus();
  else if (event.key === "?") help();
  else if (event.key === "Escape" && !grid) go("/");
  else return;
  event.preventDefault();
});

controls.seed.hidden = true;
if (parseSampleUrl(location)) { const one = current(); controls.part.append(...options([["", "all parts"], ...one.split_parts.map((name) => [name, name])])); controls.shard.append(...options([["", "all shards"], ...one.shards.map((name) => [name, name])])); route(); } else changeDataset();
