// Drive Chromium: one call a line on stdin, one answer a line on stdout. A call is {on, do, args, as}: the object `on`
// does something, and what comes of it is kept under the name `as` or answered as JSON. The first object is "browser".
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";

const TIMEOUT_MILLISECONDS = 40_000;
// An answer that a page has no use for any more may never be read to its end.
const ARRIVAL_MILLISECONDS = 2_000;
const AXE = await readFile(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"];

const browser = await chromium.launch({ executablePath: process.argv[2], args: FLAGS });
const objects = { browser };
const kept = { faults: new WeakMap(), posts: new WeakMap(), held: new WeakMap() };

// What a page can be asked beside what playwright offers.
const extras = {
  /** Errors of the console and of scripts, reports of a content security policy among them. */
  faults: (page) => kept.faults.get(page),
  /** What axe-core finds that is serious, as "rule: selector". */
  violations: async (page) => {
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    return serious.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(" ")}`));
  },
  posts: (page) => kept.posts.get(page),
  block: (page, pattern) => page.route(new RegExp(pattern), (route) => route.abort()),
  unblock: (page) => page.unrouteAll(),
  /** Hold back the answer to the next request of this kind until `release`. */
  hold: (page, pattern) =>
    page.route(
      new RegExp(pattern),
      (route) => {
        const answer = async (response) => {
          await route.fulfill({ response });
          await Promise.race([hasArrived(route.request()), sleep(ARRIVAL_MILLISECONDS)]);
        };
        kept.held.get(page).push(route.fetch().then((response) => () => answer(response)));
      },
      { times: 1 },
    ),
  release: async (page) => {
    for (const answer of await extras.held(page)) await answer();
    await sleep(100);
  },
  /** Wait until the server has given the answers that are held back. */
  held: (page) => Promise.all(kept.held.get(page)),
  download: async (page, selector) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
    const pieces = [];
    for await (const piece of await download.createReadStream()) pieces.push(piece);
    return { name: download.suggestedFilename(), text: Buffer.concat(pieces).toString() };
  },
};

async function hasArrived(request) {
  const response = await request.response();
  await response?.finished();
}

function watch(page) {
  kept.faults.set(page, []);
  kept.posts.set(page, []);
  kept.held.set(page, []);
  page.setDefaultTimeout(TIMEOUT_MILLISECONDS);
  page.on("pageerror", (error) => kept.faults.get(page).push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") kept.faults.get(page).push(message.text());
  });
  page.on("request", (request) => {
    if (request.method() === "POST") kept.posts.get(page).push({ url: request.url(), body: request.postData() });
  });
  return page;
}

async function answer({ on, do: verb, args = [], as }) {
  const object = objects[on];
  let result = extras[verb] ? await extras[verb](object, ...args) : await object[verb](...args);
  if (verb === "newPage") result = watch(result);
  if (as) objects[as] = result;
  return as || result === undefined ? null : result;
}

process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const said = await answer(JSON.parse(line)).then(
    (result) => ({ result }),
    (error) => ({ error: String(error) }),
  );
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
await browser.close();
