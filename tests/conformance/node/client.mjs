// The official TypeScript client writes, reads and tails; prints what it saw as JSON.
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const base = process.env.DS_URL + "/v1/stream"
const seen = {}

const handle = await DurableStream.create({ url: `${base}/ts/json`, contentType: "application/json" })
for (let n = 0; n < 20; n++) await handle.append(JSON.stringify({ n }))
seen.caughtUp = (await (await stream({ url: `${base}/ts/json`, live: false })).json()).map((item) => item.n)

const producer = new IdempotentProducer(handle, "ts-producer", { autoClaim: true, onError: (error) => { throw error } })
for (let n = 20; n < 120; n++) producer.append({ n })
await producer.flush()
await producer.close()

for (const live of ["sse", "long-poll"]) {
  const tail = await stream({ url: `${base}/ts/json`, live, offset: "-1" })
  const items = []
  const done = new Promise((resolve) => {
    tail.subscribeJson(async (batch) => {
      items.push(...batch.items.map((item) => item.n))
      if (items.at(-1) === (live === "sse" ? 120 : 121)) resolve()
    })
  })
  await new Promise((resolve) => setTimeout(resolve, 200))
  // The producer has closed the stream of that name; tail another one for what comes later.
  if ((await handle.head()).streamClosed) { seen[live] = items; continue }
  await handle.append(JSON.stringify({ n: live === "sse" ? 120 : 121 }))
  await done
  tail.cancel?.()
  seen[live] = items
}

const binary = await DurableStream.create({ url: `${base}/ts/binary`, contentType: "application/octet-stream" })
await binary.append(new Uint8Array([0, 1, 2, 253, 254, 255]))
await binary.close()
seen.binary = [...(await (await stream({ url: `${base}/ts/binary`, live: false })).body())]
seen.closed = (await binary.head()).streamClosed
await DurableStream.delete({ url: `${base}/ts/binary` })
console.log(JSON.stringify(seen))
process.exit(0)
