// The official TypeScript client writes, reads and tails; prints what it saw as JSON.
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const base = process.env.DS_URL + "/v1/stream"
const seen = {}

for (const live of ["sse", "long-poll"]) {
  const url = `${base}/ts/${live}`
  const handle = await DurableStream.create({ url, contentType: "application/json" })
  for (let n = 0; n < 20; n++) await handle.append(JSON.stringify({ n }))
  const caughtUp = (await (await stream({ url, live: false })).json()).map((item) => item.n)

  const tailed = []
  const tail = await stream({ url, live, offset: "-1" })
  const done = new Promise((resolve) => {
    tail.subscribeJson(async (batch) => {
      tailed.push(...batch.items.map((item) => item.n))
      if (tailed.at(-1) === 119) resolve()
    })
  })
  const failures = []
  const producer = new IdempotentProducer(handle, "ts", { autoClaim: true, onError: (error) => failures.push(`${error}`) })
  for (let n = 20; n < 120; n++) producer.append(JSON.stringify({ n }))
  await producer.flush()
  await done
  seen[live] = { caughtUp, tailed, failures }
}

const url = `${base}/ts/binary`
const binary = await DurableStream.create({ url, contentType: "application/octet-stream" })
await binary.append(new Uint8Array([0, 1, 2, 253, 254, 255]))
await binary.close()
seen.binary = [...(await (await stream({ url, live: false })).body())]
seen.closed = (await binary.head()).streamClosed
await DurableStream.delete({ url })
console.log(JSON.stringify(seen))
process.exit(0)
