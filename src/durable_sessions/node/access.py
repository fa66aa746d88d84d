"""Access to an engine: the keys, its audit record, and who a caller is."""

from dataclasses import dataclass

from durable_sessions.access.audit import Audit
from durable_sessions.access.browser_sign_ins import BrowserSignIns
from durable_sessions.access.key_store import KeyStore
from durable_sessions.access.key_table import KeyTable
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.node.process_parts import ProcessParts
from durable_sessions.storage.door import Streams


@dataclass(frozen=True, slots=True)
class Access:
    """The keys as the process knows them, and the parts of one partition that depend on them.

    Only the system partition has a ``key_store`` and ``sign_ins``.
    """

    keys: KeyTable
    key_store: KeyStore | None
    sign_ins: BrowserSignIns | None
    audit: Audit
    authenticator: Authenticator

    @classmethod
    async def open(
        cls,
        partition: Streams,
        process: ProcessParts,
        *,
        is_system: bool = True,
    ) -> "Access":
        """Load all keys into the table, if this is the partition that has them."""
        keys, clock, ids, limits = process.keys, process.clock, process.ids, process.limits
        audit = Audit(partition, clock, limits, is_system=is_system)
        key_store = KeyStore(partition, keys, audit, clock, ids, limits) if is_system else None
        sign_ins = BrowserSignIns(partition, keys, audit, clock, ids, limits) if is_system else None
        if key_store is not None:
            await key_store.load()
        return cls(keys, key_store, sign_ins, audit, Authenticator(keys, clock, audit))
