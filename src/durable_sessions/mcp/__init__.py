"""The Model Context Protocol: an agent reads its own past, and that of other sessions, as tools.

It is a client of the HTTP interface like any other, and runs beside the agent (``ds mcp``). It needs the
extra ``durable-sessions[mcp]``.
"""
