// Server-sent events by `fetch`, with our own reconnecting at the saved offset. Not `EventSource`: it hears only the
// names of events that it was told, and cannot send our header.
import { url } from "./client.js";

const STALE_MS = 25_000; // heartbeats come every 15 seconds
const WAITS_MS = [500, 1000, 2000, 3000, 5000];

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
 * `state` is told: connecting, live, stale, waiting (with seconds), ended (with a reason).
 */
export function follow(path, params, { frame, state, ended = () => null }) {
  let stopped = false, attempts = 0, controller = null, timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { state("stale"); controller?.abort(); }, STALE_MS);
  };
  async function run() {
    while (!stopped) {
      controller = new AbortController();
      try {
        state(attempts ? "reconnecting" : "connecting");
        const answer = await fetch(url(path, params()), {
          headers: { "X-DS-Page": "1", Accept: "text/event-stream" }, signal: controller.signal,
          credentials: "same-origin", cache: "no-store",
        });
        if (!answer.ok) {
          const reason = ended(answer.status);
          if (reason) return state("ended", reason);
          throw new Error(String(answer.status));
        }
        attempts = 0;
        state("live");
        heard();
        for await (const one of frames(answer.body)) {
          heard();
          if (frame(one) === false) { stopped = true; break; }
        }
      } catch { /* a lost connection, or our own abort: go on below */ }
      clearTimeout(timer);
      if (stopped) return;
      const wait = WAITS_MS[Math.min(attempts++, WAITS_MS.length - 1)];
      state("waiting", Math.ceil(wait / 1000));
      await new Promise((resolve) => setTimeout(resolve, attempts === 1 ? 100 : wait));
    }
  }
  run();
  return () => {
    stopped = true;
    clearTimeout(timer);
    controller?.abort();
  };
}
