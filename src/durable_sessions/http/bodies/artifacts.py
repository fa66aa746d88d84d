"""Answers about artifacts."""

import msgspec

from durable_sessions.schema_notes import Whole


class StoredArtifact(msgspec.Struct):
    """An artifact that is in the bucket."""

    sha256: str
    bytes: Whole
    content_type: str
