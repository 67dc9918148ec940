/** Tests of what a post carries. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { outline } from "../../django_ag_ui/static/django_ag_ui/ui/post.js";

const turn = (number, question = "a question") => [
  { id: `u${number}`, role: "user", content: question },
  { id: `a${number}`, role: "assistant", content: "x".repeat(1000), toolCalls: [{ id: `c${number}` }] },
  { id: `t${number}`, role: "tool", toolCallId: `c${number}`, content: "x".repeat(1000) },
];

test("a post carries what the user said, and of answers the ids alone", () => {
  assert.deepEqual(outline(turn(1)), [
    { id: "u1", role: "user", content: "a question" },
    { id: "a1", role: "assistant" },
  ]);
});

test("of a thread with many messages a post carries those among the newest thousand", () => {
  const posted = outline(Array.from({ length: 6000 }, (_, number) => turn(number)).flat());
  assert.ok(posted.length > 600 && posted.length <= 1000);
  assert.deepEqual(posted.slice(-2), outline(turn(5999)));
});

test("a post stays small beside a thread of many bytes, and has the newest question however long it is", () => {
  const posted = outline(Array.from({ length: 20 }, (_, number) => turn(number, "y".repeat(100_000))).flat());
  assert.deepEqual(
    posted.map(({ id }) => id),
    ["u17", "a17", "u18", "a18", "u19", "a19"],
  );
  assert.equal(outline(turn(1, "y".repeat(1_000_000)))[0].content.length, 1_000_000);
});
