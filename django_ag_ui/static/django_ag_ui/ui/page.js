/** Return a copy of a template's parts by their data-part; `root` is the whole. */
export function copy(name) {
  const template = document.querySelector(`template[data-ag-ui="${name}"]`);
  const root = template.content.firstElementChild.cloneNode(true);
  const parts = { root };
  for (const part of root.querySelectorAll("[data-part]")) parts[part.dataset.part] = part;
  return parts;
}

let texts;

/** Return a text of the page by its name, with its `{words}` filled in. */
export function text(name, values = {}) {
  texts ??= copy("texts");
  return texts[name].textContent.trim().replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
}

/** Return the JSON in the page under an id. */
export function given(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** Return what a person is told of a failure. */
export function tell({ kind = "unreachable", detail }) {
  return detail ? `${text(kind)} (${detail})` : text(kind);
}

/** Write text where it differs, so that nothing is announced twice. */
export function write(node, content) {
  if (node.textContent !== content) node.textContent = content;
}
