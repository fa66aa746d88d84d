"""Failures, in words that a model can act upon."""

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from mcp import MCPError
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import INVALID_PARAMS

from durable_sessions.client.errors import ApiError, ClientError, ConnectionFailedError

P = ParamSpec("P")
T = TypeVar("T")


def no_session(session_id: str) -> ToolError:
    """Return the failure for a session that is not there, or that the agent may not see: nobody can tell."""
    return ToolError(f"There is no session {session_id!r}. list_sessions names those there are.")


def explained_to_model(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Tell the model why a tool failed; other exceptions reach it without their reason."""

    @functools.wraps(tool)
    async def wrapped(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return await tool(*arguments, **keywords)
        except ConnectionFailedError as error:
            raise ToolError(f"The server of sessions does not answer: {error.reason}. Try later.") from error
        except ApiError as error:
            raise ToolError(error.message) from error
        except (ClientError, ValueError) as error:
            raise ToolError(str(error)) from error

    return wrapped


def explained_to_host(prompt: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Tell the application why a prompt failed: there is no model yet that could read it."""
    named = explained_to_model(prompt)

    @functools.wraps(prompt)
    async def wrapped(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return await named(*arguments, **keywords)
        except ToolError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error

    return wrapped
