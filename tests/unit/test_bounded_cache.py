"""A cache that is bounded in bytes, as by ``registry_cache_bytes_max``."""

from durable_sessions.bounded_cache import BoundedCache


def sized(bytes_max: int) -> BoundedCache[str, bytes]:
    return BoundedCache(bytes_max, lambda key, value: len(key) + len(value))


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    cache = sized(9)
    for key in "abc":
        cache.put(key, b"xx")
    assert (len(cache), cache.bytes_held) == (3, 9), "at the bound"
    assert cache.get("a") == b"xx"
    cache.put("d", b"x")
    assert [cache.get(key) for key in "abcd"] == [b"xx", None, b"xx", b"x"], "one past it"
    assert cache.bytes_held == 8


def test_a_value_that_is_replaced_counts_once() -> None:
    cache = sized(9)
    cache.put("a", b"xxxxxx")
    cache.put("a", b"x")
    assert (cache.get("a"), cache.bytes_held) == (b"x", 2)
    cache.drop("a")
    cache.drop("a")
    assert (len(cache), cache.bytes_held) == (0, 0)


def test_a_value_that_is_too_large_is_not_remembered() -> None:
    cache = sized(9)
    cache.put("a", b"xxxxxxxxx")
    assert (len(cache), cache.bytes_held, cache.get("a")) == (0, 0, None)
