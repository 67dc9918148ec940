// What TanStack's ChatClient posts.
import { setTimeout } from "node:timers/promises";
import { toolDefinition } from "@tanstack/ai";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";
import { Recording } from "./server.mjs";

const recording = await new Recording().open();
const locate = toolDefinition({ name: "locate", description: "Where the user is" }).client(() => "Oslo");
const chat = new ChatClient({
  connection: fetchServerSentEvents(recording.url),
  threadId: "support-42",
  tools: [locate],
  forwardedProps: { locale: "en" },
});

async function ask(act, content) {
  recording.act(act);
  await chat.sendMessage(content);
}

await ask("first turn", "One");
await ask("next turn", "Two");
recording.act("reload");
await chat.reload();
await ask("turn after a reload", "Three");
await ask("turn with a tool of the server", "Check the stock");
await ask("turn with a picture", {
  content: [
    { type: "text", content: "What is this?" },
    { type: "image", source: { type: "url", value: "https://example.com/a.png" } },
  ],
});
await ask("turn that calls a tool of the client", "Where am I?");
const call = chat
  .getMessages()
  .at(-1)
  .parts.find((part) => part.type === "tool-call");
recording.act("result of that tool");
await chat.addToolResult({ toolCallId: call.id, tool: "locate", output: "Oslo" });
await ask("turn after the tool", "Five");
await ask("turn that fails", "Fail");
recording.act("reload after the failure");
await chat.reload();

async function stopMidway(begin) {
  const stopped = begin();
  while (!JSON.stringify(chat.getMessages().at(-1)).includes("One moment")) await setTimeout(5);
  chat.stop();
  await stopped;
}
await stopMidway(() => ask("turn that is stopped", "Wait"));
recording.act("reload after stopping");
await stopMidway(() => chat.reload());
await recording.save("tanstack.json", "@tanstack/ai-client 0.33.2");
