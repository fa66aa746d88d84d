"""Durable Sessions: the append-only event log for AI agents."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_sessions.client import AsyncClient, Client

__version__ = "0.5.0"
__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the client when it is asked for: the server has no use for it."""
    if name in ("AsyncClient", "Client"):
        from durable_sessions import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
