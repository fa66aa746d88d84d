"""Answers to deletions."""

from typing import Literal

import msgspec


class SessionDeleted(msgspec.Struct):
    """A session is gone."""

    id: str
    type: Literal["session_deleted"]


class EnvironmentDeleted(msgspec.Struct):
    """An environment is gone."""

    id: str
    type: Literal["environment_deleted"]


class ResourceDeleted(msgspec.Struct):
    """A resource is detached."""

    id: str
    type: Literal["session_resource_deleted"]


class MemoryStoreDeleted(msgspec.Struct):
    """A memory store is gone, with all that it held."""

    id: str
    type: Literal["memory_store_deleted"]


class MemoryDeleted(msgspec.Struct):
    """A memory is deleted; its versions stay."""

    id: str
    type: Literal["memory_deleted"]
