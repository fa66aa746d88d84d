"""Single requests for setting up and looking: nothing here is measured."""

import http.client
from urllib.parse import urlsplit

SECONDS_MAX = 120.0


def request(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Send one request on a connection of its own and return status, headers in lower case, and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SECONDS_MAX)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def answers(url: str) -> bool:
    """Say whether a request is answered with success now."""
    try:
        return request("GET", url)[0] < 300
    except OSError:
        return False


def metrics(url: str) -> dict[str, float]:
    """Return our server's metrics, without their common prefix."""
    text = request("GET", url + "/metrics")[2].decode()
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name.removeprefix("durable_sessions_"): float(value) for name, value in pairs}
