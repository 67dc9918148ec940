/** Return the JSON of a RunAgentInput; `edits` are texts of changed arguments by interrupt. */
export function runInput(fields, edits = new Map()) {
  const body = { state: {}, tools: [], context: [], forwardedProps: {}, protocolVersion: "1.0", ...fields };
  // Changed arguments go out as they were written: long numbers keep their digits.
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
