import { defineConfig } from "vitest/config"

// One test makes 100,000 assertions in the client: on a busy machine it needs more than the default 5 s.
export default defineConfig({ test: { include: ["server.test.mjs"], testTimeout: 20_000 } })
