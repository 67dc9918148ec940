// What CopilotKit's core posts, talking straight to the server.
import { randomUUID } from "node:crypto";
import { Recording } from "./server.mjs";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
globalThis.window ??= { location: { origin: "http://127.0.0.1" }, addEventListener() {}, removeEventListener() {} };

const { CopilotKitCore } = await import("@copilotkit/core");

const recording = await new Recording().open();
const copilotkit = new CopilotKitCore({ runtimeUrl: recording.url.slice(0, -1), runtimeTransport: "rest" });
await new Promise((resolve) => {
  const { unsubscribe } = copilotkit.subscribe({
    onAgentsChanged({ agents }) {
      if (!("default" in agents)) return;
      unsubscribe();
      resolve();
    },
  });
});
const agent = copilotkit.getAgent("default");
agent.threadId = randomUUID();

async function ask(act, content) {
  recording.act(act);
  agent.addMessage({ id: randomUUID(), role: "user", content });
  await copilotkit.runAgent({ agent });
}

await ask("first turn", "One");
await ask("turn with a tool of the server", "Check the stock");
copilotkit.addTool({ name: "locate", description: "Where the user is", handler: async () => "Oslo" });
await ask("turn that calls a tool of the client, and its result", "Where am I?");

recording.act("suggestions");
const suggestions = copilotkit.addSuggestionsConfig({ instructions: "Be brief.", available: "always" });
const suggested = new Promise((resolve) => {
  copilotkit.subscribe({ onSuggestionsFinishedLoading: resolve });
});
copilotkit.reloadSuggestions("default");
await suggested;
copilotkit.removeSuggestionsConfig(suggestions);

await ask("turn after the suggestions", "Four");
recording.act("run again");
await copilotkit.runAgent({ agent });
await recording.save("copilotkit.json", "@copilotkit/core 1.75.0");
process.exit(0);
