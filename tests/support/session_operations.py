"""Operations on a few sessions, as Hypothesis draws them for the machines that compare with a model."""

from hypothesis import strategies as st

NAMES = ["a", "b", "c"]
SLOTS = ["h", "w/1", "w/2", "w/é", "wx", "\U0010ffff"]
PREFIXES = ["", "w", "w/", "\U0010ffff", "z"]
USED_MAX = 5
"""How many slots a session may use in the machines, so that the bound is met."""

_names = st.sampled_from(NAMES)
_slots = st.sampled_from(SLOTS)
_empty = st.sampled_from(["keep", "drop"])
_row = st.just("row")
_events = st.one_of(
    st.fixed_dictionaries({"type": _row, "slot": _slots | st.lists(_slots, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"type": _row, "slot": _slots, "slot_empty": _empty}),
    st.fixed_dictionaries({"type": _row, "slot_prefix": st.sampled_from(PREFIXES), "slot_empty": _empty}),
    st.fixed_dictionaries({"type": _row}),
    st.fixed_dictionaries({"type": _row, "slot": _slots, "id": st.sampled_from(["x", "y"])}),
    st.fixed_dictionaries({"type": st.just("user.message"), "slot": _slots}),
)
_wishes = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "slots": st.dictionaries(_slots, st.none() | st.integers(0, 6), max_size=2),
        "tail": st.integers(0, 6),
        "exists": st.booleans(),
        "same_life": st.booleans(),
    },
)

creations = st.tuples(st.just("creation"), _names, st.none() | _names, st.none() | st.integers(0, 6))
appends = st.tuples(st.just("appending"), _names, st.lists(_events, max_size=3), _wishes)
deletions = st.tuples(st.just("deletion"), _names)
redactions = st.tuples(st.just("redaction"), _names, st.sets(st.integers(0, 8), min_size=1, max_size=3))
_few = st.sampled_from(SLOTS[:3])
_holding = st.fixed_dictionaries({"type": _row, "slot": _few | st.lists(_few, min_size=2, max_size=2)})
_dropping = st.fixed_dictionaries({"type": _row, "slot": _few, "slot_empty": st.just("drop")})


def _on_one(name: str) -> st.SearchStrategy[list[tuple[object, ...]]]:
    one = st.one_of(
        st.tuples(st.just("appending"), st.just(name), st.lists(_holding, min_size=1, max_size=2), st.none()),
        st.tuples(
            st.just("appending"), st.just(name), st.lists(_dropping, min_size=1, max_size=1), st.none()
        ),
        st.tuples(st.just("appending"), st.just(name), st.tuples(_holding, _dropping).map(list), st.none()),
        st.tuples(st.just("creation"), _names, st.just(name), st.none()),
        st.tuples(st.just("redaction"), st.just(name), st.sets(st.integers(0, 4), min_size=1, max_size=1)),
    )
    return st.lists(one, min_size=3, max_size=6)


lives = _names.flatmap(_on_one)
"""Several operations on one session and few slots: what is held, forked and dropped soon meets."""
operations = creations | appends | appends | deletions | redactions
