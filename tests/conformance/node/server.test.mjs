// Runs every published conformance test, subscriptions included, against DS_URL.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.DS_URL,
  longPollTimeoutMs: 1000,
  subscriptions: true,
})
