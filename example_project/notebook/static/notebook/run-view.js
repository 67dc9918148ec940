/** Return a copy of a template of the page. */
export function copy(name) {
  return document.querySelector(`template[data-template="${name}"]`).content.firstElementChild.cloneNode(true);
}

/** One run on the page, drawn from its events. Whatever comes from the stream becomes a text node. */
export class RunView {
  constructor(prompt) {
    this.element = copy("run");
    this.element.querySelector("[data-prompt]").textContent = prompt;
    this.parts = this.element.querySelector("[data-parts]");
    this.end = this.element.querySelector("[data-end]");
    this.reset();
  }

  /** Forget what was drawn, because the log comes again from its beginning. */
  reset() {
    this.parts.replaceChildren();
    this.end.textContent = "";
    this.end.classList.remove("failed");
    this.open = new Map();
  }

  show(event) {
    switch (event.type) {
      case "TEXT_MESSAGE_START":
        this.add("text", event.messageId);
        break;
      case "REASONING_MESSAGE_START":
        this.add("reasoning", event.messageId);
        break;
      case "TOOL_CALL_START":
        this.add("tool", event.toolCallId).querySelector("[data-name]").textContent = event.toolCallName;
        break;
      case "TEXT_MESSAGE_CONTENT":
      case "REASONING_MESSAGE_CONTENT":
        this.write(event.messageId, event.delta);
        break;
      case "TOOL_CALL_ARGS":
        this.write(event.toolCallId, event.delta);
        break;
      case "TOOL_CALL_END":
        this.setState(event.toolCallId, "running");
        break;
      case "TOOL_CALL_RESULT":
        this.setState(event.toolCallId, "done");
        this.find(event.toolCallId, "[data-result]").textContent = event.content;
        break;
      case "RUN_FINISHED":
        this.end.textContent = "Finished.";
        break;
      case "RUN_ERROR":
        this.fail(event.message);
        break;
    }
  }

  fail(message) {
    this.end.textContent = `Failed: ${message}`;
    this.end.classList.add("failed");
  }

  add(template, id) {
    const part = copy(template);
    this.parts.append(part);
    this.open.set(id, part);
    return part;
  }

  find(id, selector) {
    const part = this.open.get(id);
    return part.matches(selector) ? part : part.querySelector(selector);
  }

  write(id, delta) {
    this.find(id, "[data-content]").append(delta);
  }

  setState(id, state) {
    this.find(id, "[data-state]").textContent = state;
  }
}
