// The pages, the selection and the keyboard.
import { Bar } from "./bar.js";
import { showDatasets } from "./datasets.js";
import { element, fetchJson, postJson, status } from "./dom.js";
import { Grid } from "./grid.js";
import { parseSampleUrl, sampleUrl } from "./links.js";
import { RowSource } from "./rows.js";
import { showSample } from "./sample.js";
import { showStatistics } from "./statistics.js";

const main = document.getElementById("main");
main.tabIndex = -1;
const { datasets, trees, edit } = await fetchJson("/api/catalogue");
const chosen = new Map();  // "<dataset> <shard>/<key>" → row
let grid = null, rows = null, page = null;
const actions = { go, restart, jump: (place) => grid?.jump(place), exportKeys, exclude, tag, clear: () => { clearChosen(); status(""); grid?.refresh(); }, toggleTheme, help };
const bar = new Bar(document.getElementById("bar"), datasets, trees, edit, actions);
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";

function toggleTheme() {
  const set = document.documentElement.dataset.theme;
  const dark = set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("theme", document.documentElement.dataset.theme = dark ? "light" : "dark");
}

const nameOf = (row) => `${row.d} ${row.shard}/${row.key}`;

function choose(row) {
  if (row.d === null) return;
  if (!chosen.delete(nameOf(row))) chosen.set(nameOf(row), row);
  status(`${chosen.size.toLocaleString()} selected`);
  bar.showSelected(chosen.size);
  grid?.refresh();
}

function clearChosen() { chosen.clear(); bar.showSelected(0); }

function open(row, event) {
  if (!row) return;
  if (event?.ctrlKey || event?.metaKey || event?.shiftKey || bar.selects) choose(row);
  else if (row.d === null) status("samples of this file have no pages; energon preview shows them");
  else go(sampleUrl(datasets[row.d].name, row.shard, row.key));
}

function go(url) { history.pushState(null, "", url); route(); }

function restart() { go(`/?${bar.query()}`); }

async function route() {
  const names = parseSampleUrl(location), [, first] = location.pathname.split("/");
  rows?.stop(); rows = null;
  grid?.close(); grid = null; page = null;
  const shows = names ? "sample" : first === "datasets" || first === "stats" ? first : "grid";
  document.body.dataset.page = shows;
  status("");
  try {
    if (shows === "sample") page = await showSample(main, names, datasets, go);
    else if (shows === "datasets") showDatasets(main, trees, datasets, go);
    else if (shows === "stats") await showStatistics(main, location, datasets, go);
    else await showGrid();
  } catch (error) { main.replaceChildren(element("p", { class: "fault" }, error.message)); }
}

async function showGrid() {
  await bar.read(new URLSearchParams(location.search));
  rows = new RowSource(bar.request(), { status, changed: (total) => grid?.grow(total) });
  grid = new Grid(main, { load: (start, count) => rows.load(start, count), open, chosen: (row) => chosen.has(nameOf(row)), fault: (error) => status(error.message) });
  grid.reset();
}

function exportKeys() {
  if (!chosen.size) { status("select samples first: x, or Ctrl and click"); return; }
  const keys = [...chosen.values()].map((row) => `${row.shard}/${row.key}`);
  const url = URL.createObjectURL(new Blob([[...keys, ""].join("\n")], { type: "text/plain" }));
  element("a", { href: url, download: "keys.txt" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// Sends the selection of each dataset.
async function send(what, more) {
  const reports = [];
  for (const d of new Set([...chosen.values()].map((row) => row.d))) {
    const keys = [...chosen.values()].filter((row) => row.d === d).map((row) => `${row.shard}/${row.key}`);
    reports.push(await postJson(`/api/d/${d}/${what}`, { keys, ...more }));
  }
  clearChosen();
  grid?.reset();
  return reports;
}

async function exclude() {
  if (!chosen.size || !confirm(`Exclude ${chosen.size} samples?`)) return;
  try {
    const reports = await send("exclude", {});
    status(`excluded: ${reports.map((one) => `${one.samples} samples in ${one.file}`).join(", ")}`);
  } catch (error) { status(error.message); }
}

async function tag() {
  if (!chosen.size) { status("select samples first: x, or Ctrl and click"); return; }
  const name = prompt(`Tag of ${chosen.size} samples; empty removes it`);
  if (name === null) return;
  try {
    await send("tag", { tag: name });
    status(name ? `tagged; find them by the condition: tag == ${JSON.stringify(name)}` : "the tags are removed");
  } catch (error) { status(error.message); }
}

function help() {
  const keys = [["arrows", "move; previous and next sample"], ["Enter", "open"], ["x", "select"], ["/", "search"], ["g", "go to a place"], ["Esc", "back to the grid"], ["?", "this help"]];
  const examples = [["width < 64 or height < 64", "small pictures"], ["aspect > 3", "wide ones"], ['size("jpg") > 1000000', "large parts"], ['not has("txt")', "samples without a part"], ["txt_words < 3", "short texts"], ['tag == "bad"', "tagged samples"]];
  const table = (some) => element("table", {}, ...some.map(([one, text]) => element("tr", {}, element("td", {}, element("code", {}, one)), element("td", {}, text))));
  const dialog = element("dialog", { onclose: () => dialog.remove() }, element("h2", {}, "Keys"), table(keys), element("h2", {}, "Conditions"), table(examples),
    element("form", { method: "dialog" }, element("button", {}, "close")));
  document.body.append(dialog);
  dialog.showModal();
}

function back() { history.length > 1 && document.body.dataset.page === "sample" ? go(`/?${bar.query()}`) : go("/"); }

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
  else if (event.key === "/" && grid) bar.focusSearch();
  else if (event.key === "g" && grid) bar.focusJump();
  else if (event.key === "?") help();
  else if (event.key === "Escape" && !grid) back();
  else return;
  event.preventDefault();
});

route();
