const KEPT = 50;

/**
 * What this browser has posted, kept across visits. Posting the same body again attaches to the run that it started, so
 * this is all the page needs to find a run again.
 */
export class Posts {
  constructor(user) {
    this.key = `notebook:${user}`;
    this.entries = JSON.parse(localStorage.getItem(this.key) ?? "[]");
  }

  add(post) {
    this.entries = [...this.entries, post].slice(-KEPT);
    this.save();
  }

  find(runId) {
    return this.entries.find((post) => post.runId === runId);
  }

  get unfinished() {
    return this.entries.filter((post) => !post.ended);
  }

  end(post) {
    post.ended = true;
    this.save();
  }

  save() {
    localStorage.setItem(this.key, JSON.stringify(this.entries));
  }
}
