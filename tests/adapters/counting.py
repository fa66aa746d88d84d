"""How much a plan asks of the server."""

from dataclasses import dataclass
from typing import Any

from durable_sessions import Client
from durable_sessions.adapters._plans import carry_out


@dataclass
class Asked:
    """The result of a plan, with how many requests it made, and how many items their answers had."""

    result: Any
    requests: int = 0
    items: int = 0


def asked(plan: Any, client: Client) -> Asked:
    """Carry a plan out and count."""
    counted = Asked(None)

    def steps() -> Any:
        answer = None
        while True:
            try:
                step = plan.send(answer)
            except StopIteration as done:
                return done.value
            answer = yield step
            counted.requests += 1
            counted.items += len(answer) if isinstance(answer, list) else 1

    counted.result = carry_out(steps(), client)
    return counted
