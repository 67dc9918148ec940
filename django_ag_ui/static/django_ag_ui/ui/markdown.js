import { Marked } from "../vendor/marked.js";
import purify from "../vendor/purify.js";

const marked = new Marked({
  renderer: {
    // What the model writes as HTML is shown as it is written.
    html: ({ text }) => escaped(text),
    // An image would tell its server that somebody reads this.
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    // The page has headings above those of a message.
    heading({ tokens, depth }) {
      const tag = `h${Math.min(depth + 2, 6)}`;
      return `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

/** Markdown that grows: what has come to rest is not rendered again. */
export class Markdown {
  #text = "";
  /** How much of the text is in blocks that more text does not change. */
  #settled = 0;
  #open = [];

  constructor(element) {
    this.element = element;
  }

  render(text) {
    const normal = text.replaceAll(/\r\n?/g, "\n");
    if (normal === this.#text) return;
    if (!normal.startsWith(this.#text.slice(0, this.#settled))) {
      this.#settled = 0;
      this.#open = [];
      this.element.replaceChildren();
    }
    for (const node of this.#open) node.remove();
    this.#open = [];
    this.#text = normal;
    const tokens = marked.lexer(normal.slice(this.#settled));
    tokens.forEach((token, index) => {
      const nodes = [...rendered(token).childNodes];
      this.element.append(...nodes);
      // The last block grows, and with a blank line behind it so may the one before.
      if (index < tokens.length - 2) this.#settled += token.raw.length;
      else this.#open.push(...nodes);
    });
  }
}

function rendered(token) {
  const fragment = purify.sanitize(marked.parser([token]), {
    ALLOWED_ATTR: ["align", "href", "start", "title"],
    RETURN_DOM_FRAGMENT: true,
  });
  for (const link of fragment.querySelectorAll("a")) {
    Object.assign(link, { rel: "noopener noreferrer nofollow", target: "_blank" });
  }
  // What scrolls is reached by keyboard.
  for (const block of fragment.querySelectorAll("pre")) block.tabIndex = 0;
  return fragment;
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
