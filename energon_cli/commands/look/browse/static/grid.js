// A grid that holds only the cells on the screen; a browser's limit on heights makes tall ones scroll proportionally.
import { element } from "./dom.js";

const MAX_HEIGHT = 12_000_000;
const PAGE = 120;
const MAX_PAGES = 60;
const CELL = 170;

export class Grid {
  constructor(main, { load, open, chosen, fault }) {
    Object.assign(this, { main, load, open, chosen, fault, pages: new Map(), waiting: new Set(), cells: new Map(), spare: [] });
    this.total = 0; this.focus = 0; this.generation = 0;
    this.canvas = element("div", { class: "canvas" });
    main.replaceChildren(this.canvas);
    this.onScroll = () => this.schedule();
    main.addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(() => { this.layout(); });
    this.observer.observe(main);
  }

  close() { this.observer.disconnect(); this.main.removeEventListener("scroll", this.onScroll); clearTimeout(this.timer); }

  reset() { this.generation += 1; this.pages.clear(); this.waiting.clear(); for (const place of [...this.cells.keys()]) this.release(place);
    this.total = 0; this.focus = 0; this.main.scrollTop = 0; this.fetchPage(0); }

  grow(total) { this.pages.clear(); this.setTotal(total); this.schedule(); }

  setTotal(total) { if (total !== this.total) { this.total = total; this.layout(); } }

  layout() {
    const width = this.main.clientWidth, columns = Math.max(2, Math.floor(width / CELL));
    if (columns !== this.columns || width / columns !== this.width) for (const place of [...this.cells.keys()]) this.release(place);
    this.columns = columns;
    this.width = this.height = width / columns;
    this.rows = Math.ceil(this.total / this.columns);
    this.fullHeight = this.rows * this.height;
    this.canvasHeight = Math.min(this.fullHeight, MAX_HEIGHT);
    this.canvas.style.height = `${this.canvasHeight}px`;
    this.schedule();
  }

  schedule() { if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }

  get offset() {  // what the full height has more above the screen than the canvas
    const room = this.canvasHeight - this.main.clientHeight;
    return room <= 0 ? 0 : this.main.scrollTop * ((this.fullHeight - this.main.clientHeight) / room - 1);
  }

  draw() {
    const top = this.main.scrollTop + this.offset;
    const first = Math.max(0, Math.floor(top / this.height) - 1) * this.columns;
    const last = Math.min(this.total, (Math.ceil((top + this.main.clientHeight) / this.height) + 1) * this.columns);
    for (const place of [...this.cells.keys()]) if (place < first || place >= last) this.release(place);
    const offset = this.offset;
    for (let place = first; place < last; place += 1) {
      const cell = this.cells.get(place) ?? this.take(place);
      const x = (place % this.columns) * this.width, y = Math.floor(place / this.columns) * this.height - offset;
      cell.style.transform = `translate(${x}px, ${y}px)`;
      const row = this.row(place);
      if (row && cell.shown !== row) this.fill(cell, row);
      cell.classList.toggle("focus", place === this.focus);
    }
    clearTimeout(this.timer);  // pages that only fly by are not fetched
    this.timer = setTimeout(() => { for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) this.fetchPage(page); }, 40);
  }

  row(place) { return this.pages.get(Math.floor(place / PAGE))?.[place % PAGE]; }

  take(place) {
    const cell = this.spare.pop() ?? element("div", { class: "cell" });
    cell.style.width = `${this.width}px`; cell.style.height = `${this.height}px`;
    cell.onclick = (event) => { this.focus = place; this.open(cell.shown ?? this.row(place), event); this.schedule(); };
    this.canvas.append(cell);
    this.cells.set(place, cell);
    return cell;
  }

  release(place) {
    const cell = this.cells.get(place);
    cell.querySelector("img")?.removeAttribute("src");  // it is no longer fetched
    cell.replaceChildren(); cell.shown = null; cell.className = "cell"; cell.remove();
    this.cells.delete(place);
    if (this.spare.length < 200) this.spare.push(cell);
  }

  fill(cell, row) {
    cell.shown = row;
    const none = () => element("div", { class: "none" }, row.picture ? "broken picture" : "no picture");
    let picture = none();
    if (row.picture) {
      picture = element("img", { alt: "", decoding: "async", src: row.thumbnail });
      picture.onerror = () => picture.replaceWith(none());
    }
    const place = row.step === undefined ? "" : `step ${row.step.toLocaleString()} rank ${row.rank} #${row.position}`;
    cell.title = [`${row.shard}/${row.key}`, place, row.note].filter(Boolean).join("\n");
    cell.classList.toggle("excluded", row.excluded);
    cell.classList.toggle("chosen", this.chosen(row));
    cell.replaceChildren(picture, element("span", {}, row.note ?? (place ? `${row.step.toLocaleString()} · ${row.position} · ${row.key}` : row.key)));
  }

  refresh() { for (const cell of this.cells.values()) cell.shown = null; this.schedule(); }

  async fetchPage(page) {
    if (this.pages.has(page) || this.waiting.has(page)) return;
    const generation = this.generation;
    this.waiting.add(page);
    try {
      const { rows, total } = await this.load(page * PAGE, PAGE);
      if (generation !== this.generation) return;
      this.pages.set(page, rows);
      if (this.pages.size > MAX_PAGES) this.pages.delete(this.pages.keys().next().value);
      this.setTotal(total);
      this.schedule();
    } catch (error) {
      if (generation === this.generation && error.name !== "AbortError") this.fault(error);
    } finally { if (generation === this.generation) this.waiting.delete(page); }
  }

  jump(place) {
    this.focus = Math.max(0, Math.min(this.total - 1, place));
    const y = Math.floor(this.focus / this.columns) * this.height, top = this.main.scrollTop + this.offset;
    if (y < top || y + this.height > top + this.main.clientHeight) {
      const wanted = Math.max(0, y - this.main.clientHeight / 2 + this.height / 2);
      this.main.scrollTop = wanted * (this.canvasHeight - this.main.clientHeight) / Math.max(1, this.fullHeight - this.main.clientHeight);
    }
    this.schedule();
  }
}
