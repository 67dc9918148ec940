/** Return the parts of a copy of a template of the page by their data-part; `root` is the whole. */
export function copy(name) {
  const template = document.querySelector(`template[data-ag-ui="${name}"]`);
  const root = template.content.firstElementChild.cloneNode(true);
  const parts = { root };
  for (const part of root.querySelectorAll("[data-part]")) parts[part.dataset.part] = part;
  return parts;
}

let texts;

/** Return a text of the page by its name, with the `{words}` in it filled in. */
export function text(name, values = {}) {
  texts ??= copy("texts");
  return texts[name].textContent.trim().replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
}

let failures;

/** Return why a run has failed, in the language of the page where it says how. */
export function reason(sent) {
  failures ??= new Map(Object.entries(JSON.parse(document.getElementById("ag-ui-failures").textContent)));
  return failures.get(sent) ?? sent;
}

/** Return what a person is told of a failure. */
export function tell({ kind = "unreachable", detail }) {
  return detail ? `${text(kind)} (${detail})` : text(kind);
}

/** Write text where it differs, so that nothing is announced twice. */
export function write(node, content) {
  if (node.textContent !== content) node.textContent = content;
}
