// The page of one sample.
import { bars, bytes, element, fetchJson, number as shownNumber, pageLink } from "./dom.js";
import { sampleUrl } from "./links.js";

export async function showSample(main, names, datasets, go) {
  const dataset = datasets.findIndex((one) => one.name === names.dataset);
  if (dataset < 0) throw new Error(`there is no dataset ${names.dataset}`);
  const { number } = await fetchJson(`/api/d/${dataset}/find?${new URLSearchParams({ shard: names.shard, key: names.key })}`);
  const api = `/api/d/${dataset}/${number}`;
  const page = await fetchJson(api);
  const link = (one, text) => pageLink(sampleUrl(page.dataset, one.shard, one.key), text, go);
  const before = page.neighbours.find((one) => one.number < number), after = page.neighbours.find((one) => one.number > number);
  const mapped = element("section", {}, element("h2", {}, "As the field map makes it"), "…");
  const findings = element("section", {}, element("h2", {}, "Lint findings"), "…");
  main.replaceChildren(element("article", {},
    element("nav", {}, pageLink(`/?d=${dataset}`, "grid", go),
      before ? link(before, "← before") : null, after ? link(after, "next →") : null),
    element("h1", {}, `${page.shard}/${page.key}`),
    element("p", {}, `sample ${number.toLocaleString()} of ${page.dataset}, in ${page.path}`, page.excluded ? " · excluded" : ""),
    ...page.parts.map((part) => showPart(api, page, part)),
    page.more ? element("p", {}, `${page.more.toLocaleString()} more parts are not shown; energon extract writes them to files`) : null,
    page.columns.length ? element("section", {}, element("h2", {}, "Columns"), ...page.columns.map(showColumn)) : null, findings, mapped));
  main.scrollTop = 0; main.focus();
  fetchJson(`${api}/mapped`).then((document) => mapped.replaceChildren(...showMapped(document)),
    (error) => mapped.append(element("p", { class: "fault" }, error.message)));
  fetchJson(`${api}/findings`).then((found) => findings.replaceChildren(...showFindings(found)),
    (error) => findings.append(element("p", { class: "fault" }, error.message)));
  return { before, after, dataset: page.dataset };
}

const partUrl = (api, page, name) => `${api}/part?${new URLSearchParams({ part: name, v: page.version })}`;

function showPart(api, page, part) {
  const place = part.offset === null ? "" : ` · bytes ${part.offset.toLocaleString()}–${(part.offset + part.size_bytes).toLocaleString()}`;
  const url = partUrl(api, page, part.name);
  const heading = element("h2", {}, part.name, element("small", {}, `${bytes(part.size_bytes)}${place} · `, element("a", { href: url, download: part.name }, "save")));
  return element("section", {}, heading, ...showContent(api, page, part, url));
}

function showColumn(column) {
  return element("p", { class: column.fault ? "fault" : "" }, element("code", {}, column.name), ` ${column.fault ?? column.text ?? "no value"}`);
}

function showContent(api, page, part, url) {
  if (part.fault) return [element("p", { class: "fault" }, part.fault), element("pre", {}, part.text)];
  switch (part.kind) {
    case "picture": return [part.note ? element("p", {}, part.note) : "", zoomable(`${api}/thumbnail?${new URLSearchParams({ part: part.name, pixels: 1024, v: page.version })}`, part.type.startsWith("image/") ? url : null)];
    case "audio": return [element("audio", { controls: true, preload: "metadata", src: url })];
    case "video": return [element("video", { controls: true, preload: "metadata", src: url, width: 640 })];
    case "tensor": return [tensors(`${api}/tensors?${new URLSearchParams({ part: part.name })}`)];
    case "json": return [chat(api, page, part.value) ?? "", tree(part.value, "", true)];
    case "text": return [element("pre", {}, part.text + (part.cut ? "\n…" : ""))];
    default: return [element("pre", {}, part.hex)];
  }
}

function zoomable(small, large) {
  const image = element("img", { src: small, alt: "" });
  const box = element("div", { class: "zoom" }, image);
  image.onerror = () => box.replaceChildren(element("p", { class: "fault" }, "this picture cannot be decoded"));
  image.onclick = () => { image.src = image.classList.toggle("zoomed") && large ? large : small; };
  return box;
}

function tree(value, name, open = false) {
  const label = name === "" ? "" : `${name}: `;
  if (value === null || typeof value !== "object") return element("div", {}, label + JSON.stringify(value));
  const entries = Object.entries(value);
  const summary = element("summary", {}, `${label}${Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`}`);
  const details = element("details", { open }, summary);
  const fill = () => { if (details.open && details.childElementCount === 1) details.append(...entries.slice(0, 1000).map(([key, one]) => tree(one, key))); };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

function chat(api, page, value) {  // ChatML: messages of role and content; LLaVA: conversations of from and value
  const turns = Array.isArray(value) ? value : value?.messages ?? value?.conversations;
  if (!Array.isArray(turns) || !turns.length || !turns.every((turn) => turn && typeof turn === "object" && (turn.role ?? turn.from))) return null;
  const pictures = page.parts.filter((part) => part.kind === "picture");
  let next = 0;
  const picture = () => { const part = pictures[next++]; return part ? element("img", { alt: "", src: `${api}/thumbnail?${new URLSearchParams({ part: part.name, pixels: 512, v: page.version })}` }) : "<image>"; };
  const content = (one) => {
    if (typeof one === "string") return one.split("<image>").flatMap((text, number) => (number ? [picture(), text] : [text]));
    if (Array.isArray(one)) return one.flatMap(content);
    if (one && typeof one === "object") return /^image/.test(String(one.type)) ? [picture()] : [String(one.text ?? JSON.stringify(one))];
    return [String(one)];
  };
  return element("div", {}, ...turns.map((turn) => {
    const role = String(turn.role ?? turn.from);
    return element("div", { class: /^(assistant|gpt)$/.test(role) ? "turn answer" : "turn" }, element("small", {}, role), ...content(turn.content ?? turn.value ?? ""));
  }));
}

function showMapped(document) {
  const lines = document.fields.map((field) => element("section", {}, element("h2", {}, field.name, element("small", {}, field.facts)),
    field.fault ? element("p", { class: "fault" }, field.fault) : null, field.text === null ? null : element("pre", {}, field.text)));
  return [element("h2", {}, "As the field map makes it"), document.fault ? element("p", { class: "fault" }, document.fault) : "",
    document.note ? element("p", {}, document.note) : "", ...lines];
}

function showFindings(found) {
  const heading = element("h2", {}, "Lint findings");
  if (!found.length) return [heading, "none"];
  return [heading, ...found.map((one) => element("p", { class: one.code.startsWith("E") ? "fault" : "" }, element("code", {}, one.code), ` ${one.part ? `${one.part}: ` : ""}${one.message}`))];
}

function tensors(url) {
  const box = element("div", {}, "…");
  fetchJson(url).then((arrays) => box.replaceChildren(...arrays.map((one) => element("figure", {},
    element("p", {}, one.name ? element("b", {}, `${one.name} `) : "", one.facts, one.mean === undefined ? "" : `, mean ${shownNumber(one.mean)}`, one.not_finite ? element("span", { class: "fault" }, `, ${one.not_finite.toLocaleString()} not finite`) : ""),
    one.fault ? element("p", { class: "fault" }, one.fault) : "", one.bars ? bars(one.bars, null) : "",
    one.bars ? element("small", {}, `${shownNumber(one.bars[0].low)} – ${shownNumber(one.bars.at(-1).high)}`) : ""))),
  (error) => box.replaceChildren(element("p", { class: "fault" }, error.message)));
  return box;
}
