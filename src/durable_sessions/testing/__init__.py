"""Tools for tests: a real server that starts in a moment, for tests of your own."""

from durable_sessions.testing.server import LocalServer, local_server  # isort: skip  # its name is taken below
from durable_sessions.testing.background import BackgroundServer, server

__all__ = ["BackgroundServer", "LocalServer", "local_server", "server"]
