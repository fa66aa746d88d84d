"""Importers: what other agents left on disk, as events of sessions.

``claude_code``, ``codex``, ``opencode`` and the others read one maker's records and say which events they
are: they open files, but never speak to a server. ``engine`` carries the events to a ``Destination``.
"""
