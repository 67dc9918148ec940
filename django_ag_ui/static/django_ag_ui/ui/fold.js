/** What an AG-UI stream adds up to. */

const ENDS = { interrupt: "interrupted", cancelled: "cancelled" };

export class Fold {
  messages = [];
  state = {};
  /** `{ id, status, error }` of the latest run. */
  run = null;
  /** What the latest run asks, as in its interrupt outcome. */
  interrupts = [];
  changed = new Set();

  /** Return the ids of the messages that have changed since the last call. */
  takeChanged() {
    const { changed } = this;
    this.changed = new Set();
    return changed;
  }

  get isRunning() {
    return this.run?.status === "running";
  }

  apply(event) {
    APPLY[event.type]?.(this, event);
  }

  find(id) {
    return this.messages.findLast((message) => message.id === id);
  }

  add(message) {
    if (this.find(message.id)) return;
    this.messages.push(message);
    this.changed.add(message.id);
  }

  write(message, holder, key, delta) {
    if (!holder) return;
    holder[key] = (holder[key] ?? "") + delta;
    this.changed.add(message.id);
  }

  findCall(callId) {
    const message = this.messages.findLast(({ toolCalls }) => toolCalls?.some(({ id }) => id === callId));
    return { message, call: message?.toolCalls.find(({ id }) => id === callId) };
  }
}

function endRun(fold, event, status) {
  fold.run = { ...fold.run, status, error: event.type === "RUN_ERROR" ? event : undefined };
  fold.interrupts = event.outcome?.interrupts ?? [];
}

function beginMessage(fold, { messageId, role = "assistant" }) {
  fold.add({ id: messageId, role, content: "" });
}

function writeMessage(fold, { messageId, delta }) {
  const message = fold.find(messageId);
  fold.write(message, message, "content", delta);
}

const APPLY = {
  RUN_STARTED(fold, { runId, input }) {
    fold.run = { id: runId, status: "running" };
    fold.interrupts = [];
    for (const message of input?.messages ?? []) fold.add(message);
  },
  RUN_FINISHED: (fold, event) => endRun(fold, event, ENDS[event.outcome?.type] ?? "finished"),
  RUN_ERROR: (fold, event) => endRun(fold, event, "failed"),
  TEXT_MESSAGE_START: beginMessage,
  TEXT_MESSAGE_CONTENT: writeMessage,
  REASONING_MESSAGE_START: beginMessage,
  REASONING_MESSAGE_CONTENT: writeMessage,
  TOOL_CALL_START(fold, { toolCallId, toolCallName, parentMessageId }) {
    if (fold.findCall(toolCallId).call) return;
    const parent = fold.find(parentMessageId);
    const calls = parent?.role === "assistant";
    const id = (!parent && parentMessageId) || toolCallId;
    if (!calls) fold.add({ id, role: "assistant" });
    const caller = calls ? parent : fold.find(id);
    caller.toolCalls ??= [];
    caller.toolCalls.push({ id: toolCallId, type: "function", function: { name: toolCallName, arguments: "" } });
    fold.changed.add(caller.id);
  },
  TOOL_CALL_ARGS(fold, { toolCallId, delta }) {
    const { message, call } = fold.findCall(toolCallId);
    fold.write(message, call?.function, "arguments", delta);
  },
  TOOL_CALL_RESULT(fold, { messageId, toolCallId, content }) {
    fold.messages = fold.messages.filter(({ id }) => id !== messageId);
    const { message } = fold.findCall(toolCallId);
    let index = message ? fold.messages.indexOf(message) + 1 : fold.messages.length;
    while (fold.messages[index]?.role === "tool") index += 1;
    fold.messages.splice(index, 0, { id: messageId, role: "tool", toolCallId, content });
    fold.changed.add(messageId);
    if (message) fold.changed.add(message.id);
  },
  MESSAGES_SNAPSHOT(fold, { messages }) {
    fold.messages = messages;
    for (const { id } of messages) fold.changed.add(id);
  },
  ACTIVITY_SNAPSHOT(fold, { messageId: id, activityType, content, replace = true }) {
    const place = fold.messages.indexOf(fold.find(id));
    if (place >= 0 && !replace) return;
    fold.messages.splice(place < 0 ? fold.messages.length : place, 1, { id, role: "activity", activityType, content });
    fold.changed.add(id);
  },
  ACTIVITY_DELTA(fold, { messageId, activityType, patch }) {
    const message = fold.find(messageId);
    if (message?.role !== "activity") return;
    Object.assign(message, { activityType, content: patched(message.content, patch) });
    fold.changed.add(messageId);
  },
  STATE_SNAPSHOT(fold, { snapshot }) {
    fold.state = snapshot;
  },
  STATE_DELTA(fold, { delta }) {
    fold.state = patched(fold.state, delta);
  },
};

/** Return a JSON value with a JSON Patch (RFC 6902) applied, or as it is where that does not fit. */
export function patched(value, operations) {
  const document = structuredClone({ root: value });
  return operations.every((operation) => change(document, operation)) ? document.root : value;
}

function change(document, { op, path, from, value }) {
  const source = from === undefined ? { value, isThere: true } : find(document, from);
  const target = find(document, path);
  if (op === "test") return target.isThere && JSON.stringify(target.value) === JSON.stringify(value);
  if (!source.isThere || !target.holder || (!target.isThere && ["remove", "replace"].includes(op))) return false;
  if (op === "move") remove(source);
  if (op === "remove" || op === "replace") remove(target);
  if (op !== "remove") insert(find(document, path), structuredClone(source.value));
  return true;
}

/** Return where a JSON pointer leads: without `holder` nowhere, with one there may be nothing yet. */
function find(document, path) {
  const keys = ["root", ...path.split("/").slice(1)].map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const key = keys.pop();
  const holder = keys.reduce((found, name) => (Object(found) === found ? found[name] : undefined), document);
  if (Object(holder) !== holder) return {};
  return { holder, key, value: holder[key], isThere: Object.hasOwn(holder, key) };
}

function remove({ holder, key }) {
  if (Array.isArray(holder)) holder.splice(Number(key), 1);
  else delete holder[key];
}

function insert({ holder, key }, value) {
  if (Array.isArray(holder)) holder.splice(key === "-" ? holder.length : Number(key), 0, value);
  else holder[key] = value;
}
