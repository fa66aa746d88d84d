import pytest

from durable_sessions.access.caller import ROLES, Caller, Role
from durable_sessions.errors import ForbiddenError


def test_each_role_may_do_what_the_ones_before_it_may() -> None:
    order = [ROLES[name] for name in ("reader", "writer", "evaluator", "admin")]
    assert order == sorted(Role)
    for given in order:
        caller = Caller("w", "ann", given, "key_1")
        for needed in order:
            if needed <= given:
                caller.require(needed)
            else:
                with pytest.raises(ForbiddenError, match=f"needs a key with the role {needed.label}"):
                    caller.require(needed)
