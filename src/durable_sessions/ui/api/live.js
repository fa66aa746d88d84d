// Server-sent events by `fetch`, with our own reconnecting at the saved offset. Not `EventSource`: it hears only the
// names of events that it was told, and cannot send our header.
import { cameBack, url } from "./client.js";

const STALE_MS = 25_000; // heartbeats come every 15 seconds
const WAITS_MS = [500, 1000, 2000, 3000, 5000];
// A browser has six connections to a server over HTTP/1.1. With a stream in each of six tabs it could ask for nothing
// more: four may stream, and the others look again and again.
const STREAMS_MAX = 4, LOOKS_MS = 5000, LOOK_MS = 1000;

/** Take one of the places of all tabs of this browser. @returns {Promise<(() => void) | null>} what gives it back */
async function place() {
  if (!navigator.locks) return () => {}; // over plain HTTP from elsewhere tabs cannot count each other
  for (let number = 1; number <= STREAMS_MAX; number++) {
    const giveBack = await new Promise((told) => {
      navigator.locks.request(`ds-stream-${number}`, { ifAvailable: true },
        (lock) => (lock ? new Promise((done) => told(done)) : told(null))).catch(() => told(null));
    });
    if (giveBack) return giveBack;
  }
  return null;
}

/** Yield the frames of an answer: {event, data}. */
async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(/\n\n/);
      rest = parts.pop();
      for (const part of parts) {
        const frame = { event: "message", data: "" };
        for (const line of part.split("\n")) {
          const at = line.indexOf(":");
          const name = at < 0 ? line : line.slice(0, at), text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
          if (name === "event") frame.event = text;
          if (name === "data") frame.data += (frame.data ? "\n" : "") + text;
        }
        if (frame.data) yield frame;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Follow a stream until `stop` is called. `params` is asked before each connection, so that it goes on where it was.
 * `state` is told: connecting, live, looking (now and then, for want of a place), stale, waiting (with seconds),
 * ended (with a reason).
 */
export function follow(path, params, { frame, state, ended = () => null }) {
  let stopped = false, attempts = 0, controller = null, timer = 0, giveBack = null;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { state("stale"); controller?.abort(); }, STALE_MS);
  };
  async function run() {
    while (!stopped) {
      controller = new AbortController();
      giveBack = await place();
      const looksOnly = giveBack === null;
      let looked = false;
      try {
        if (stopped) return;
        if (!looksOnly) state(attempts ? "reconnecting" : "connecting");
        const answer = await fetch(url(path, params()), {
          headers: { "X-DS-Page": "1", Accept: "text/event-stream" }, signal: controller.signal,
          credentials: "same-origin", cache: "no-store",
        });
        if (!answer.ok) {
          const reason = ended(answer.status);
          if (reason) return state("ended", reason);
          throw new Error(String(answer.status));
        }
        if (attempts) cameBack();
        attempts = 0;
        looked = looksOnly;
        state(looksOnly ? "looking" : "live");
        if (looksOnly) timer = setTimeout(() => controller.abort(), LOOK_MS); else heard();
        for await (const one of frames(answer.body)) {
          if (!looksOnly) heard();
          if (frame(one) === false) { stopped = true; break; }
        }
      } catch { /* a lost connection, or our own abort: go on below */ } finally {
        clearTimeout(timer);
        giveBack?.();
      }
      if (stopped) return;
      if (looked) {
        await new Promise((resolve) => setTimeout(resolve, LOOKS_MS));
        continue;
      }
      const wait = WAITS_MS[Math.min(attempts++, WAITS_MS.length - 1)];
      state("waiting", Math.ceil(wait / 1000));
      await new Promise((resolve) => setTimeout(resolve, attempts === 1 ? 100 : wait));
    }
  }
  run();
  return () => {
    stopped = true;
    clearTimeout(timer);
    giveBack?.();
    controller?.abort();
  };
}
