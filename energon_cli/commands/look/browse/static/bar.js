// The bar above the grid: dataset, facets, order and search. Its state is the query of the URL.
import { element, fetchJson } from "./dom.js";

const options = (values) => values.map(([value, text]) => element("option", { value }, text));
const label = (one) => `${one.name} · ${one.samples.toLocaleString()}${one.weight === null ? "" : ` · ${+(100 * one.weight).toPrecision(3)} %`}${one.place ? ` · ${one.place}` : ""}`;
const TRAINING = ["step", "batch_size", "ranks", "rank", "workers", "shuffle_buffer_size", "max_samples_per_sequence", "seed_offset"];
const HINTS = { keys: "beginning of a key ( / )", texts: "text ( / )", where: "width < 64 and …  ( / )", findings: "E302, or E for all ( / )" };

export class Bar {
  constructor(bar, datasets, trees, edit, actions) {
    this.datasets = datasets; this.trees = trees; this.edit = edit; this.selects = false;
    const restart = () => actions.restart();
    const number = (name, value, more = {}) => element("input", { type: "number", min: 0, value, title: name.replaceAll("_", " "), placeholder: name.replaceAll("_", " "), onchange: restart, ...more });
    this.controls = {
      d: element("select", { title: "dataset", onchange: () => { this.controls.split_part.value = this.controls.shard.value = ""; restart(); } }, ...options(datasets.map((one, place) => [place, label(one)]))),
      split_part: element("select", { title: "split part", onchange: restart }),
      shard: element("select", { title: "shard", onchange: restart }),
      order: element("select", { title: "order", onchange: restart }, ...options([["", "shard order"], ["shuffled", "shuffled"], ["training", "training order"]])),
      seed: number("seed", 0),
      path: element("select", { title: "path of the run", onchange: restart }, ...options(trees.map((one, place) => [place, one.name]))),
      step: number("step", 0), batch_size: number("batch_size", 8, { min: 1 }), ranks: number("ranks", 1, { min: 1 }), rank: number("rank", "", { placeholder: "all ranks" }), workers: number("workers", 0), shuffle_buffer_size: number("shuffle_buffer_size", "", { placeholder: "none" }), max_samples_per_sequence: number("max_samples_per_sequence", "", { placeholder: "none" }), seed_offset: number("seed_offset", 0),
      in: element("select", { title: "what is searched", onchange: () => { this.hint(); if (this.controls.text.value) restart(); } }, ...options([["keys", "keys begin with"], ["texts", "texts contain"], ["where", "condition"], ["findings", "lint findings"]])),
      text: element("input", { type: "search", title: "search", onchange: restart }),
    };
    this.jump = element("input", { type: "number", min: 0, placeholder: "go to", title: "go to a place", onchange: () => actions.jump(Number(this.jump.value)) });
    const labelled = (name) => element("label", { "data-training": true }, name.replaceAll("_", " "), this.controls[name]);
    const { d, split_part, shard, order, seed, path, in: kind, text } = this.controls;
    this.selected = element("b", {});
    const button = (title, run, text = title) => element("button", { title, onclick: run }, text);
    this.mode = button("select by clicks", () => { this.selects = !this.selects; this.mode.classList.toggle("on", this.selects); }, "select");
    this.forSelection = [button("keys of the selection as a file", actions.exportKeys, "export keys"),
      ...(edit ? [button("exclude the selection", actions.exclude, "exclude"), button("tag the selection", actions.tag, "tag")] : []),
      button("select nothing", actions.clear, "clear")];
    this.showSelected(0);
    bar.append(element("b", {}, "energon"), d, split_part, shard, order, seed, path, ...TRAINING.map(labelled), kind, text, this.jump,
      button("the tree of datasets", () => actions.go("/datasets"), "datasets"), button("statistics of the dataset", () => actions.go(this.statisticsUrl()), "statistics"),
      this.mode, this.selected, ...this.forSelection,
      button("dark or light", actions.toggleTheme, "◐"), button("help", actions.help, "?"));
  }

  statisticsUrl() {
    const part = this.controls.split_part.value;
    return `/stats/${encodeURIComponent(this.datasets[this.controls.d.value].name)}${part ? `?${new URLSearchParams({ split_part: part })}` : ""}`;
  }

  query() {
    const query = new URLSearchParams(), order = this.controls.order.value;
    for (const [name, control] of Object.entries(this.controls)) {
      const unused = (name === "seed" && order !== "shuffled") || ((TRAINING.includes(name) || name === "path") && order !== "training") || (name === "in" && !this.controls.text.value);
      if (control.value !== "" && !unused && !(name === "d" && control.value === "0")) query.set(name, control.value);
    }
    return query;
  }

  async read(query) {  // shows the state of a URL
    const { controls } = this;
    const d = Number(query.get("d") ?? 0) < this.datasets.length ? query.get("d") ?? "0" : "0";
    if (this.facetsOf !== d) {
      const facets = await fetchJson(`/api/d/${d}/facets`);
      controls.split_part.replaceChildren(...options([["", "all parts"], ...facets.split_parts.map((name) => [name, name])]));
      controls.shard.replaceChildren(...options([["", "all shards"], ...facets.shards.map((name) => [name, name])]));
      this.facetsOf = d;
    }
    for (const [name, control] of Object.entries(controls)) {
      if (name === "d") control.value = d;
      else control.value = query.get(name) ?? { in: control.value || "keys", seed: "0", path: "0", step: "0", batch_size: "8", ranks: "1", workers: "0", seed_offset: "0" }[name] ?? "";
    }
    const order = controls.order.value;
    controls.seed.hidden = order !== "shuffled";
    controls.path.hidden = order !== "training" || this.trees.length < 2;
    for (const one of document.querySelectorAll("[data-training]")) one.hidden = order !== "training";
    for (const name of ["d", "shard", "in", "text"]) controls[name].hidden = order === "training";
    controls.d.hidden ||= this.datasets.length < 2;
    this.hint();
  }

  hint() { this.controls.text.placeholder = HINTS[this.controls.in.value] ?? ""; }

  request() {
    const value = (name) => this.controls[name].value;
    return { dataset: this.datasets[value("d")], d: value("d"), order: value("order"), seed: value("seed") || "0", kind: value("in"), text: value("order") === "training" ? "" : value("text"),
      facets: { split_part: value("split_part"), shard: value("shard") },
      training: Object.fromEntries(["path", ...TRAINING].map((name) => [name, value(name)])) };
  }

  showSelected(count) {
    this.selected.textContent = `${count.toLocaleString()} selected`;
    for (const one of [this.selected, ...this.forSelection]) one.hidden = !count;
  }

  focusSearch() { this.controls.text.focus(); }
  focusJump() { this.jump.focus(); }
}
