"""What takes long only the first time in a process: a node makes it before it takes anything over."""

from durable_sessions.http.api.documentation import Documentation
from durable_sessions.http.api.web_page import WebPage
from durable_sessions.http.api.webhooks import default_ssl_context
from durable_sessions.limits import Limits
from durable_sessions.node.process_parts import Entrance


def prepare(limits: Limits, public_url: str) -> None:
    """Make the documents of the API and read the authorities of the system: all engines share both."""
    Documentation(limits, public_url, WebPage(public_url, Entrance()))
    default_ssl_context()
