"""Which event changes a slot: the same answer as by looking at all of them."""

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.sessions.slot_cover import SlotCover
from durable_sessions.sessions.slots import SlotWish

_texts = st.text("ab/\U0010ffff", max_size=4)
_wishes = st.builds(
    SlotWish,
    st.lists(_texts.filter(bool), max_size=2).map(tuple),
    st.none() | _texts,
    st.just(True),
)


@given(st.lists(_wishes, max_size=8), st.lists(_texts, max_size=8))
def test_a_slot_is_covered_if_an_event_names_it_or_its_beginning(
    wishes: list[SlotWish], names: list[str]
) -> None:
    cover: SlotCover[int] = SlotCover()
    for index, wish in enumerate(wishes):
        cover.add(wish, index)
    for name in names:
        changing = [
            index
            for index, wish in enumerate(wishes)
            if name in wish.names or (wish.prefix is not None and name.startswith(wish.prefix))
        ]
        found = cover.get(name)
        assert found in changing if changing else found is None
