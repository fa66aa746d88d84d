"""The events that clients of Anthropic's API may send, and their required members."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from durable_sessions.errors import InvalidEventError
from durable_sessions.json_problems import problem
from durable_sessions.sessions.drafts import Draft

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _ImageBlock(msgspec.Struct, tag_field="type", tag="image"):
    source: dict[str, msgspec.Raw]


class _DocumentBlock(msgspec.Struct, tag_field="type", tag="document"):
    source: dict[str, msgspec.Raw]


class _SearchResultBlock(msgspec.Struct, tag_field="type", tag="search_result"):
    source: msgspec.Raw
    title: str
    content: list[msgspec.Raw]


_Content = list[_TextBlock | _ImageBlock | _DocumentBlock]
_Result = list[_TextBlock | _ImageBlock | _DocumentBlock | _SearchResultBlock]


class _Message(msgspec.Struct):
    content: Annotated[_Content, msgspec.Meta(min_length=1)]


class _Interrupt(msgspec.Struct):
    session_thread_id: str | None = None


class _Confirmation(msgspec.Struct):
    tool_use_id: _Text
    result: Literal["allow", "deny"]
    deny_message: str | None = None


class _CustomResult(msgspec.Struct):
    custom_tool_use_id: _Text
    content: _Result | None = None
    is_error: bool | None = None


class _ToolResult(msgspec.Struct):
    tool_use_id: _Text
    content: _Result | None = None
    is_error: bool | None = None


class _TextRubric(msgspec.Struct, tag_field="type", tag="text"):
    content: str


class _FileRubric(msgspec.Struct, tag_field="type", tag="file"):
    file_id: str


class _Outcome(msgspec.Struct):
    description: _Text
    rubric: _TextRubric | _FileRubric
    max_iterations: Annotated[int, msgspec.Meta(ge=1, le=20)] | None = None


class _SystemMessage(msgspec.Struct):
    content: Annotated[list[_TextBlock], msgspec.Meta(min_length=1)]


SHAPES: dict[str, msgspec.json.Decoder[object]] = {
    kind: msgspec.json.Decoder(shape)
    for kind, shape in [
        ("user.message", _Message),
        ("user.interrupt", _Interrupt),
        ("user.tool_confirmation", _Confirmation),
        ("user.custom_tool_result", _CustomResult),
        ("user.tool_result", _ToolResult),
        ("user.define_outcome", _Outcome),
        ("system.message", _SystemMessage),
    ]
}
_INITIAL_EVENTS_MAX = 50  # as in Anthropic's API
_BEFORE_SYSTEM_MESSAGE = {"user.message", "user.tool_result", "user.custom_tool_result"}


def check(drafts: Sequence[Draft]) -> None:
    """Refuse client events that Anthropic's API would refuse; all other types are accepted."""
    for index, draft in enumerate(drafts):
        if draft.type not in SHAPES:
            if draft.type.startswith("user."):
                known = ", ".join(sorted(kind for kind in SHAPES if kind.startswith("user.")))
                raise _wrong(index, f"{draft.type} is not known; send one of {known}")
            continue
        try:
            shape = SHAPES[draft.type].decode(draft.body)
        except msgspec.ValidationError as error:
            raise _wrong(index, f"{draft.type}: {problem(error, SHAPES[draft.type].type)}") from None
        except msgspec.DecodeError:
            continue  # a lone surrogate: the decoder refuses it, but it is stored as it came
        if isinstance(shape, _Confirmation) and shape.deny_message is not None and shape.result != "deny":
            raise _wrong(index, "deny_message goes only with result deny")
        if draft.type == "system.message" and not _follows(drafts, index):
            raise _wrong(index, "system.message comes last, right after user.message or a tool result")


def check_initial(drafts: Sequence[Draft]) -> None:
    """Refuse events that a session cannot begin with."""
    for index, draft in enumerate(drafts):
        if draft.type not in ("user.message", "user.define_outcome"):
            raise _wrong(index, "initial_events may hold user.message and user.define_outcome only")
    if len(drafts) > _INITIAL_EVENTS_MAX:
        most = _INITIAL_EVENTS_MAX
        raise _wrong(most, f"initial_events may hold at most {most} events")
    check(drafts)


def _follows(drafts: Sequence[Draft], index: int) -> bool:
    return index == len(drafts) - 1 and index > 0 and drafts[index - 1].type in _BEFORE_SYSTEM_MESSAGE


def _wrong(index: int, problem: str) -> InvalidEventError:
    return InvalidEventError(problem=f"{problem}.", index=index)
