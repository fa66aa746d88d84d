"""The file by which the first key is made: what the server writes there, and the command line reads."""

import msgspec

FILE = "first-key.json"
HEADER = "Durable-Sessions-First-Key"


class Ticket(msgspec.Struct):
    """The contents of the file; ``port`` is None until the server knows it."""

    token: str
    port: int | None = None
