"""The types of strict events for the client, made from the structs that the server checks them with.

The client knows the wire and never the engine, so it cannot import these structs: it has a module of its own,
of ``TypedDict``s, that a test compares with them.
"""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from durable_sessions.sessions.graph import schemas

MODULE = Path(__file__).parents[1] / "src" / "durable_sessions" / "client" / "strict_events.py"
_HEAD = '''\
"""The events that the server checks, as types: what to append, and what it writes itself.

Made by ``python -m tools.reference`` from the structs of the server. docs/reference/events.md has the rules.
"""

from collections.abc import Mapping
from typing import Any, Literal, Required, TypedDict
'''
_WORDS = {str: "str", int: "int", float: "float", bool: "bool", msgspec.Raw: "Any"}
_COLUMNS_MAX = 110


def client_module() -> str:
    """Return the source of the module."""
    chosen = [name for name, value in vars(schemas).items() if get_origin(value) is Literal]
    nested = list(_nested())
    sent = [shape for shape in schemas.TYPES.values() if not shape.is_servers]
    written = [shape for shape in schemas.TYPES.values() if shape.is_servers]
    parts = [
        _HEAD,
        *(_alias(name, vars(schemas)[name]) for name in chosen if name != "Imported"),
        "",
        *(_typed_dict(_nested_name(shape), shape, None) for shape in nested),
        *(_typed_dict(_event_name(shape), shape, kind) for kind, shape in schemas.TYPES.items()),
        _union("StrictEvent", sent, "An event that a client sends."),
        _union("ServerEvent", written, "An event that only the server writes."),
    ]
    return "\n".join(parts)


def _nested() -> Iterator[type[msgspec.Struct]]:
    """Yield the structs inside of events, each once, before those that have it."""
    seen: dict[type[msgspec.Struct], None] = {}

    def look(hint: Any) -> None:
        for one in get_args(hint):
            look(one)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in seen:
            for field in msgspec.structs.fields(hint):
                look(field.type)
            seen[hint] = None

    for shape in schemas.TYPES.values():
        for field in msgspec.structs.fields(shape):
            look(field.type)
    yield from seen


def _event_name(shape: type[msgspec.Struct]) -> str:
    return f"{shape.__name__}Event"


def _nested_name(shape: type[msgspec.Struct]) -> str:
    return f"{shape.__name__}Fields"


def _typed_dict(name: str, shape: type[msgspec.Struct], kind: str | None) -> str:
    fields = {field.encode_name: _member(field) for field in msgspec.structs.fields(shape)}
    if kind is not None:
        fields = {"type": f'Required[Literal["{kind}"]]', **{k: v for k, v in fields.items() if k != "type"}}
    about = (shape.__doc__ or "").partition("\n")[0]
    if all(field.isidentifier() and field != "from" for field in fields):
        lines = [f"    {field}: {hint}" for field, hint in fields.items()]
        return f'\nclass {name}(TypedDict, total=False):\n    """{about}"""\n\n' + "\n".join(lines) + "\n"
    lines = [f'        "{field}": {hint},' for field, hint in fields.items()]
    return (
        f"\n{name} = TypedDict(\n"
        f'    "{name}",\n    {{\n' + "\n".join(lines) + f'\n    }},\n    total=False,\n)\n"""{about}"""\n'
    )


def _member(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return f"Required[{_hint(field.type)}]"
    # What is None by default is left out; elsewhere a null says something.
    return _hint(field.type, null=field.default is not None)


def _hint(hint: Any, *, null: bool = True) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        return _hint(hint.__origin__, null=null)
    if origin in (Union, UnionType):
        words = [_hint(one) for one in get_args(hint) if one not in (msgspec.UnsetType, NoneType)]
        if "float" in words and "int" in words:
            words.remove("int")  # for a type checker an int is a float
        if NoneType in get_args(hint) and null:
            words.append("None")
        return " | ".join(dict.fromkeys(words))
    if origin is Literal:
        named = (name for name, value in vars(schemas).items() if value == hint)
        return next(named, f"Literal[{', '.join(map(repr, get_args(hint)))}]").replace("'", '"')
    if origin is list:
        return f"list[{_hint(get_args(hint)[0])}]"
    if origin is dict:
        return f"Mapping[str, {_hint(get_args(hint)[1])}]"
    return _nested_name(hint) if issubclass(hint, msgspec.Struct) else _WORDS[hint]


def _alias(name: str, value: Any) -> str:
    words = [f'"{word}"' for word in get_args(value)]
    short = f"{name} = Literal[{', '.join(words)}]"
    if len(short) <= _COLUMNS_MAX:
        return short
    inside = ", ".join(words)
    if len(inside) + 4 <= _COLUMNS_MAX:
        return f"{name} = Literal[\n    {inside}\n]"
    return f"{name} = Literal[\n" + "".join(f"    {word},\n" for word in words) + "]"


def _union(name: str, shapes: list[type[schemas.StrictEvent]], about: str) -> str:
    names = [_event_name(shape) for shape in shapes]
    return f"\n{name} = (\n    " + "\n    | ".join(names) + f'\n)\n"""{about}"""\n'
