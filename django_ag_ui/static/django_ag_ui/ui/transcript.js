import { Markdown } from "./markdown.js";
import { copy, text, write } from "./page.js";

const SHOWN = ["user", "assistant", "reasoning", "activity"];

export class Transcript {
  #views = new Map();
  #own = new Set();
  #strange = new Set();

  constructor(element) {
    this.element = element;
  }

  /** Draw what has changed; `unknown` are calls of unknown effects. */
  draw(fold, unknown) {
    const changed = fold.takeChanged();
    // Of calls more is said than is in their messages.
    const isNew = this.run !== fold.run || this.unknown !== unknown;
    Object.assign(this, { run: fold.run, unknown });
    const shown = fold.messages.filter(({ role }) => SHOWN.includes(role));
    const ids = new Set(shown.map(({ id }) => id));
    for (const [id, view] of this.#views) {
      if (ids.has(id)) continue;
      view.root.remove();
      this.#views.delete(id);
    }
    const results = new Map(fold.messages.map(({ toolCallId, content }) => [toolCallId, content]));
    let next = this.element.firstElementChild;
    for (const message of shown) {
      const view = this.#views.get(message.id) ?? new MessageView(message.role);
      if (changed.has(message.id)) view.draw(message);
      if (isNew || changed.has(message.id)) view.drawCalls(message, { results, fold, unknown });
      this.#views.set(message.id, view);
      if (this.#strange.has(message.id)) view.note.hidden = false;
      if (view.root === next) next = next.nextElementSibling;
      else this.element.insertBefore(view.root, next);
    }
  }

  own(id) {
    this.#own.add(id);
  }

  /** Take note of what a run brings; return how many messages come from elsewhere. */
  bring(messages) {
    const strange = messages.filter(({ id, role }) => role === "user" && !this.#own.has(id) && !this.#views.has(id));
    for (const { id } of strange) this.#strange.add(id);
    return strange.length;
  }
}

class MessageView {
  #cards = new Map();

  constructor(role) {
    Object.assign(this, copy(role));
    this.markdown = ["user", "activity"].includes(role) ? null : new Markdown(this.text);
  }

  draw(message) {
    const content = plain(message.content);
    if (this.markdown) this.markdown.render(content);
    else this.text.textContent = content;
    this.text.hidden = !content;
    if (this.kind) write(this.kind, message.activityType);
  }

  drawCalls({ toolCalls = [] }, drawing) {
    for (const call of toolCalls) {
      if (!this.#cards.has(call.id)) {
        this.#cards.set(call.id, copy("tool"));
        this.root.append(this.#cards.get(call.id).root);
      }
      drawCall(this.#cards.get(call.id), call, drawing);
    }
  }
}

function drawCall(card, { id, function: called }, { results, fold, unknown }) {
  const isAsked = fold.interrupts.some(({ toolCallId }) => toolCallId === id);
  const open = isAsked ? "asked" : fold.isRunning ? "working" : "unanswered";
  card.root.dataset.state = results.has(id) ? "answered" : open;
  write(card.name, called.name);
  write(card.state, text(card.root.dataset.state));
  write(card.given, indented(called.arguments));
  write(card.result, plain(results.get(id)));
  card.unknown.hidden = !unknown.has(id);
}

/** Return the text of a message's content, with the names of what is no text. */
function plain(content = "") {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return indented(JSON.stringify(content));
  return content.map((part) => part.text ?? `[${part.source?.mimeType ?? part.type}]`).join("\n");
}

/** Return JSON, maybe half written, on several lines; not parsed, so that numbers keep their digits. */
export function indented(json) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.max(depth, 0))}`;
  const place = { ",": () => `,${line()}`, ":": () => ": " };
  for (const bracket of "{[") place[bracket] = () => bracket + line(++depth);
  for (const bracket of "}]") place[bracket] = () => line(--depth) + bracket;
  return json.replace(/"(?:[^"\\]|\\.)*"?|\{\s*\}|\[\s*\]|[{}[\],:]|\s+/g, (token) =>
    token.trim() ? (place[token]?.() ?? token) : "",
  );
}
