"""``python -m durable_sessions``: the command line."""

from durable_sessions.cli.main import main

main()
