// The rows of the grid: those of a dataset by pages, those of a training run, or those that a search finds.
import { fetchJson } from "./dom.js";

const withThumbnail = (row) => ({ ...row, thumbnail: row.d === null ? null : `/api/d/${row.d}/${row.n}/thumbnail?${new URLSearchParams({ part: row.picture ?? "", pixels: 256, v: row.v })}` });
const filled = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));

export class RowSource {
  constructor(request, { status, changed }) {
    Object.assign(this, { request, status, changed, found: null, stopped: new AbortController() });
  }

  stop() { this.stopped.abort(); }

  async load(start, count) {
    const { request } = this;
    if (this.found) return { rows: this.found.slice(start, start + count), total: this.found.length };
    if (request.text && request.kind !== "where") return this.search();
    const query = filled(request.order === "training" ? { ...request.training, split_part: request.facets.split_part } : request.facets);
    query.set("start", start); query.set("count", count);
    if (request.order === "shuffled") query.set("seed", request.seed);
    if (request.text) query.set("where", request.text);
    const url = request.order === "training" ? "/api/training" : `/api/d/${request.d}/rows`;
    if (request.order === "training" && !start) this.status("the run is planned …");
    const answer = await fetchJson(`${url}?${query}`, { signal: this.stopped.signal });
    if (answer.scan) return this.search();
    if (this.total !== answer.total) this.status(this.describe(this.total = answer.total));  // else an edit may have told its result
    return { total: answer.total, rows: answer.rows.map(withThumbnail) };
  }

  describe(total) {
    const { request } = this;
    if (request.order === "training") return `training order from step ${Number(request.training.step || 0).toLocaleString()}`;
    return `${total.toLocaleString()} ${request.text ? "found" : `samples of ${request.dataset.path}`}`;
  }

  search() {  // begins a search; its rows come while it runs
    this.found = [];
    this.run().catch((error) => { if (error.name !== "AbortError") this.status(error.message); });
    return { rows: [], total: 0 };
  }

  async run() {
    const { request, found } = this, query = filled(request.facets);
    query.set("text", request.text); query.set("in", request.kind);
    this.status("searching …");
    const answer = await fetch(`/api/d/${request.d}/search?${query}`, { signal: this.stopped.signal });
    if (!answer.ok) throw new Error(JSON.parse(await answer.text()).fault);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "", batch = { searched: 0 };
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) { batch = JSON.parse(line); if (batch.fault) throw new Error(batch.fault); found.push(...batch.rows.map(withThumbnail)); }
      this.status(`${found.length.toLocaleString()} found in ${batch.searched.toLocaleString()} samples …`);
      this.changed(found.length);
    }
    this.status(`${found.length.toLocaleString()} found`);
  }
}
