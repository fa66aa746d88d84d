"""Importers: turn the session files of other tools into events.

``claude_code``, ``codex``, ``opencode`` and the others read the records of one tool and map them to events:
they open files, but never connect to a server. ``engine`` sends the events to a ``Destination``.
"""
