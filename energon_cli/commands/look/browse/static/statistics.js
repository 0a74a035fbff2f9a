// Histograms and frequent texts of a dataset; a bar shows its samples.
import { bars, element, fetchJson, number, pageLink } from "./dom.js";

export async function showStatistics(main, location, datasets, go) {
  const name = decodeURIComponent(location.pathname.split("/")[2] ?? "");
  const d = datasets.findIndex((one) => one.name === name);
  if (d < 0) throw new Error(`there is no dataset ${name}`);
  const query = new URLSearchParams(location.search), part = query.get("split_part") ?? "";
  main.replaceChildren(element("p", {}, "samples are read …"));
  const report = await fetchJson(`/api/d/${d}/stats?${query}`);
  const choose = (term) => { const chosen = new URLSearchParams({ d, in: "where", text: term }); if (part) chosen.set("split_part", part); go(`/?${chosen}`); };
  const sampled = report.samples < report.population;
  const more = new URLSearchParams({ ...Object.fromEntries(query), sample: 100000 });
  const shown = `${report.samples.toLocaleString()} ${sampled ? `of ${report.population.toLocaleString()} samples, drawn at random` : "samples"}`;
  main.replaceChildren(element("article", { class: "wide" }, element("nav", {}, pageLink(`/?d=${d}`, "grid", go), sampled && report.samples < 100000 ? pageLink(`?${more}`, "read 100,000", go) : null),
    element("h1", {}, `Statistics of ${name}`), element("p", {}, shown, part ? ` of ${part}` : "", ". A bar shows its samples."),
    report.broken.count ? element("p", { class: "fault" }, `${report.broken.count.toLocaleString()} parts are broken: ${report.broken.first.slice(0, 3).map((one) => `${one.sample} ${one.part}`).join(", ")} … `, element("a", { href: "#", onclick: (event) => { event.preventDefault(); go(`/?${new URLSearchParams({ d, in: "findings", text: "E" })}`); } }, "find all")) : "",
    element("div", { class: "values" }, ...Object.entries(report.numbers).filter(([, one]) => one.count).map(([title, one]) => numbers(one.term ?? title, one, choose)),
      ...Object.entries(report.texts).map(([title, one]) => texts(one.term ?? title, one, choose)))));
  main.scrollTop = 0; main.focus();
}

function numbers(title, one, choose) {
  const last = one.histogram.length - 1;
  const open = one.term === null ? null : (bar, place) => choose(`${one.term} >= ${bar.low} and ${one.term} ${place === last ? "<=" : "<"} ${bar.high}`);
  return element("figure", {}, element("h2", {}, title), bars(one.histogram, open),
    element("p", {}, element("small", {}, `${number(one.min)} – ${number(one.max)} · median ${number(one.median)} · mean ${number(one.mean)} · ${one.count.toLocaleString()} values`)));
}

function texts(title, one, choose) {
  const most = Math.max(...one.top.map((value) => value.count));
  return element("figure", {}, element("h2", {}, title), ...one.top.map((value) => element(one.term === null ? "div" : "button", { class: "text", title: value.value, onclick: () => one.term !== null && choose(`${one.term} == ${JSON.stringify(value.value)}`) },
    element("meter", { min: 0, max: most, value: value.count }), element("span", {}, value.value || "(empty)"), element("small", {}, value.count.toLocaleString()))),
  element("p", {}, element("small", {}, `${one.distinct.toLocaleString()} different`)));
}
