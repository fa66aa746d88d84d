"""Quotas: how much one workspace may store, checked before anything is added."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from durable_sessions.errors import QuotaExceededError
from durable_sessions.storage.counts import WorkspaceHeld
from durable_sessions.streams.effects import (
    Effect,
    Linked,
    RecordsAppended,
    StreamCreated,
    StreamRemoved,
    SubscriptionCreated,
    Woken,
)
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import SYSTEM_WORKSPACE
from durable_sessions.streams.subscriptions import SUBSCRIPTION_BYTES, link_bytes

Refused = Callable[[str, QuotaExceededError], None]


class Quotas:
    """The same quotas for every workspace; 0 means unlimited. The server's own streams are exempt.

    Bytes are those of records, of artifacts and of subscriptions with their links. What the server adds by
    itself (wake events, and links found by a pattern) is counted but never refused. ``refused`` is called
    for each refusal.

    What a workspace holds in other partitions counts as it was heard last. So a quota can be exceeded by what
    several partitions admit until they have heard of each other.
    """

    def __init__(self, streams_max: int = 0, bytes_max: int = 0) -> None:
        self._streams_max = streams_max
        self._bytes_max = bytes_max
        self._artifact_bytes: Counter[str] = Counter()
        self._heard: dict[int, dict[str, WorkspaceHeld]] = {}
        self.state: State
        self.refused: Refused = lambda workspace, error: None

    @property
    def bounded(self) -> bool:
        """Whether there is any quota, so that usage has to be tracked."""
        return bool(self._streams_max or self._bytes_max)

    @property
    def bytes_bounded(self) -> bool:
        """Whether there is a quota on bytes, so that artifacts have to be counted."""
        return bool(self._bytes_max)

    def check(self, state: State, effects: Sequence[Effect]) -> None:
        """Refuse effects that would exceed a workspace's quota."""
        streams: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        created: dict[int, str] = {}
        for effect in effects:
            if isinstance(effect, RecordsAppended):
                number = effect.stream
                sizes[created[number] if number in created else _workspace(state, number)] += len(effect.data)
            elif isinstance(effect, StreamCreated):
                created[effect.stream] = effect.workspace
                streams[effect.workspace] += 1
            elif isinstance(effect, StreamRemoved):
                if not effect.soft:
                    streams[_workspace(state, effect.stream)] -= 1
            elif isinstance(effect, SubscriptionCreated):
                sizes[effect.workspace] += len(effect.config) + SUBSCRIPTION_BYTES
            elif isinstance(effect, Linked):
                # Links found by a pattern are added by the server itself.
                named = [path for path, explicit, *_ in effect.links if explicit]
                sizes[effect.workspace] += sum(map(link_bytes, named))
            elif isinstance(effect, Woken):
                return  # the server's own doing: a wake and its event are never refused
        for workspace, count in streams.items():
            self._require_streams(state, workspace, count)
        for workspace, size in sizes.items():
            self._require_bytes(state, workspace, size)

    def reserve(self, state: State, workspace: str, size: int) -> None:
        """Count an artifact that is about to be stored, or refuse it."""
        self._require_bytes(state, workspace, size)
        self._artifact_bytes[workspace] += size

    def release(self, workspace: str, size: int) -> None:
        """Undo a reservation: nothing was stored."""
        self._artifact_bytes[workspace] -= size

    def forget_artifact(self, workspace: str, size: int) -> None:
        """Stop counting a deleted artifact; without a quota on bytes not all were counted."""
        self._artifact_bytes[workspace] = max(0, self._artifact_bytes[workspace] - size)

    def count_artifact(self, workspace: str, size: int) -> None:
        """Count an artifact that exists already."""
        self._artifact_bytes[workspace] += size

    def held_bytes(self, state: State, workspace: str) -> int:
        """Return the bytes that a workspace holds: records, artifacts and subscriptions."""
        return self._held_bytes_here(state, workspace) + self._elsewhere(workspace).held_bytes

    def _held_bytes_here(self, state: State, workspace: str) -> int:
        records = 0 if state.usages is None else state.usages.of(workspace).record_bytes
        return records + self._artifact_bytes[workspace] + state.subscriptions.bytes_of(workspace)

    # Other partitions -------------------------------------------------------------------

    def held_here(self) -> dict[str, WorkspaceHeld]:
        """Return what each workspace holds in this partition, without those that hold nothing."""
        usages = {} if self.state.usages is None else self.state.usages.known()
        names = {*usages, *self._artifact_bytes, *self.state.subscriptions.workspaces()} - {SYSTEM_WORKSPACE}
        held = {
            name: WorkspaceHeld(
                usages[name].streams if name in usages else 0, self._held_bytes_here(self.state, name)
            )
            for name in names
        }
        return {name: one for name, one in held.items() if any(one)}

    def hear(self, partition: int, changes: Mapping[str, WorkspaceHeld]) -> None:
        """Take what workspaces hold in another partition now."""
        heard = self._heard.setdefault(partition, {})
        for workspace, held in changes.items():
            if any(held):
                heard[workspace] = held
            else:
                heard.pop(workspace, None)

    def forget_heard(self, partition: int) -> None:
        """Forget what another partition has said."""
        self._heard.pop(partition, None)

    def _elsewhere(self, workspace: str) -> WorkspaceHeld:
        heard = [found[workspace] for found in self._heard.values() if workspace in found]
        return WorkspaceHeld(sum(one.streams for one in heard), sum(one.held_bytes for one in heard))

    def _require_streams(self, state: State, workspace: str, more: int) -> None:
        if not self._streams_max or more <= 0 or workspace == SYSTEM_WORKSPACE or state.usages is None:
            return
        held = state.usages.of(workspace).streams + self._elsewhere(workspace).streams
        if held + more > self._streams_max:
            self._refuse(workspace, self._streams_max, "streams", "workspace_streams")

    def _require_bytes(self, state: State, workspace: str, more: int) -> None:
        if not self._bytes_max or not more or workspace == SYSTEM_WORKSPACE:
            return
        if self.held_bytes(state, workspace) + more > self._bytes_max:
            self._refuse(workspace, self._bytes_max, "stored bytes", "workspace_bytes")

    def _refuse(self, workspace: str, most: int, what: str, setting: str) -> None:
        error = QuotaExceededError(most=most, what=what, setting=setting)
        self.refused(workspace, error)
        raise error


def _workspace(state: State, number: int) -> str:
    stream = state.get_id(number)
    assert stream is not None, "effects name streams that exist"
    return stream.key.workspace
