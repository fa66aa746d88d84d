"""What a node makes in advance is not made again when it takes a partition over."""

import httpcore2
import pytest

from durable_sessions.http.api import webhooks
from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.web_page import WebPage
from durable_sessions.http.openapi import document
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.preparation import prepare
from durable_sessions.node.process_parts import Entrance

URL = "https://prepared.example.com"


def test_an_engine_finds_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(DEFAULT_LIMITS, URL)
    made = document.encoded.cache_info().misses
    monkeypatch.setattr(httpcore2, "default_ssl_context", lambda: pytest.fail("it was read again"))
    Documentation(DEFAULT_LIMITS, URL, WebPage(URL, Entrance()))
    webhooks.default_ssl_context()
    assert document.encoded.cache_info().misses == made
