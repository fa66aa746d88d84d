"""Every command line that a command suggests is run as it was printed, on the same server."""

import json
import shlex

import pytest

from durable_sessions.client import Client
from durable_sessions.testing import BackgroundServer
from tests.support.commands import Commands

CONFLICT, USAGE = 6, 2


@pytest.fixture(scope="module")
def ds(shared: BackgroundServer) -> Commands:
    """Commands on a server with sessions that are open, closed and archived; one is named like an option."""
    with Client(shared.url) as client:
        for name in ("open-1", "closed-1", "archived-1", "-dash", "to-close-1", "to-delete-1"):
            client.session(name).append([{"type": "user.message", "content": "Hi."}, {"type": "note"}])
        client.session("closed-1").close()
        client.session("-dash").close()
        client.session("archived-1").archive()
    return Commands(shared.url)


def suggested(said: str) -> list[str]:
    """Return the words of the command line at the end of a message."""
    if said.startswith("{"):
        said = json.loads(said)["error"]["message"]
    return shlex.split(said.rpartition(": ds ")[2].splitlines()[0])


@pytest.mark.parametrize(
    ("typed", "status"),
    [
        ("append closed-1 --type note", CONFLICT),
        ("append archived-1 --type note", CONFLICT),
        ("append --type note -- -dash", CONFLICT),
        ("append open-1 --type note --if-match 1", CONFLICT),
        ("append open-1 --type note --if-match 99", CONFLICT),
        ("events open-1 --from 99", USAGE),
        ("tail closed-1 --offset 99", USAGE),
        ("events open-1 --type user.mesage --tail 3", 0),
        ("tail closed-1 --type=user.mesage", 0),
        ("fork open-1 closed-1 --at 1", CONFLICT),
        ("fork open-1 --at 99", USAGE),
        ("show nothing-1", 3),
        ("title nothing-1 x", 3),
        ("close to-close-1", USAGE),
        ("delete to-delete --yes", USAGE),
        ("shwo open-1 --last 1", USAGE),
        ("show open-1 --lats 1", USAGE),
        ("--json show open-1", USAGE),
        ("title open-1 -new", USAGE),
        ("search -nothing --limit 3", USAGE),
        ("keys lst", USAGE),
        ("keys xyz", USAGE),
        ("help shwo", USAGE),
    ],
)
def test_a_suggested_command_line_works_as_it_is(
    ds: Commands, shared: BackgroundServer, typed: str, status: int
) -> None:
    said = ds.run(*shlex.split(typed), status=status).stderr
    ds.run(*suggested(said))
    if status == CONFLICT:  # a server that was named with an option is named in the advice
        words = shlex.split(typed)
        elsewhere = Commands("http://127.0.0.1:1")
        said = elsewhere.run(words[0], "--url", shared.url, *words[1:], status=status).stderr
        elsewhere.run(*suggested(said))
