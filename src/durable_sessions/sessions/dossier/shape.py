"""The shape of a dossier as it is shown."""

from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.schema_notes import Offset, about
from durable_sessions.sessions.dossier.kinds import DossierKind

FORMAT = "durable-sessions-dossier/1"


class DossierRef(msgspec.Struct, frozen=True):
    """An event of the family: its id, and the session that it was appended to.

    If that session was deleted, it is one that inherited the event.
    """

    session: str
    id: str


class DossierSection(msgspec.Struct):
    """What the events say about one matter."""

    items: Annotated[list[dict[str, Any]], about("Each with the `refs` that it rests on.")]


class SessionDossier(msgspec.Struct):
    """What a family of sessions has to show for itself."""

    format: Annotated[str, about("`durable-sessions-dossier/1`.")]
    kind: DossierKind
    session: str
    offset: Offset
    complete: Annotated[bool, about("Whether every required section and question has an item.")]
    missing: Annotated[list[str], about("The required sections and questions without one.")]
    questions: Annotated[
        dict[str, list[DossierRef]],
        about("The events that answer: task, environment, workflow, tools, sandbox, memory and validation."),
    ]
    sections: dict[str, DossierSection]
    graph: Annotated[dict[str, Any], about("The graph of the family.")]
    principals: Annotated[
        Literal["keys", "declared"],
        about(
            "`declared` if part of it is older than the first key: principals are who they said they were."
        ),
    ]
