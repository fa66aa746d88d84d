"""Access to an engine: its keys, its audit record, and the token for the first key."""

from dataclasses import dataclass

from durable_sessions.access.audit import Audit
from durable_sessions.access.key_store import KeyStore
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import Clock
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.settings import Settings
from durable_sessions.storage.door import Streams


@dataclass(frozen=True, slots=True)
class Access:
    """The keys as the process knows them, and the parts of one partition that depend on them.

    Only the system partition has a ``key_store``.
    """

    keys: KeyTable
    key_store: KeyStore | None
    audit: Audit
    authenticator: Authenticator
    first_key: FirstKey

    @classmethod
    async def open(
        cls,
        partition: Streams,
        keys: KeyTable,
        settings: Settings,
        limits: Limits,
        clock: Clock,
        ids: Ids,
        *,
        is_system: bool = True,
    ) -> "Access":
        """Load all keys into the table, if this is the partition that has them."""
        audit = Audit(partition, clock, limits)
        key_store = KeyStore(partition, keys, audit, clock, ids, limits) if is_system else None
        if key_store is not None:
            await key_store.load()
        first_key = FirstKey(settings.data, ids)
        return cls(keys, key_store, audit, Authenticator(keys, clock, audit), first_key)

    def offer_first_key(self, port: int | None) -> None:
        """Write the token for the first key to the data directory, if there is no key yet."""
        if self.keys.required:
            self.first_key.withdraw()
        else:
            self.first_key.offer(port)
