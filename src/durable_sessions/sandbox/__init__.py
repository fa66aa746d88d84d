"""Places in which an agent's commands run: on this machine, in a container, or at a service.

A backend opens sandboxes, and a sandbox runs commands; ``backend("local")`` finds one by its name. A sandbox
never gets a key of the server: what a command found out is appended by the harness.
"""

from durable_sessions.sandbox.backends import backend
from durable_sessions.sandbox.errors import (
    SandboxBoundError,
    SandboxClosedError,
    SandboxError,
    SandboxLostError,
    SandboxOpenError,
    SandboxPathError,
    SandboxUnsupportedError,
)
from durable_sessions.sandbox.sandbox import Backend, Sandbox
from durable_sessions.sandbox.spec import Result, SandboxSpec

__all__ = [
    "Backend",
    "Result",
    "Sandbox",
    "SandboxBoundError",
    "SandboxClosedError",
    "SandboxError",
    "SandboxLostError",
    "SandboxOpenError",
    "SandboxPathError",
    "SandboxSpec",
    "SandboxUnsupportedError",
    "backend",
]
