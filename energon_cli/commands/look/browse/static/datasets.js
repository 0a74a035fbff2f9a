// The tree of the paths: metadatasets with weights, and some pictures of each leaf.
import { element, fetchJson, pageLink } from "./dom.js";
import { sampleUrl } from "./links.js";

const PICTURES = 8;

export function showDatasets(main, trees, datasets, go) {
  main.replaceChildren(element("article", {}, element("nav", {}, pageLink("/", "grid", go)), element("h1", {}, "Datasets"), ...trees.map((tree) => node(tree, datasets, go))));
  main.scrollTop = 0; main.focus();
}

function node(one, datasets, go) {
  const facts = [one.kind, one.weight === null ? "" : `${+(100 * one.weight).toPrecision(3)} % of all samples`, one.repetitions === null ? "" : `× ${one.repetitions}`];
  const summary = element("summary", {}, element("b", {}, one.name), element("small", {}, facts.filter(Boolean).join(" · ")));
  const leaves = one.datasets.map((d) => leaf(d, datasets[d], go));
  const bar = one.weight === null ? "" : element("meter", { min: 0, max: 1, value: one.weight });
  return element("details", { open: true, class: "node" }, summary, bar, ...leaves, ...one.children.map((child) => node(child, datasets, go)));
}

function leaf(d, dataset, go) {
  const strip = element("div", { class: "strip" });
  const query = new URLSearchParams(dataset.split_part ? { d, split_part: dataset.split_part } : { d });
  const shown = new IntersectionObserver(async ([entry]) => {  // pictures of leaves that are on the screen only
    if (!entry.isIntersecting) return;
    shown.disconnect();
    const { rows } = await fetchJson(`/api/d/${d}/rows?seed=0&count=${PICTURES}`);
    strip.append(...rows.filter((row) => row.picture).map((row) => pageLink(sampleUrl(dataset.name, row.shard, row.key),
      element("img", { alt: row.key, src: `/api/d/${d}/${row.n}/thumbnail?${new URLSearchParams({ part: row.picture, pixels: 128, v: row.v })}` }), go)));
  });
  shown.observe(strip);
  const facts = `${dataset.samples.toLocaleString()} samples${dataset.split_part ? ` of ${dataset.split_part}` : ""} · ${dataset.path}`;
  return element("div", { class: "leaf" }, element("p", {}, pageLink(`/?${query}`, dataset.name, go), " ", element("small", {}, facts), " ",
    pageLink(`/stats/${encodeURIComponent(dataset.name)}`, "statistics", go)), strip);
}
