"""The sign-ins of browsers among the keys of a table, by the key they were made with and by their age."""

from collections.abc import Iterable
from itertools import islice

from durable_sessions.access.key import LiveKey


class SignInIndex:
    """Finds sign-ins without a look at every key: a key may have dozens of them, and there are many keys."""

    def __init__(self, keys: Iterable[LiveKey] = ()) -> None:
        self._all: dict[str, LiveKey] = {}
        self._by_parent: dict[str, dict[str, LiveKey]] = {}
        for key in keys:
            self.add(key)

    def __len__(self) -> int:
        """Return how many sign-ins there are."""
        return len(self._all)

    def add(self, key: LiveKey) -> None:
        """Note a key, if it is a sign-in; the newest comes last."""
        document = key.document
        if document.parent is not None:
            self._all[document.id] = key
            self._by_parent.setdefault(document.parent, {})[document.id] = key

    def remove(self, key: LiveKey) -> None:
        """Forget a key, if it is a sign-in."""
        document = key.document
        if document.parent is None or self._all.pop(document.id, None) is None:
            return
        siblings = self._by_parent[document.parent]
        del siblings[document.id]
        if not siblings:
            del self._by_parent[document.parent]

    def of(self, parent_id: str) -> list[LiveKey]:
        """Return the sign-ins that were made with a key, oldest first."""
        return list(self._by_parent.get(parent_id, {}).values())

    def oldest(self, count: int) -> list[LiveKey]:
        """Return this many of all sign-ins, oldest first."""
        return list(islice(self._all.values(), count))
