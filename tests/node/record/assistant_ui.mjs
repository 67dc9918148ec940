// What assistant-ui's AG-UI runtime posts.
import { HttpAgent } from "ag-ui-client-059";
import { JSDOM } from "jsdom";
import { Recording } from "./server.mjs";

const { window } = new JSDOM("<main></main>", { url: "http://127.0.0.1/" });
Object.assign(globalThis, { window, document: window.document, navigator: window.navigator });
const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");
const { AssistantRuntimeProvider } = await import("@assistant-ui/react");
const { useAgUiRuntime } = await import("@assistant-ui/react-ag-ui");

const recording = await new Recording().open();
const agent = new HttpAgent({ url: recording.url, threadId: "thread-1" });
let runtime;
function App() {
  runtime = useAgUiRuntime({ agent, onError() {} });
  return createElement(AssistantRuntimeProvider, { runtime });
}
createRoot(document.querySelector("main")).render(createElement(App));

const messages = () => runtime.thread.getState().messages;
async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
async function act(name, begin) {
  recording.act(name);
  const posts = recording.posts.length;
  begin();
  await until(() => recording.posts.length > posts && !runtime.thread.getState().isRunning);
}
const say = (text) => runtime.thread.append({ role: "user", content: [{ type: "text", text }] });
const lastOf = (role) => messages().findLastIndex((message) => message.role === role);
const regenerate = () => runtime.thread.getMessageByIndex(lastOf("assistant")).reload();

await until(() => runtime && !runtime.thread.getState().isLoading);
await act("first turn", () => say("One"));
await act("next turn", () => say("Two"));
await act("regenerate", regenerate);
await act("turn with a tool of the server", () => say("Check the stock"));
await act("regenerate an answer with a tool in it", regenerate);
await act("edit of the last turn", () => {
  const composer = runtime.thread.getMessageByIndex(lastOf("user")).composer;
  composer.beginEdit();
  composer.setText("Check it once more");
  composer.send();
});
await act("turn that fails", () => say("Fail"));
await act("regenerate after the failure", regenerate);
async function cancelMidway(name, begin) {
  recording.act(name);
  const posts = recording.posts.length;
  begin();
  await until(() => recording.posts.length > posts && JSON.stringify(messages().at(-1)).includes("One moment"));
  runtime.thread.cancelRun();
  await until(() => !runtime.thread.getState().isRunning);
}
await cancelMidway("turn that is stopped", () => say("Wait"));
await cancelMidway("regenerate after stopping", regenerate);
await recording.save("assistant_ui.json", "@assistant-ui/react-ag-ui 0.0.57");
process.exit(0);
