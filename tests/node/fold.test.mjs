/** Tests of the fold: what it makes of events is what the stock client makes of them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { Fold, patched } from "../../django_ag_ui/static/django_ag_ui/ui/fold.js";

const user = { id: "u1", role: "user", content: "hello" };
const run = { threadId: "t", runId: "r" };
const EVENTS = [
  { type: "RUN_STARTED", ...run, input: { ...run, messages: [user], state: {}, tools: [], context: [] } },
  { type: "STATE_SNAPSHOT", snapshot: { list: [1], name: "a" } },
  { type: "REASONING_START", messageId: "g" },
  { type: "REASONING_MESSAGE_START", messageId: "g", role: "reasoning" },
  { type: "REASONING_MESSAGE_CONTENT", messageId: "g", delta: "hm" },
  { type: "REASONING_MESSAGE_CONTENT", messageId: "g", delta: "m" },
  { type: "REASONING_MESSAGE_END", messageId: "g" },
  { type: "REASONING_END", messageId: "g" },
  { type: "TEXT_MESSAGE_START", messageId: "a1", role: "assistant" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "a1", delta: "I " },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "a1", delta: "look" },
  { type: "TEXT_MESSAGE_END", messageId: "a1" },
  { type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "look", parentMessageId: "a1" },
  { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: '{"id":251' },
  { type: "TOOL_CALL_START", toolCallId: "c2", toolCallName: "walk", parentMessageId: "a1" },
  { type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: "2292042121000001}" },
  { type: "TOOL_CALL_END", toolCallId: "c1" },
  { type: "TOOL_CALL_END", toolCallId: "c2" },
  { type: "TOOL_CALL_START", toolCallId: "c3", toolCallName: "alone" },
  { type: "TOOL_CALL_END", toolCallId: "c3" },
  { type: "TOOL_CALL_RESULT", messageId: "m2", toolCallId: "c2", content: "walked", role: "tool" },
  { type: "TOOL_CALL_RESULT", messageId: "m1", toolCallId: "c1", content: "looked", role: "tool" },
  { type: "STATE_DELTA", delta: [{ op: "add", path: "/list/-", value: 2 }] },
  { type: "ACTIVITY_SNAPSHOT", messageId: "p", activityType: "PLAN", content: { steps: [] } },
  {
    type: "ACTIVITY_DELTA",
    messageId: "p",
    activityType: "PLAN",
    patch: [{ op: "add", path: "/steps/-", value: "a" }],
  },
  { type: "ACTIVITY_SNAPSHOT", messageId: "p", activityType: "PLAN", content: {}, replace: false },
  { type: "ACTIVITY_SNAPSHOT", messageId: "q", activityType: "SEARCH", content: { for: "<b>" } },
  { type: "ACTIVITY_SNAPSHOT", messageId: "p", activityType: "NOTE", content: { text: "b" } },
  { type: "TEXT_MESSAGE_START", messageId: "a2", role: "assistant" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "a2", delta: "done" },
  { type: "TEXT_MESSAGE_END", messageId: "a2" },
  { type: "MESSAGES_SNAPSHOT", messages: [user, { id: "a2", role: "assistant", content: "all done" }] },
  { type: "RUN_FINISHED", ...run, outcome: { type: "success" } },
];

const KEPT = ["reasoning", "activity"];

async function client(events) {
  const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  const headers = { "Content-Type": "text/event-stream" };
  const agent = new HttpAgent({
    url: "http://stream.invalid/",
    threadId: "t",
    fetch: async () => new Response(text, { headers }),
  });
  await agent.runAgent();
  return { messages: agent.messages, state: agent.state };
}

test("messages and state are those of the stock client after every event", async () => {
  const fold = new Fold();
  for (const [index, event] of EVENTS.entries()) {
    fold.apply(structuredClone(event));
    const { messages, state } = fold;
    // The snapshot at the end holds no reasoning and no activity, and the client keeps what one says nothing of.
    const expected = await client(EVENTS.slice(0, index + 1));
    if (index >= EVENTS.length - 2) expected.messages = expected.messages.filter(({ role }) => !KEPT.includes(role));
    assert.deepEqual(JSON.parse(JSON.stringify({ messages, state })), JSON.parse(JSON.stringify(expected)), event.type);
  }
});

test("what changed is told once", () => {
  const fold = new Fold();
  for (const event of EVENTS.slice(0, 11)) fold.apply(structuredClone(event));
  assert.deepEqual([...fold.takeChanged()], ["u1", "g", "a1"]);
  fold.apply({ type: "TEXT_MESSAGE_CONTENT", messageId: "a1", delta: "!" });
  assert.deepEqual([...fold.takeChanged()], ["a1"]);
  assert.equal(fold.takeChanged().size, 0);
});

test("a run has asked something until the next one begins", () => {
  const fold = new Fold();
  fold.apply(EVENTS[0]);
  assert.ok(fold.isRunning);
  fold.apply({
    type: "RUN_FINISHED",
    ...run,
    outcome: { type: "interrupt", interrupts: [{ id: "i", reason: "tool_call" }] },
  });
  assert.deepEqual([fold.run.status, fold.interrupts.length], ["interrupted", 1]);
  fold.apply({ type: "RUN_STARTED", threadId: "t", runId: "s" });
  assert.deepEqual([fold.run.id, fold.run.status, fold.interrupts.length], ["s", "running", 0]);
  fold.apply({ type: "RUN_ERROR", code: "orphaned", message: "gone" });
  assert.deepEqual([fold.run.status, fold.run.error.code], ["failed", "orphaned"]);
});

test("a patch changes a copy, or nothing where it does not fit", () => {
  const value = { a: { b: [1, 2, 3] }, "c/d~": 0 };
  const cases = [
    [[{ op: "replace", path: "/a/b/1", value: 9 }], { a: { b: [1, 9, 3] }, "c/d~": 0 }],
    [[{ op: "remove", path: "/a/b/0" }], { a: { b: [2, 3] }, "c/d~": 0 }],
    [[{ op: "move", from: "/a/b/0", path: "/a/b/-" }], { a: { b: [2, 3, 1] }, "c/d~": 0 }],
    [[{ op: "copy", from: "/a/b", path: "/e" }], { ...value, e: [1, 2, 3] }],
    [
      [
        { op: "test", path: "/c~1d~0", value: 0 },
        { op: "add", path: "/f", value: null },
      ],
      { ...value, f: null },
    ],
    [[{ op: "replace", path: "", value: [] }], []],
    [
      [
        { op: "add", path: "/f", value: 1 },
        { op: "remove", path: "/nowhere" },
      ],
      value,
    ],
    [[{ op: "test", path: "/a", value: {} }], value],
    [[{ op: "add", path: "/no/where", value: 1 }], value],
  ];
  for (const [patch, expected] of cases) assert.deepEqual(patched(value, patch), expected, JSON.stringify(patch));
  assert.deepEqual(value.a.b, [1, 2, 3]);
});
