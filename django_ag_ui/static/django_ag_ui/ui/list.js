import { copy } from "./page.js";

const REFRESH_MILLISECONDS = 5000;
const FOCUSABLE = "a, summary, button";

/** <ag-ui-picker data-rows="/agent/ui/rows/?">: keeps a list from the server up to date, and takes keys. */
class Picker extends HTMLElement {
  connectedCallback() {
    this.parts = copy("list");
    this.list = this.querySelector("[data-list]");
    this.news = this.querySelector("[data-news]");
    this.toggleAttribute("data-copies", isSecureContext);
    this.parts.retry.onclick = () => this.#refresh();
    this.onclick = ({ target }) => this.#copy(target.dataset.copy);
    this.leaving = new AbortController();
    document.addEventListener("keydown", (event) => this.#press(event), this.leaving);
    document.addEventListener("visibilitychange", () => this.#refresh(), this.leaving);
    // Who logs in elsewhere comes back.
    this.timer = setInterval(() => this.parts.ended.isConnected || this.#refresh(), REFRESH_MILLISECONDS);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
    this.leaving.abort();
  }

  get #rows() {
    return [...this.list.querySelectorAll(".ag-ui-row")];
  }

  get #at() {
    return this.#rows.findIndex((row) => row.contains(document.activeElement));
  }

  async #refresh() {
    if (document.hidden || this.list.ariaBusy === "true") return;
    this.list.ariaBusy = true;
    const request = {
      headers: { "If-None-Match": this.etag ?? "" },
      signal: AbortSignal.timeout(6 * REFRESH_MILLISECONDS),
    };
    const response = await fetch(this.dataset.rows, request).catch(() => null);
    this.list.ariaBusy = false;
    const { ended, failed, retry } = this.parts;
    if (response?.redirected || [401, 403].includes(response?.status)) return this.#tell(ended);
    if (response?.status !== 304 && !response?.ok) return this.#tell(failed, retry);
    if (ended.isConnected || failed.isConnected) this.news.replaceChildren();
    this.etag = response.headers.get("ETag");
    if (response.ok) this.#draw(await response.text());
  }

  /** Say what is not said yet; again, it would be announced anew and lose the focus. */
  #tell(problem, ...rest) {
    if (!problem.isConnected) this.news.replaceChildren(problem, ...rest);
  }

  /** Show other rows, and leave the focus and open menus as they are. */
  #draw(html) {
    const focused = this.#rows[this.#at];
    const place = [...(focused?.querySelectorAll(FOCUSABLE) ?? [])].indexOf(document.activeElement);
    const before = new Map(this.#rows.map((row) => [row.dataset.id, row]));
    this.list.innerHTML = html;
    for (const row of this.#rows) {
      const old = before.get(row.dataset.id);
      if (!old) continue;
      row.querySelector("details").open = old.querySelector("details").open;
      if (old === focused) row.querySelectorAll(FOCUSABLE)[place]?.focus();
      if (old.dataset.news !== row.dataset.news) this.news.textContent = row.dataset.news;
    }
  }

  async #copy(id) {
    if (!id) return;
    await navigator.clipboard.writeText(id);
    this.news.replaceChildren(this.parts.copied);
  }

  #press(event) {
    const { key, target } = event;
    const isText = target.matches("input, textarea") && key !== "Escape";
    const isOurs = target === document.body || this.contains(target);
    if (!this.#keys[key] || isText || !isOurs || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#keys[key]();
  }

  #keys = {
    "/": () => this.querySelector("[type=search]").focus(),
    j: () => this.#rows[this.#at + 1]?.querySelector("a").focus(),
    k: () => this.#rows[this.#at - 1]?.querySelector("a").focus(),
    r: () => this.#rows[this.#at]?.querySelector("[data-primary]").click(),
    Escape: () => {
      const menu = this.list.querySelector("[open]");
      if (menu) menu.open = false;
      (menu ?? this.list).querySelector(FOCUSABLE)?.focus();
    },
  };
}

customElements.define("ag-ui-picker", Picker);
