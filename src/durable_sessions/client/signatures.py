"""Shows the real parameters of methods that pass their keywords on to a request.

The sync and the async client declare such keywords as ``**filters: Unpack[...]``, so that their names, types
and defaults are written once, where the request is built. Type checkers resolve that; ``help()``,
``inspect.signature`` and the completion of notebooks show what this decorator sets.
"""

import inspect
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def keywords_of(request: Callable[..., object], *hidden: str) -> Callable[[F], F]:
    """Return a decorator that shows the keywords of ``request`` for the ``**`` parameter of a method.

    ``hidden`` are keywords that the method sets itself. The method is changed in nothing but its signature.
    """
    keywords = [
        one
        for one in inspect.signature(request).parameters.values()
        if one.kind is one.KEYWORD_ONLY and one.name not in hidden
    ]

    def decorate(method: F) -> F:
        signature = inspect.signature(method)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        shown = signature.replace(parameters=[*own, *keywords])
        method.__signature__ = shown  # type: ignore[attr-defined]  # what inspect looks for first
        return method

    return decorate
