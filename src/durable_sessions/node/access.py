"""Access to an engine: its keys, its audit record, and the token for the first key."""

from dataclasses import dataclass

from durable_sessions.access.audit import Audit
from durable_sessions.access.keys import Keys
from durable_sessions.clock import Clock
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.first_key import FirstKey
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.settings import Settings
from durable_sessions.storage.door import Streams


@dataclass(frozen=True, slots=True)
class Access:
    """The keys of one partition, and the parts that depend on them."""

    keys: Keys
    audit: Audit
    authenticator: Authenticator
    first_key: FirstKey

    @classmethod
    async def open(
        cls, partition: Streams, settings: Settings, limits: Limits, clock: Clock, ids: Ids
    ) -> "Access":
        """Load all keys, and add the one from the settings, if any."""
        audit = Audit(partition, clock, limits)
        keys = Keys(partition, audit, clock, ids, limits, settings.workspace)
        await keys.load()
        if settings.api_key:
            keys.bootstrap(settings.api_key)
        return cls(keys, audit, Authenticator(keys, clock, audit), FirstKey(settings.data, ids))

    def offer_first_key(self, port: int | None) -> None:
        """Write the token for the first key to the data directory, if there is no key yet."""
        if self.keys.required:
            self.first_key.withdraw()
        else:
            self.first_key.offer(port)
