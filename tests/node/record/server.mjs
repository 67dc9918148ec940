// A server that keeps every RunAgentInput that it is sent, with what it answered; tests/threads/test_recordings.py reads
// both. `node record/<client>.mjs [directory]` records a client anew.
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { resolve } from "node:path";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const FIXTURES = fileURLToPath(new URL("../../fixtures/requests/", import.meta.url));
const INFO = { version: "1.75.0", agents: { default: { name: "default", description: "", className: "HttpAgent" } } };

const textOf = (content) => (typeof content === "string" ? content : content.map((part) => part.text ?? "").join(""));

export class Recording {
  posts = [];
  #answers = 0;
  #act = "";
  #server = createServer((request, response) => this.#handle(request, response));

  async open() {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `http://127.0.0.1:${this.#server.address().port}/`;
    return this;
  }

  // Name what the user does next; every post until the next act belongs to it.
  act(name) {
    this.#act = name;
  }

  async save(file, client) {
    this.#server.closeAllConnections();
    this.#server.close();
    await writeFile(
      resolve(process.argv[2] ?? FIXTURES, file),
      `${JSON.stringify({ client, posts: this.posts }, null, 2)}\n`,
    );
  }

  async #handle(request, response) {
    if (request.method === "GET") {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify(INFO));
      return;
    }
    const body = await json(request);
    if (!body.messages) {
      response.end("{}");
      return;
    }
    const post = { act: this.#act, path: request.url, body, answer: [], status: "running" };
    this.posts.push(post);
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const send = (type, fields) => response.write(`data: ${JSON.stringify({ type, ...fields })}\n\n`);
    const run = { threadId: body.threadId, runId: body.runId };
    send("RUN_STARTED", run);
    const prompt = textOf(body.messages.findLast((message) => message.role === "user")?.content ?? "");
    if (body.messages.at(-1)?.role === "tool") this.#say(send, post, "You are in Oslo.");
    else if (prompt.startsWith("Where")) this.#call(send, post, body.tools[0]?.name ?? "locate");
    else if (prompt.startsWith("Check")) this.#check(send, post);
    else if (prompt.startsWith("Wait")) return this.#hold(send, post);
    else if (prompt.startsWith("Fail")) {
      this.#say(send, post, "Half of");
      post.status = "failed";
      send("RUN_ERROR", { message: "The model is away.", code: "model" });
      response.end();
      return;
    } else this.#say(send, post, `Answer to: ${prompt.slice(0, 40)}`);
    post.status = "finished";
    send("RUN_FINISHED", { ...run, outcome: { type: "success" } });
    response.end();
  }

  #open(post, message) {
    const id = `answer-${++this.#answers}`;
    post.answer.push({ id, role: "assistant", ...message });
    return id;
  }

  #say(send, post, content) {
    const messageId = this.#open(post, { content });
    send("TEXT_MESSAGE_START", { messageId, role: "assistant" });
    send("TEXT_MESSAGE_CONTENT", { messageId, delta: content });
    send("TEXT_MESSAGE_END", { messageId });
  }

  // Leave the text open, as a run that is still going does.
  #hold(send, post) {
    const messageId = this.#open(post, { content: "One moment" });
    send("TEXT_MESSAGE_START", { messageId, role: "assistant" });
    send("TEXT_MESSAGE_CONTENT", { messageId, delta: "One moment" });
  }

  #call(send, post, name) {
    const id = `call-${this.#answers + 1}`;
    const parentMessageId = this.#open(post, {
      toolCalls: [{ id, type: "function", function: { name, arguments: "{}" } }],
    });
    send("TOOL_CALL_START", { toolCallId: id, toolCallName: name, parentMessageId });
    send("TOOL_CALL_ARGS", { toolCallId: id, delta: "{}" });
    send("TOOL_CALL_END", { toolCallId: id });
    return id;
  }

  #check(send, post) {
    const messageId = `reasoning-${this.#answers + 1}`;
    post.answer.push({ id: messageId, role: "reasoning", content: "The stock is asked for." });
    send("REASONING_START", { messageId });
    send("REASONING_MESSAGE_START", { messageId, role: "reasoning" });
    send("REASONING_MESSAGE_CONTENT", { messageId, delta: "The stock is asked for." });
    send("REASONING_MESSAGE_END", { messageId });
    send("REASONING_END", { messageId });
    const toolCallId = this.#call(send, post, "stock");
    const result = { id: `result-${this.#answers}`, role: "tool", toolCallId, content: "12" };
    post.answer.push(result);
    send("TOOL_CALL_RESULT", { messageId: result.id, toolCallId, role: "tool", content: result.content });
    this.#say(send, post, "There are twelve.");
  }
}
