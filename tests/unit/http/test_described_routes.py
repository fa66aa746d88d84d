"""Each route has one description, and each description one route; each header has one declaration."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from durable_sessions.http.api.app import Application
from durable_sessions.http.api.route_table import ROUTES
from durable_sessions.http.openapi import answer_headers, request_headers
from durable_sessions.http.openapi.document import NOUNS, document
from durable_sessions.http.openapi.examples import recorded_ids
from durable_sessions.http.openapi.parts import Parameter
from durable_sessions.limits import DEFAULT_LIMITS

OPERATIONS = [operation for noun in NOUNS for operation in noun.operations]
API = Path(__file__).parents[3] / "src" / "durable_sessions" / "http" / "api"
REQUEST_HEADERS = {one.key: one for one in vars(request_headers).values() if isinstance(one, Parameter)}
DECLARED = REQUEST_HEADERS.keys() | {name.lower() for name in answer_headers.MEANINGS}
COMMON_WORDS = {b"range", b"allow"}
"""Names of headers that are also words of something else."""

ALSO_IN_CORS = {b"session-incarnation", b"idempotency-key", b"if-match"}


def test_every_operation_is_declared_once() -> None:
    ids = Counter(operation.id for operation in OPERATIONS)
    routes = Counter((operation.method, operation.path) for operation in OPERATIONS)
    assert max(ids.values()) == 1
    assert max(routes.values()) == 1


def test_every_operation_has_one_handler_and_every_handler_one_operation() -> None:
    assert Application.__name__  # its module imports all that answer requests, and each states its handlers
    assert ROUTES.unhandled == set()


def test_the_table_routes_what_the_document_describes_and_nothing_else() -> None:
    described = {
        (path, method.upper().encode())
        for path, item in document(DEFAULT_LIMITS)["paths"].items()
        for method in item
        if method != "options"
    }
    routed = {(one.template, method) for one in ROUTES.resources() for method in one.methods}
    assert routed == described


def test_every_example_is_of_an_operation() -> None:
    assert recorded_ids() <= {operation.id for operation in OPERATIONS}


def test_every_declared_header_is_used_by_an_operation() -> None:
    used = {parameter.key for operation in OPERATIONS for parameter in operation.parameters}
    assert REQUEST_HEADERS.keys() <= used
    described = document(DEFAULT_LIMITS)
    sent = set(re.findall(r"#/components/headers/([\w-]+)", str(described["paths"])))
    sent |= set(re.findall(r"#/components/headers/([\w-]+)", str(described["components"]["responses"])))
    assert sent == {name.decode() for name in answer_headers.MEANINGS}


@pytest.mark.parametrize("file", sorted(API.rglob("*.py")), ids=lambda file: str(file.relative_to(API)))
def test_the_api_names_no_declared_header_itself(file: Path) -> None:
    literals = {
        node.value.lower(): node.lineno
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes)
    }
    again = {name: line for name, line in literals.items() if name in DECLARED - COMMON_WORDS}
    if file.name == "cors.py":
        # What browsers let pages send and read: more than is declared, and not always in the same direction.
        again = {name: at for name, at in again.items() if name not in ALSO_IN_CORS}
    assert again == {}
