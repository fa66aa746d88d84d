"""Who sent a request, and what that allows."""

from enum import IntEnum
from typing import NamedTuple

from durable_sessions.errors import ForbiddenError


class Role(IntEnum):
    """What a key may do; each role may do all that the ones before it may.

    A reader reads. A writer also creates, appends, changes, closes and deletes. An evaluator is a writer
    whose judgement counts. An admin also manages the workspace's keys and reads its audit record.
    """

    READER = 1
    WRITER = 2
    EVALUATOR = 3
    ADMIN = 4

    @property
    def label(self) -> str:
        """The role as it is written in requests and answers."""
        return self.name.lower()


ROLES = {role.label: role for role in Role}


class Caller(NamedTuple):
    """Who sent a request; the workspace comes from the key and from nothing else.

    ``key_id`` is None where no key is needed.
    """

    workspace: str
    principal: str
    role: Role
    key_id: str | None

    def require(self, role: Role) -> None:
        """Refuse a caller whose role is lower."""
        if self.role < role:
            raise ForbiddenError(
                problem=f"This needs a key with the role {role.label}; the key of {self.principal} has the "
                f"role {self.role.label}. Ask an admin of the workspace for another key."
            )
