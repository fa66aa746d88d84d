"""The proof for the first key of a server: a token from its data directory."""

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from durable_sessions.cli.command_errors import CommandError
from durable_sessions.http.api.first_key_file import FILE, HEADER, Ticket
from durable_sessions.node.listen_policy import is_loopback


def proof(url: str, data: Path) -> tuple[str, str] | None:
    """Return the header that proves access to the data directory of a server; None if there is no token.

    The token is never sent to another address or port.
    """
    path = data / FILE
    try:
        ticket = msgspec.json.decode(path.read_bytes(), type=Ticket)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise CommandError(
            f"{path} cannot be read ({error.strerror}). The first key is made by who runs the server: "
            "run this as its user, or give another data directory with --data."
        ) from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be used: {error}. Restart the server.") from error
    # The token opens the server to whoever has it, so that it is shown only to the server that made it.
    parts = urlsplit(url)
    if not is_loopback(parts.hostname or ""):
        raise CommandError(
            f"{url} is not on this machine, and the first key is made on the server's own. Run this there, "
            "with the server's address, such as http://127.0.0.1:4437, in --url."
        )
    if ticket.port not in (None, parts.port or {"http": 80, "https": 443}.get(parts.scheme)):
        raise CommandError(
            f"{data} is served on port {ticket.port}, so that {url} is another server. Use --url "
            f"http://127.0.0.1:{ticket.port}, or give the data directory of that server with --data."
        )
    return HEADER, ticket.token


def advice(data: Path) -> str:
    """Return what to try when the server requires a proof and there was no token."""
    return (
        f"There is no {FILE} in {data.resolve()}: give --data the directory that the server serves, "
        "on the machine that it runs on."
    )
