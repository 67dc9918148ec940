import { copy } from "./page.js";
import { indented } from "./transcript.js";

/** The cards for what a run asks. Once all are answered, `onAnswers` gets entries and, by interrupt, changed arguments. */
export class Approvals {
  #cards = new Map();

  constructor(element, onAnswers) {
    this.element = element;
    this.onAnswers = onAnswers;
  }

  draw(fold) {
    for (const [id, { root }] of this.#cards) {
      if (fold.interrupts.some((interrupt) => interrupt.id === id)) continue;
      root.remove();
      this.#cards.delete(id);
    }
    for (const card of this.#cards.values()) card.draw();
    for (const interrupt of fold.interrupts) {
      if (this.#cards.has(interrupt.id)) continue;
      const card = new ApprovalCard(interrupt, fold.findCall(interrupt.toolCallId).call, () => this.#answered());
      this.#cards.set(interrupt.id, card);
      this.element.append(card.root);
    }
  }

  /** Have the person answer again: some answers may have come too late. */
  reopen({ code }) {
    for (const card of this.#cards.values()) {
      card.isLate ||= code === "interrupt_expired";
      card.settle(null);
      card.draw();
    }
  }

  #answered() {
    const cards = [...this.#cards.values()];
    if (!cards.every(({ entry }) => entry)) return;
    const changed = cards.filter(({ written }) => written !== null);
    this.onAnswers(
      cards.map(({ entry }) => entry),
      new Map(changed.map(({ entry, written }) => [entry.interruptId, written])),
    );
  }
}

class ApprovalCard {
  /** The resume entry, once answered, and changed arguments. */
  entry = null;
  written = null;

  constructor(interrupt, call, onAnswer) {
    Object.assign(this, copy("approval"), { interrupt, onAnswer });
    this.name.textContent = call?.function.name ?? interrupt.reason;
    this.question.textContent = interrupt.message ?? "";
    this.edit.hidden = interrupt.reason === "unknown_effect";
    this.given = indented(call?.function.arguments ?? "{}");
    this.editor.value = this.given;
    this.draw();
    this.approve.onclick = () => this.#approve();
    this.deny.onclick = () => this.#deny();
    this.dismiss.onclick = () => this.#answer({ status: "cancelled" });
  }

  /** Offer to dismiss what has expired. A browser's clock may be wrong, so nothing is taken away. */
  draw() {
    this.dismiss.hidden = !(this.isLate || Date.parse(this.interrupt.expiresAt) < Date.now());
  }

  settle(entry) {
    this.entry = entry;
    this.fields.disabled = entry !== null;
  }

  #approve() {
    const { value } = this.editor;
    this.fault.hidden = value === this.given || isObject(value);
    if (this.fault.hidden) this.#answer({ status: "resolved", payload: { approved: true } }, value);
  }

  #deny() {
    const reason = this.reason.value.trim();
    this.#answer({ status: "resolved", payload: { approved: false, ...(reason && { reason }) } });
  }

  #answer(answer, value = this.given) {
    this.written = value === this.given ? null : value;
    this.settle({ interruptId: this.interrupt.id, ...answer });
    this.onAnswer();
  }
}

function isObject(json) {
  try {
    JSON.parse(json);
    return /^\s*\{/.test(json);
  } catch {
    return false;
  }
}
