import { Approvals } from "./approvals.js";
import { Fold } from "./fold.js";
import { copy, given, tell, text, write } from "./page.js";
import { newId, outline, runInput } from "./post.js";
import { encodeId, Failure, follow, isTerminal, start } from "./stream.js";
import { Transcript } from "./transcript.js";

const DRAW_MILLISECONDS = 30;
const RESUMED_MILLISECONDS = 5000;
const EVENTS_KEPT = 2000;

/** <ag-ui-conversation data-mount="/agent/" data-thread="t1">; with data-run it shows one run of the thread. */
class Conversation extends HTMLElement {
  #fold = new Fold();
  #leaving = new AbortController();
  #runs = [];
  #unknown = new Set();
  #lastSeq = 0;
  #missed = 0;
  #otherRun;

  #actions = {
    transcript: () => this.#go({ view: null }),
    events: () => this.#go({ view: "events" }),
    latest: () => this.parts.end.scrollIntoView({ block: "end" }),
    fork: () => this.#go({ fork: this.#fold.run.id }),
    back: () => this.#go({ fork: null, resume: null }),
    stop: () => this.#stop(),
    continue: () => this.#post({ kind: "turn" }),
    download: () => this.#download(),
    openThere: () => this.#openThere(),
    forkThat: () => this.#post({ kind: "fork", run: this.#otherRun }, this.parts.prompt.value),
  };

  connectedCallback() {
    const parts = copy("conversation");
    const { signal } = this.#leaving;
    this.parts = parts;
    this.transcript = new Transcript(parts.transcript);
    this.approvals = new Approvals(parts.approvals, (resume, edits) => this.#post({ kind: "turn", resume, edits }));
    this.replaceChildren(parts.root);
    this.onclick = ({ target }) => this.#actions[target.closest("[data-action]")?.dataset.action]?.();
    parts.composer.onsubmit = (event) => {
      event.preventDefault();
      // Ctrl+Enter asks no button.
      if (!parts.send.disabled) this.#post(this.#target, parts.prompt.value);
    };
    parts.prompt.onkeydown = ({ key, ctrlKey, metaKey }) => {
      if (key === "Enter" && (ctrlKey || metaKey)) parts.composer.requestSubmit();
    };
    parts.dialog.onclose = () => parts.prompt.focus();
    addEventListener("scroll", () => this.#drawLatest(), { signal });
    addEventListener("popstate", () => this.#draw(), { signal });
    this.#draw();
    this.#watch();
  }

  disconnectedCallback() {
    this.#leaving.abort();
  }

  get #isRun() {
    return this.dataset.run !== undefined;
  }

  /** What the next message does by the URL: a turn, or `run` is resumed or forked. */
  get #target() {
    const asked = new URLSearchParams(location.search);
    const kind = ["resume", "fork"].find((name) => asked.has(name));
    if (kind) return { kind, run: asked.get(kind), isAsked: true };
    return this.#isRun ? { kind: "resume", run: this.dataset.run } : { kind: "turn" };
  }

  #url(...segments) {
    return this.dataset.mount + segments.map((segment) => `${segment}/`).join("");
  }

  #page(thread) {
    return this.#url("ui", "threads", encodeId(thread));
  }

  get #headers() {
    return { "X-CSRFToken": given("ag-ui-csrf") };
  }

  #go(changes) {
    const url = new URL(location.href);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    history.pushState(null, "", url);
    this.#draw();
    if (!("view" in changes)) this.parts.prompt.focus();
  }

  async #watch() {
    const { run, thread } = this.dataset;
    const [kind, id] = this.#isRun ? ["runs", run] : ["threads", thread];
    const url = `${this.#url(kind, encodeId(id), "events")}?protocol=1.0&from=snapshot`;
    const onStatus = (status) => this.#tellStatus(status);
    this.watching = true;
    try {
      for await (const frame of follow(url, { endless: !this.#isRun, signal: this.#leaving.signal, onStatus })) {
        this.#take(frame);
      }
    } catch (error) {
      this.#alarm(error);
    }
    this.watching = false;
  }

  #take({ event, raw, seq }) {
    const { events, notice } = this.parts;
    events.append(document.createElement("li"));
    events.lastChild.append(raw);
    if (events.childElementCount > EVENTS_KEPT) events.firstElementChild.remove();
    if (seq) this.#lastSeq = seq;
    const begins = event.type === "RUN_STARTED";
    if (begins && this.#fold.run) this.#missed += this.transcript.bring(event.input?.messages ?? []);
    this.#fold.apply(event);
    if (begins) notice.textContent = "";
    if (begins || isTerminal(event)) this.#lookAtRuns();
    this.drawing ??= setTimeout(() => this.#draw(), DRAW_MILLISECONDS);
  }

  #tellStatus({ phase, attempt, failure }) {
    const { banner } = this.parts;
    banner.dataset.phase = phase;
    banner.textContent = phase === "open" ? "" : text(phase, { attempt });
    if (failure) banner.append(" ", tell(failure));
    clearTimeout(this.resumed);
    if (phase === "resumed") this.resumed = setTimeout(() => banner.replaceChildren(), RESUMED_MILLISECONDS);
  }

  #draw() {
    clearTimeout(this.drawing);
    this.drawing = undefined;
    const { parts } = this;
    const wasAtEnd = this.#isAtEnd;
    this.transcript.draw(this.#fold, this.#unknown);
    this.approvals.draw(this.#fold);
    this.#drawView();
    this.#drawState();
    this.#drawComposer();
    if (this.#missed) write(parts.notice, text("missed", { count: this.#missed }));
    if (wasAtEnd) parts.end.scrollIntoView({ block: "nearest" });
    this.#drawLatest();
  }

  get #isAtEnd() {
    return this.parts.end.getBoundingClientRect().top <= innerHeight + 1;
  }

  #drawLatest() {
    this.parts.latest.hidden = this.#isAtEnd;
  }

  #drawView() {
    const { parts } = this;
    const isRaw = new URLSearchParams(location.search).get("view") === "events";
    parts.transcriptTab.ariaPressed = !isRaw;
    parts.eventsTab.ariaPressed = isRaw;
    parts.transcript.hidden = isRaw;
    parts.raw.hidden = !isRaw;
  }

  #drawState() {
    const { parts } = this;
    const { status = "", error } = this.#fold.run ?? {};
    const name = error?.code === "orphaned" ? "orphaned" : status;
    parts.state.dataset.status = name;
    const reason = error && (new Map(given("ag-ui-failures")).get(error.message) ?? error.message);
    write(parts.state, name && text(`run_${name}`, { reason }));
    parts.download.disabled = !this.#fold.run;
    parts.stop.hidden = !this.#fold.isRunning;
    parts.continue.hidden = this.#isRun || !["cancelled", "failed"].includes(status);
  }

  #drawComposer() {
    const { parts } = this;
    const { kind, isAsked } = this.#target;
    const row = this.#runs.find(({ run_id }) => run_id === this.#fold.run?.id);
    parts.target.hidden = kind === "turn";
    if (kind !== "turn") parts.aim.textContent = text(`aim_${kind}`);
    parts.back.hidden = !isAsked;
    parts.fork.hidden = kind === "fork" || !row?.links.fork;
  }

  async #lookAtRuns() {
    const { run, thread } = this.dataset;
    const rest = this.#isRun ? `${encodeId(run)}/` : `?${new URLSearchParams({ thread_id: thread })}`;
    const look = Symbol();
    this.look = look;
    const found = await this.#get(this.#url("runs") + rest);
    const runs = found?.runs ?? [found];
    const doubtful = runs.filter((row) => row?.finished_at && row.links.effects);
    const ledgers = await Promise.all(doubtful.map(({ links }) => this.#get(links.effects)));
    // A later look knows more.
    if (!found || look !== this.look) return;
    this.#runs = runs;
    const unknown = ledgers.flatMap((ledger) => ledger?.effects ?? []).filter(({ unresolved }) => unresolved);
    this.#unknown = new Set(unknown.map((effect) => effect.event_tool_call_id));
    this.#draw();
  }

  async #get(url) {
    const response = await fetch(url, { headers: { Accept: "application/json" } }).catch(() => null);
    return response?.ok ? response.json() : null;
  }

  async #stop() {
    const url = this.#url("runs", encodeId(this.#fold.run.id), "cancel");
    this.parts.state.textContent = text("stopping");
    this.parts.stop.disabled = true;
    try {
      const response = await fetch(url, { method: "POST", headers: this.#headers });
      if (!response.ok) throw await Failure.of(response);
    } catch (error) {
      this.#alarm(error);
    } finally {
      this.parts.stop.disabled = false;
      this.#keepFocus();
    }
  }

  /** Post a new turn, answers, or nothing, so that the last turn goes on. */
  async #post({ kind, run, resume, edits }, prompt = "") {
    const { parts } = this;
    const url = kind === "turn" ? this.#url() : this.#url(kind, encodeId(run));
    const own = prompt ? [{ id: newId(), role: "user", content: prompt }] : [];
    const threadId = kind === "fork" ? newId() : this.dataset.thread;
    // Of a thread that is gone nothing is known.
    const known = kind === "turn" && this.watching ? outline(this.#fold.messages) : [];
    for (const { id } of own) this.transcript.own(id);
    parts.dialog.close();
    parts.alarm.textContent = "";
    parts.send.disabled = true;
    try {
      const body = runInput({ threadId, runId: newId(), messages: [...known, ...own], resume }, edits);
      const taken = await start(url, body, { headers: this.#headers, signal: this.#leaving.signal });
      // Who goes on has seen the news.
      this.#missed = 0;
      const { isRunning, run: current } = this.#fold;
      parts.notice.textContent = isRunning && current.id !== taken ? text("queued") : "";
      if (parts.prompt.value === prompt) parts.prompt.value = "";
      if (this.#isRun) location.assign(this.#url("ui", "runs", encodeId(taken)));
      else if (kind === "fork") location.assign(this.#page(threadId));
      else if (kind === "resume") this.#go({ resume: null });
      if (!this.#isRun && !this.watching) this.#watch();
    } catch (error) {
      this.approvals.reopen(error);
      this.#otherRun = error.body?.run_id;
      if (this.#otherRun) parts.dialog.showModal();
      else this.#alarm(error);
    } finally {
      parts.send.disabled = false;
      this.#keepFocus();
    }
  }

  #keepFocus() {
    if (document.activeElement === document.body) this.parts.prompt.focus({ preventScroll: true });
  }

  async #openThere() {
    const row = await this.#get(this.#url("runs", encodeId(this.#otherRun)));
    if (row) return location.assign(this.#page(row.thread_id));
    this.parts.dialog.close();
    this.#alarm(new Failure("missing"));
  }

  async #download() {
    const name = encodeId(this.#fold.run.id);
    const lines = [];
    try {
      for await (const { raw, seq } of follow(`${this.#url("runs", name, "events")}?protocol=1.0`)) {
        lines.push(`${raw}\n`);
        if (seq >= this.#lastSeq) break;
      }
      const href = URL.createObjectURL(new Blob(lines));
      Object.assign(document.createElement("a"), { href, download: `${name}.jsonl` }).click();
      URL.revokeObjectURL(href);
    } catch (error) {
      this.#alarm(error);
    }
  }

  #alarm(error) {
    if (!(error instanceof Failure)) console.error(error);
    this.parts.alarm.textContent = tell(error);
  }
}

customElements.define("ag-ui-conversation", Conversation);
