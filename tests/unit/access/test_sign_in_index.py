"""Sign-ins of browsers are found by their key and by their age."""

from durable_sessions.access.key import KeyDocument, LiveKey
from durable_sessions.access.sign_in_index import SignInIndex


def key(name: str, parent: str | None) -> LiveKey:
    document = KeyDocument(
        id=name,
        workspace="w",
        principal="p",
        role="reader",
        digest="00",
        created_at_ms=0,
        created_by="p",
        parent=parent,
    )
    return LiveKey(document, 0)


def names(keys: list[LiveKey]) -> list[str]:
    return [one.document.id for one in keys]


def test_sign_ins_are_found_by_key_and_by_age() -> None:
    made = [key("a", None), key("a1", "a"), key("b1", "b"), key("a2", "a")]
    index = SignInIndex(made)
    assert names(index.of("a")) == ["a1", "a2"]
    assert names(index.of("c")) == []
    assert names(index.oldest(2)) == ["a1", "b1"]
    for one in made:
        index.remove(one)
        index.remove(one)
    assert names(index.of("a")) == names(index.oldest(9)) == []
