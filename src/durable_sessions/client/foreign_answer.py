"""Answers that no Durable Sessions server sent: they come from a proxy, or another server at that address."""

import re

import httpx2

_SHOWN_MAX = 300
_READ_MAX = 20_000
_MARKUP = re.compile(
    r"<(?:style|script)\b.*?</(?:style|script)>|<!--.*?-->|<[^>]{0,2000}>", re.DOTALL | re.IGNORECASE
)


def foreign_answer(answer: httpx2.Response) -> str:
    """Return what was answered instead of what a server would, in short and without markup."""
    text = answer.content[:_READ_MAX].decode(errors="replace")
    words = " ".join(_MARKUP.sub(" ", text).split())[:_SHOWN_MAX]
    if not words:
        return "nothing that can be read"
    if "HTTPS port" in words:  # so nginx answers
        return "it expects TLS there; use https:// instead of http://"
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    return f"{media_type}, {words}" if media_type else words
