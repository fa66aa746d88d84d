// node reference.mjs PORT [DATA]: the reference server, in memory without DATA.
import { DurableStreamTestServer } from "@durable-streams/server"

const [port, dataDir] = [Number(process.argv[2]), process.argv[3]]
await new DurableStreamTestServer({ port, host: "127.0.0.1", dataDir }).start()
