// Following a session: from the outline's offset on, drawn at most every 100 ms, going on where it was after a break.
import { signal } from "@preact/signals";
import { clockSkew, sessionPath } from "../api/client.js";
import { follow } from "../api/live.js";

const DRAWN_MS = 100, HIDDEN_MS = 60_000;

export class Following {
  constructor(transcript) {
    this.transcript = transcript;
    this.offset = transcript.outline.offset;
    this.next = transcript.outline.events;
    this.state = signal({ name: "connecting" });
    this.queue = [];
    this.unseen = signal(0);
    document.addEventListener("visibilitychange", this.onVisible = () => this.visibility());
    this.start();
  }

  start() {
    if (this.stop || this.isOver) return;
    const { transcript } = this;
    let pending = [];
    this.stop = follow(sessionPath(this.transcript.session, "/events"), () => ({ offset: this.offset, live: "sse", incarnation: transcript.info.incarnation }), {
      state: (name, more) => this.told(name, more),
      ended: (status) => ({ 401: "key revoked", 403: "not allowed", 404: "deleted", 410: "deleted" })[status],
      frame: ({ event, data }) => {
        if (event === "data") pending.push(...JSON.parse(data));
        if (event !== "control") return true;
        const control = JSON.parse(data);
        if (control.streamNextOffset) this.offset = control.streamNextOffset;
        if (pending.length) this.take((control.nextPosition ?? this.next + pending.length) - pending.length, pending);
        pending = [];
        if (!control.streamClosed) return true;
        this.isOver = true;
        this.told("ended", "closed");
        return false;
      },
    });
  }

  told(name, more) {
    this.state.value = { ...this.state.value, name, reason: more, lag: name === "live" ? this.state.value.lag : undefined };
  }

  take(first, events) {
    this.queue.push([first, events]);
    this.next = first + events.length;
    this.timer ??= setTimeout(() => this.draw(), DRAWN_MS);
  }

  draw() {
    this.timer = null;
    const { transcript } = this, isRead = transcript.scroller?.sticks ?? true;
    let many = 0, last = null;
    for (const [first, events] of this.queue.splice(0)) {
      transcript.add(first, events);
      many += events.length;
      last = events.at(-1);
    }
    if (!isRead) this.unseen.value += many;
    const sent = Date.parse(last?.created_at ?? "");
    requestAnimationFrame(() => {
      const lag = sent && !transcript.info.imported ? Math.max(0, Date.now() + clockSkew.value - sent) : undefined;
      this.state.value = { ...this.state.value, lag: lag < 60_000 ? lag : undefined };
    });
    transcript.hooks.changed();
  }

  /** A tab that nobody sees lets go after a minute, and goes on by offset. */
  visibility() {
    clearTimeout(this.hidden);
    if (!document.hidden) return this.start();
    this.hidden = setTimeout(() => { this.stop?.(); this.stop = null; this.told("paused"); }, HIDDEN_MS);
    return undefined;
  }

  close() {
    this.isOver = true;
    this.stop?.();
    clearTimeout(this.timer);
    clearTimeout(this.hidden);
    document.removeEventListener("visibilitychange", this.onVisible);
  }
}
