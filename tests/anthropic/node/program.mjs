// A Managed Agents program with the TypeScript SDK; prints the objects it was given, by the SDK's name for them.
import assert from "node:assert/strict"
import Anthropic from "@anthropic-ai/sdk"
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema"

const { DS_URL: baseURL, DS_KEY: apiKey, DS_READER: reader, DS_SLOW: slow } = process.env
const samples = JSON.parse(process.env.DS_EVENTS)
const requests = []
const counting = (url, init) => {
  requests.push(`${init.method} ${new URL(url).pathname}`)
  return fetch(url, init)
}
const client = new Anthropic({ baseURL, apiKey, fetch: counting })
const { agents, environments, sessions } = client.beta

const wire = { BetaManagedAgentsSession: [], BetaManagedAgentsAgent: [], BetaEnvironment: [] }
const keep = (kind, value) => {
  ;(wire[kind] ??= []).push(value)
  return value
}
const text = (words) => [{ type: "text", text: words }]
const all = async (pages) => {
  const items = []
  for await (const item of pages) items.push(item)
  return items
}
const ids = (items) => items.map((item) => item.id)

// What a harness does: append any event, in the native dialect.
const append = async (session, ...events) => {
  const answer = await fetch(`${baseURL}/v1/sessions/${session}/events`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      prefer: "return=representation",
    },
    body: JSON.stringify({ events }),
  })
  assert.equal(answer.status, 200, await answer.clone().text())
  return (await answer.json()).data
}
const endTurn = { type: "session.status_idle", stop_reason: { type: "end_turn" }, stop_details: null }

const steps = {
  async agents() {
    const agent = keep(
      "BetaManagedAgentsAgent",
      await agents.create({
        name: "Coder",
        model: { id: "claude-sonnet-5", effort: "high" },
        mcp_servers: [{ type: "url", name: "docs", url: "https://docs.example.com" }],
        skills: [{ type: "anthropic", skill_id: "xlsx" }],
        tools: [
          { type: "agent_toolset_20260401", configs: [{ name: "bash" }, { name: "web_fetch" }, { name: "web_search" }] },
          { type: "mcp_toolset", mcp_server_name: "docs", configs: [{ name: "find" }] },
          { type: "custom", name: "crm", description: "d", input_schema: { type: "object" } },
        ],
      }),
    )
    assert.deepEqual(agent.model.effort, { type: "high" })
    const second = keep("BetaManagedAgentsAgent", await agents.update(agent.id, { version: 1, name: "Builder" }))
    assert.equal(second.version, 2)
    requests.length = 0
    await assert.rejects(agents.update(agent.id, { version: 1, name: "Late" }), Anthropic.ConflictError)
    assert.equal(requests.length, 1)
    const versions = await all(agents.versions.list(agent.id, { limit: 1 }))
    assert.deepEqual(versions.map((one) => one.version), [2, 1])
    keep("BetaManagedAgentsAgent", await agents.archive((await agents.create({ name: "Old", model: "m" })).id))
    assert.deepEqual(ids(await all(agents.list())), [agent.id])
    return agent
  },

  async environments() {
    const made = keep("BetaEnvironment", await environments.create({ name: "box" }))
    keep("BetaEnvironment", await environments.create({ name: "own", config: { type: "self_hosted" } }))
    keep("BetaEnvironment", await environments.update(made.id, { description: "A box" }))
    keep("BetaEnvironment", await environments.archive(made.id))
    assert.equal((await environments.delete(made.id)).type, "environment_deleted")
    await assert.rejects(environments.retrieve(made.id), Anthropic.NotFoundError)
  },

  async sessions(agent) {
    const create = (more) => sessions.create({ agent: agent.id, environment_id: "env_1", ...more })
    const full = keep(
      "BetaManagedAgentsSession",
      await create({
        title: "First",
        metadata: { team: "blue", old: "1" },
        vault_ids: ["vlt_1"],
        budget: { type: "limit", max_list_cost: { amount: "100", currency: "USD" } },
        resources: [
          { type: "file", file_id: "file_1" },
          { type: "github_repository", url: "https://github.com/a/b", authorization_token: "t" },
          { type: "memory_store", memory_store_id: "memstore_1" },
        ],
        initial_events: [
          { type: "user.define_outcome", description: "d", rubric: { type: "text", content: "c" } },
        ],
      }),
    )
    for (const key of ["archived_at"]) assert.ok(key in full && full[key] === null)
    const plain = keep("BetaManagedAgentsSession", await create({ agent: { type: "agent", id: agent.id, version: 1 } }))
    for (const key of ["archived_at", "budget", "title"]) assert.ok(key in plain && plain[key] === null, key)
    assert.equal(plain.agent.name, "Coder")
    const over = { type: "agent_with_overrides", id: "agent_of_elsewhere", system: "s", model: "m" }
    keep("BetaManagedAgentsSession", await create({ agent: over }))
    const changed = await sessions.update(full.id, { title: "Second", metadata: { old: null, new: "2" } })
    assert.deepEqual(keep("BetaManagedAgentsSession", changed).metadata, { team: "blue", new: "2" })
    await sessions.update(full.id, { agent: { tools: [{ type: "agent_toolset_20260401" }] } })
    keep("BetaManagedAgentsSession", await sessions.retrieve(full.id))
    for (const one of await all(sessions.resources.list(full.id))) keep("BetaManagedAgentsSessionResource", one)
    const file = await sessions.resources.add(full.id, { type: "file", file_id: "file_2" })
    keep("BetaManagedAgentsSessionResource", await sessions.resources.retrieve(file.id, { session_id: full.id }))
    await sessions.resources.delete(file.id, { session_id: full.id })

    const first = await sessions.list({ limit: 2 })
    assert.equal(first.prev_page, null)
    const second = await first.getNextPage()
    assert.deepEqual(ids([...first.data, ...second.data]), ids(await all(sessions.list({ limit: 1 }))))
    assert.equal(second.next_page, null)
    const back = await sessions.list({ limit: 2, page: second.prev_page })
    assert.deepEqual(ids(back.data), ids(first.data))
    assert.deepEqual(ids(await all(sessions.list({ statuses: ["running"] }))), [])
    assert.equal((await all(sessions.list({ "created_at[gte]": full.created_at }))).length, 3)
    assert.equal((await all(sessions.list({ agent_id: agent.id, agent_version: 1 }))).length, 1)
    keep("BetaManagedAgentsSession", await sessions.archive(plain.id))
    requests.length = 0
    await assert.rejects(sessions.events.send(plain.id, { events: [{ type: "user.interrupt" }] }), (error) => {
      assert.ok(error instanceof Anthropic.ConflictError)
      assert.equal(error.type, "invalid_request_error")
      assert.match(error.requestID, /^req_/)
      return true
    })
    assert.equal(requests.length, 1)
    return full
  },

  async events(session) {
    const events = sessions.events
    const stream = await events.stream(session.id)
    const sent = (await events.send(session.id, { events: [{ type: "user.message", content: text("Hello") }] })).data
    const appended = await append(session.id, ...samples)
    const streamed = []
    for await (const event of stream) {
      streamed.push(event)
      if (streamed.length === 1 + appended.length) break
    }
    assert.deepEqual(streamed, [...sent, ...appended])
    for (const event of streamed) keep("BetaManagedAgentsSessionEvent", event)
    const listed = await all(events.list(session.id, { limit: 7 }))
    assert.deepEqual(listed.slice(-streamed.length), streamed)
    for (const event of listed.slice(0, -streamed.length)) keep("BetaManagedAgentsSessionEvent", event)
    const backwards = await all(events.list(session.id, { limit: 7, order: "desc" }))
    assert.deepEqual(backwards.reverse(), listed)
    const said = await all(events.list(session.id, { types: ["agent.message", "user.message"] }))
    assert.deepEqual(said.map((event) => event.type), ["user.message", "user.message", "agent.message"])
    const now = sent[0].processed_at
    assert.ok((await all(events.list(session.id, { "created_at[gte]": now }))).some((one) => one.id === sent[0].id))
    assert.ok((await all(events.list(session.id, { "created_at[lt]": now }))).every((one) => one.id !== sent[0].id))

    const threads = await all(sessions.threads.list(session.id))
    assert.equal(threads[0].parent_thread_id, null)
    for (const thread of threads) {
      const found = await sessions.threads.retrieve(thread.id, { session_id: session.id })
      assert.deepEqual(keep("BetaManagedAgentsSessionThread", found), thread)
      assert.ok((await all(sessions.threads.events.list(thread.id, { session_id: session.id }))).length > 0)
    }
    const tail = await sessions.threads.events.stream(threads[1].id, { session_id: session.id })
    const [last] = await append(session.id, { ...endTurn, session_thread_id: threads[1].id })
    for await (const event of tail) {
      assert.equal(event.id, last.id)
      break
    }
    keep("BetaManagedAgentsSession", await sessions.retrieve(session.id))
  },

  async toolRunner() {
    const session = await sessions.create({ agent: "a", environment_id: "e" })
    const add = betaTool({
      name: "add",
      description: "Adds",
      inputSchema: { type: "object", properties: { left: { type: "number" }, right: { type: "number" } } },
      run: ({ left, right }) => String(left + right),
    })
    const call = (kind, more) => ({ type: kind, name: "add", input: { left: 2, right: 3 }, ...more })
    const [, asked] = await append(
      session.id,
      call("agent.custom_tool_use"),
      call("agent.tool_use", { evaluated_permission: "ask" }),
    )
    const calls = []
    for await (const one of sessions.events.toolRunner(session.id, { tools: [add], maxIdleMs: 200 })) {
      calls.push([one.event.type, one.posted, one.confirmation])
      const verdict = { type: "user.tool_confirmation", tool_use_id: asked.id, result: "allow" }
      if (calls.length === 1) await sessions.events.send(session.id, { events: [verdict] })
      if (calls.length === 2) await append(session.id, endTurn)
    }
    assert.deepEqual(calls, [
      ["agent.custom_tool_use", true, undefined],
      ["agent.tool_use", true, "allow"],
    ])
    const results = await all(sessions.events.list(session.id, { types: ["user.tool_result", "user.custom_tool_result"] }))
    assert.deepEqual(results.map((one) => one.content), [text("5"), text("5")])
  },

  async errors(_, session) {
    const refused = async (call, kind, status, type) =>
      assert.rejects(call, (error) => {
        assert.ok(error instanceof kind, `${error}`)
        assert.deepEqual([error.status, error.type], [status, type])
        assert.match(error.requestID, /^req_/)
        return true
      })
    const as = (key) => new Anthropic({ baseURL, apiKey: key, maxRetries: 0 }).beta.sessions
    const bad = { events: [{ type: "user.message" }] }
    await refused(sessions.events.send(session.id, bad), Anthropic.BadRequestError, 400, "invalid_request_error")
    await refused(as("nobody").list(), Anthropic.AuthenticationError, 401, "authentication_error")
    await refused(as(reader).delete(session.id), Anthropic.PermissionDeniedError, 403, "permission_error")
    await refused(sessions.retrieve("sesn_none"), Anthropic.NotFoundError, 404, "not_found_error")
    await refused(sessions.events.stream("sesn_none"), Anthropic.NotFoundError, 404, "not_found_error")
    const long = { events: [{ type: "user.message", content: text("x".repeat(1_100_000)) }] }
    await refused(sessions.events.send(session.id, long), Anthropic.APIError, 413, "request_too_large")
    const tooFast = async () => {
      for (let tries = 0; tries < 10; tries++) await as(slow).list() // each worker may let one through
    }
    await refused(tooFast(), Anthropic.RateLimitError, 429, "rate_limit_error")
  },

  async deleted() {
    const session = await sessions.create({ agent: "a", environment_id: "e" })
    const stream = await sessions.events.stream(session.id)
    assert.deepEqual(await sessions.delete(session.id), { id: session.id, type: "session_deleted" })
    const last = await all(stream)
    assert.deepEqual(last.map((event) => event.type), ["session.deleted"])
    keep("BetaManagedAgentsSessionEvent", last[0])
  },
}

await steps.environments()
const agent = await steps.agents()
const session = await steps.sessions(agent)
await steps.events(session)
await steps.toolRunner()
await steps.errors(agent, session)
await steps.deleted()
console.log(JSON.stringify(wire))
process.exit(0)
