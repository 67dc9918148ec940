import { events } from "./events.js";
import { Posts } from "./posts.js";
import { copy, RunView } from "./run-view.js";

const main = document.querySelector("[data-notebook]");
const find = (selector) => main.querySelector(selector);
const log = find("[data-log]");
const composer = find("[data-composer]");
const newButton = find("[data-new]");
const sendButton = find("[type=submit]");
const posts = new Posts(main.dataset.user);
const RETRY_MILLISECONDS = 2000;
const POLL_MILLISECONDS = 3000;

/** What the next prompt does: it starts a conversation, or continues a run under the same or a new thread. */
let target = { url: main.dataset.agentUrl, threadId: crypto.randomUUID() };
let watching = new AbortController();
let running = 0;
let polling;

function say(text) {
  find("[data-status]").textContent = text;
}

function aim(next, description) {
  target = next;
  find("[data-target]").textContent = description;
  newButton.hidden = target.url === main.dataset.agentUrl && !log.hasChildNodes();
}

function count(change) {
  running += change;
  sendButton.disabled = running > 0;
  log.setAttribute("aria-busy", String(running > 0));
}

function leave() {
  watching.abort();
  watching = new AbortController();
  count(-running);
  log.replaceChildren();
  say("");
}

function startAnew() {
  leave();
  aim({ url: main.dataset.agentUrl, threadId: crypto.randomUUID() }, "New conversation");
  composer.prompt.focus();
}

function continueRun(run, kind) {
  const threadId = kind === "fork" ? crypto.randomUUID() : run.thread_id;
  aim({ url: run.links[kind], threadId }, `${kind === "fork" ? "Fork" : "Resume"}: ${nameOf(run)}`);
}

/** What the user asked in a run, as far as this browser knows; else how its conversation began. */
function nameOf(run) {
  return posts.find(run.run_id)?.prompt ?? run.preview ?? run.run_id;
}

function makePost(prompt) {
  const runId = crypto.randomUUID();
  const body = {
    threadId: target.threadId,
    runId,
    messages: [{ id: crypto.randomUUID(), role: "user", content: prompt }],
    tools: [],
    context: [],
    state: {},
    forwardedProps: {},
  };
  return { runId, prompt, url: target.url, body: JSON.stringify(body), ended: false };
}

/** Post, and post again after a lost connection, until the run has ended or the page looks elsewhere. */
async function watch(post) {
  const { signal } = watching;
  const view = new RunView(post.prompt);
  log.append(view.element);
  count(1);
  say("Running");
  while (!signal.aborted) {
    view.reset();
    try {
      if (await attach(post, view, signal)) break;
    } catch (error) {
      if (signal.aborted) return;
      console.warn(error);
    }
    say("The connection was lost; the run goes on. Trying again.");
    await new Promise((resolve) => setTimeout(resolve, RETRY_MILLISECONDS));
  }
  if (signal.aborted) return;
  count(-1);
  say("");
  posts.end(post);
  const run = (await listRuns()).find((row) => row.run_id === post.runId);
  if (run?.links.resume) continueRun(run, "resume");
}

/** Draw the run from its first event on; return whether it has ended. */
async function attach(post, view, signal) {
  const response = await fetch(post.url, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRFToken": composer.csrfmiddlewaretoken.value },
    body: post.body,
    signal,
  });
  if (!response.ok) {
    view.fail((await response.json()).error);
    return response.status < 500;
  }
  for await (const event of events(response)) {
    if (event.type === "RUN_ERROR" && event.code === "detached") return false;
    view.show(event);
    if (event.type === "RUN_STARTED") listRuns();
    if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") return true;
  }
  return false;
}

async function listRuns() {
  clearTimeout(polling);
  const response = await fetch(main.dataset.runsUrl, { headers: { Accept: "application/json" } });
  if (!response.ok) return [];
  const { runs } = await response.json();
  find("[data-runs]").replaceChildren(...runs.map(drawRow));
  find("[data-no-runs]").hidden = runs.length > 0;
  if (runs.some((run) => run.status === "running" || run.status === "queued")) {
    polling = setTimeout(listRuns, POLL_MILLISECONDS);
  }
  return runs;
}

function drawRow(run) {
  const row = copy("row");
  const started = row.querySelector("[data-started]");
  started.dateTime = run.started_at;
  started.textContent = new Date(run.started_at).toLocaleString();
  row.querySelector("[data-preview]").textContent = nameOf(run);
  row.querySelector("[data-run-status]").textContent = run.status;
  const post = posts.find(run.run_id);
  for (const button of row.querySelectorAll("[data-action]")) {
    const kind = button.dataset.action;
    button.setAttribute("aria-label", `${button.textContent} ${nameOf(run)}`);
    button.hidden = kind === "show" ? !post : !run.links[kind];
    button.addEventListener("click", () => {
      leave();
      if (kind === "show") {
        watch(post);
      } else {
        continueRun(run, kind);
        composer.prompt.focus();
      }
    });
  }
  return row;
}

newButton.addEventListener("click", startAnew);
composer.addEventListener("submit", (event) => {
  event.preventDefault();
  const post = makePost(composer.prompt.value);
  posts.add(post);
  composer.prompt.value = "";
  watch(post);
  newButton.hidden = false;
});
composer.prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) composer.requestSubmit();
});

for (const post of posts.unfinished) watch(post);
listRuns();
