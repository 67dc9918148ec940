const MOST_MESSAGES = 1000;
const MOST_CHARACTERS = 250_000;

/** Return what the server compares of the newest messages: what the user said, and the ids of answers. */
export function outline(messages) {
  const kept = [];
  let room = MOST_CHARACTERS;
  for (const { id, role, content } of messages.slice(-MOST_MESSAGES).reverse()) {
    if (room < 0) break;
    if (role === "assistant") kept.unshift({ id, role });
    if (role !== "user") continue;
    kept.unshift({ id, role, content });
    room -= JSON.stringify(content).length;
  }
  return kept;
}

/** Return the JSON of a RunAgentInput; `edits` are texts of changed arguments by interrupt. */
export function runInput(fields, edits = new Map()) {
  const body = { state: {}, tools: [], context: [], forwardedProps: {}, protocolVersion: "1.0", ...fields };
  // Changed arguments go out as written: long numbers keep their digits.
  const marks = new Map();
  for (const { interruptId, payload } of body.resume ?? []) {
    if (!edits.has(interruptId)) continue;
    payload.editedArgs = newId();
    marks.set(payload.editedArgs, edits.get(interruptId));
  }
  let json = JSON.stringify(body);
  for (const [mark, written] of marks) json = json.replace(`"${mark}"`, () => written);
  return json;
}

export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
