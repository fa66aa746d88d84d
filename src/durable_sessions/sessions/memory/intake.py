"""Takes what another partition owes to a memory scope: records of its log, and erasures."""

from durable_sessions.errors import InvalidRequestError
from durable_sessions.limits import Limits
from durable_sessions.sessions.memory import erasing
from durable_sessions.sessions.memory.records import FOLDER, scope_of
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.streams import outbox_intake
from durable_sessions.streams.effects import Effect, ScopeCreated
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.state import State


async def take(scopes: Scopes, record: OwedRecord, limits: Limits) -> None:
    """Take a record, each once, however often it is delivered; on return that is durable."""
    if record.target.folder != FOLDER:
        raise InvalidRequestError(problem=f"There is no memory scope at {record.target.path}.")
    if erasing.is_owed(record.data):
        await _erase(scopes, record, limits)
    else:
        await scopes.streams.commit(
            lambda state, now_ms: (outbox_intake.take(state, record, now_ms, ScopeCreated), None)
        )


async def _erase(scopes: Scopes, record: OwedRecord, limits: Limits) -> None:
    """Erase a record; once more changes nothing, so that no number has to be kept."""
    workspace, scope = record.target.workspace, scope_of(record.target)
    owed = erasing.OWED.decode(record.data)
    target = await erasing.found(scopes, workspace, scope, owed.incarnation, owed.id)
    if target is None:
        return
    wanted = target

    def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
        return erasing.effects(state, wanted, owed.mark, owed.by, now_ms, limits), None

    await scopes.streams.commit(decide)
