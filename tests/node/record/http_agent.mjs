// What HttpAgent posts.
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { Recording } from "./server.mjs";

const recording = await new Recording().open();
const threadId = randomUUID();
const open = (initialMessages = []) => new HttpAgent({ url: recording.url, threadId, initialMessages });
const user = (content) => ({ id: randomUUID(), role: "user", content });

async function ask(agent, act, content, parameters) {
  recording.act(act);
  agent.addMessage(user(content));
  await agent.runAgent(parameters);
}

const first = open();
await ask(first, "first turn", "One");
const second = open(first.messages);
await ask(first, "next turn", "Two");
await ask(first, "turn with a tool of the server", "Check the stock");
await ask(second, "turn of a client that is behind", "Four");

second.setMessages([]);
recording.act("nothing at all");
await second.runAgent();
await ask(second, "only the new turn", "Five");

first.setMessages(
  recording.posts.flatMap(({ act, body, answer }) => {
    if (act === "nothing at all") return [];
    return [body.messages.at(-1), ...answer];
  }),
);
await ask(first, "turn after catching up", "Six");
recording.act("run again");
await first.runAgent();

const [question] = first.messages.filter((message) => message.role === "user").slice(-1);
first.setMessages([
  ...first.messages.slice(0, first.messages.indexOf(question)),
  { ...question, content: "Six, once more" },
]);
recording.act("edit of the last turn");
await first.runAgent();

first.setMessages([...first.messages.slice(0, 2), user("Another way")]);
recording.act("truncation that names the revision");
await first.runAgent({ forwardedProps: { baseRevision: 16 } });

const locate = { name: "locate", description: "Where the user is", parameters: { type: "object", properties: {} } };
await ask(first, "turn that calls a tool of the client", "Where am I?", { tools: [locate] });
const [call] = first.messages.at(-1).toolCalls;
first.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: "Oslo" });
recording.act("result of that tool");
await first.runAgent({ tools: [locate] });

recording.act("turn that is left");
first.addMessage(user("Wait"));
await first.runAgent({}, { onTextMessageContentEvent: () => first.abortRun() });
recording.act("run again after leaving");
await first.runAgent({}, { onTextMessageContentEvent: () => first.abortRun() });

await recording.save("http_agent.json", "@ag-ui/client 1.0.0");
