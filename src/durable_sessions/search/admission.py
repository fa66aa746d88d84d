"""Limits how many searches run at a time, in total and for one key."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from durable_sessions.errors import SearchUnavailableError, ShareExceededError
from durable_sessions.limits import Limits


class SearchAdmission:
    """Admits searches up to a limit; refusing one costs nothing."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_key: Counter[str] = Counter()
        self.under_way = 0
        self.refused = 0

    @contextmanager
    def enter(self, key_id: str | None) -> Iterator[None]:
        """Count a search of a key while it runs; without keys all callers share the total."""
        self._require(key_id)
        self.under_way += 1
        if key_id is not None:
            self._by_key[key_id] += 1
        try:
            yield
        finally:
            self.under_way -= 1
            if key_id is not None:
                self._by_key[key_id] -= 1
                if not self._by_key[key_id]:
                    del self._by_key[key_id]

    def _require(self, key_id: str | None) -> None:
        per_key, total = self._limits.searches_per_key_max, self._limits.searches_max
        if key_id is not None and self._by_key[key_id] >= per_key:
            self.refused += 1
            raise ShareExceededError(what="searches", limit="searches_per_key_max")
        if self.under_way >= total:
            self.refused += 1
            raise SearchUnavailableError(reason=f"{total} searches are under way")
