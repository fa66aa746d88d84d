// The AI SDK's transport for durable streams, as an application uses it: the answer of a model is written by the
// server's side, a reader leaves after ten chunks, comes back, and has every chunk.
//   node chat.mjs WRITE_URL READ_URL '{"Stream-Envelope":"ai.chunk"}'
import { createDurableChatTransport, toDurableStreamResponse } from "@durable-streams/aisdk-transport";

const [writeUrl, readUrl, headers] = process.argv.slice(2);
const words = Array.from({ length: 40 }, (_, n) => ({ type: "text-delta", id: "t1", delta: `word ${n} ` }));
const chunks = [{ type: "start" }, { type: "text-start", id: "t1" }, ...words, { type: "text-end", id: "t1" }, { type: "finish" }];

async function* model() {
  for (const chunk of chunks) {
    await new Promise((go) => setTimeout(go, 2));
    yield chunk;
  }
}

let begun = false;
// The application's own endpoints, without a web server: the transport is given this in the place of fetch.
const application = async (url, { method }) => {
  if (method === "POST") {
    begun = true;
    const stream = { writeUrl, readUrl, headers: JSON.parse(headers) };
    return toDurableStreamResponse({ source: model(), stream, mode: "immediate" });
  }
  if (!begun) return new Response(null, { status: 204 });
  return new Response(JSON.stringify({ streamUrl: readUrl }), { headers: { "Content-Type": "application/json" } });
};

const transport = createDurableChatTransport({ api: "http://app.invalid/chat", fetchClient: application });
const idle = await transport.reconnectToStream({ chatId: "c" });
const left = [];
const leaving = new AbortController();
const reader = (
  await transport.sendMessages({ trigger: "submit-message", chatId: "c", messages: [], abortSignal: leaving.signal })
).getReader();
while (left.length < 10) {
  const { done, value } = await reader.read();
  if (done) break;
  left.push(value);
}
leaving.abort();
reader.cancel().catch(() => {});
const seen = [];
for await (const chunk of await transport.reconnectToStream({ chatId: "c" })) seen.push(chunk);
const same = JSON.stringify(seen) === JSON.stringify(chunks);
console.log(JSON.stringify({ idle, left: left.length, seen: seen.length, same }));
process.exit(0);
