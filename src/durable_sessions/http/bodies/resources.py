"""Resources in requests and answers; they are kept as they came, so these structs describe them only."""

from typing import Annotated

import msgspec

from durable_sessions.schema_notes import Time, about


class NewResource(msgspec.Struct):
    """A resource in a request."""

    type: Annotated[str, about("`file`, `github_repository`, `memory_store`, or one of your own.")]
    file_id: Annotated[str | msgspec.UnsetType, about("Required of a `file`.")] = msgspec.UNSET
    url: Annotated[str | msgspec.UnsetType, about("Required of a `github_repository`.")] = msgspec.UNSET
    memory_store_id: Annotated[str | msgspec.UnsetType, about("Required of a `memory_store`.")] = (
        msgspec.UNSET
    )
    mount_path: Annotated[str | msgspec.UnsetType, about("Made by the server if absent.")] = msgspec.UNSET


class ResourceObject(msgspec.Struct):
    """A resource in an answer.

    A resource as it was given, without secrets, with an id, its times and a `mount_path`.
    """

    type: str
    id: Annotated[str | msgspec.UnsetType, about("Not of a memory store.")] = msgspec.UNSET
    created_at: Time | msgspec.UnsetType = msgspec.UNSET
    updated_at: Time | msgspec.UnsetType = msgspec.UNSET


class ResourceUpdate(msgspec.Struct):
    """A new secret of a resource."""

    authorization_token: str | msgspec.UnsetType = msgspec.UNSET
