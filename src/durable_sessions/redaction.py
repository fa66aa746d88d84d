"""Replaces secrets that can be recognised by their format by markers, before anything is sent or stored."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

_PATTERNS: tuple[tuple[str, str], ...] = (
    (
        "private-key",
        r"-----BEGIN (?P<k>[A-Z0-9 ]{0,40})PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END (?P=k)PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    ("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    (
        "aws-secret-key",
        r"(?i:aws.{0,20}?(?:secret|private).{0,20}?[=:]\s*[\"']?)(?P<s>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    ("google-api-key", r"\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    ("google-oauth-token", r"\bya29\.[0-9A-Za-z_-]{20,}"),
    ("azure-storage-key", r"(?i:AccountKey=)(?P<s>[A-Za-z0-9/+]{60,100}={0,2})"),
    ("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    ("openrouter-key", r"\bsk-or-[A-Za-z0-9_-]{20,}"),
    ("stripe-key", r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("openai-key", r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}"),
    ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})"),
    ("gitlab-token", r"\bgl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent)-[A-Za-z0-9_-]{20,}"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("pypi-token", r"\bpypi-[A-Za-z0-9_-]{50,}"),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}\b"),
    ("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("twilio-key", r"\bSK[0-9a-f]{32}\b"),
    ("digitalocean-token", r"\bdo[por]_v1_[a-f0-9]{64}\b"),
    ("databricks-token", r"\bdapi[a-f0-9]{32}\b"),
    ("vault-token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("groq-key", r"\bgsk_[A-Za-z0-9]{40,}"),
    ("telegram-token", r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    ("durable-sessions-key", r"\bdsk_[A-Za-z0-9_-]{24,}"),
    ("json-web-token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (
        "bearer-token",
        r"(?i:\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|token|basic)\s+)(?P<s>[A-Za-z0-9._~+/=-]{8,})",
    ),
    ("bearer-token", r"\b(?i:bearer)\s+(?P<s>[A-Za-z0-9._~+/-]{20,}=*)"),
    ("api-key-header", r"(?i:\bx-api-key[\"']?\s*[:=]\s*[\"']?)(?P<s>[A-Za-z0-9._~+/=-]{12,})"),
    ("url-password", r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s/:@\"'<>]{0,200}:(?P<s>[^\s/@\"'<>]{1,200})@"),
    (
        "assigned-secret",
        r"(?i:\b[A-Z0-9_]{0,40}(?:PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?TOKEN|AUTH_?TOKEN|PRIVATE_?KEY)\s*=\s*)"
        r"(?P<q>[\"']?)(?P<s>(?=[^\s\"']{0,199}\d)[^\s\"'$<>{}()\[\];,\\]{8,200})(?P=q)(?![\[(])",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in _PATTERNS)
_HINT = re.compile(
    r"-----BEGIN|A(?:KIA|SIA|BIA|CCA)|(?i:aws|accountkey|bearer|authorization|x-api-key|passw|secret|api_?key|token|private_?key)"
    r"|AIza|ya29|sk[-_]|[rp]k_|gh[pousr]_|github_pat|gl[a-z]{2,5}-|xox|hooks\.slack|npm_|pypi-|hf_|SG\.|SK[0-9a-f]|do[por]_v1|dapi"
    r"|hv[sbr]\.|gsk_|:AA|dsk_|eyJ|://"
)
"""Whatever one of the patterns matches contains this; most texts do not, and are not searched any further."""
MARK = "redacted"
"""The metadata member that marks a session as redacted, now and in later imports."""
_MARKER_START = "[redacted "
_SLICE = _MARGIN = 16 * 1024
"""A search holds the interpreter: one over a megabyte would stop a server's event loop for half a second."""
_SPARED = ("id", "type", "created_at", "session_thread_id", "source")
"""What is never changed: an event must have the same id, and be found by it, with redaction and without."""


def is_redacted(title: str | None, metadata: Mapping[str, Any]) -> bool:
    """Say whether title or metadata show that a session was imported with redaction."""
    texts = (title or "", *metadata.values())
    return MARK in metadata or any(_MARKER_START in one for one in texts if isinstance(one, str))


class Redactor:
    """Replaces secrets by ``[redacted <kind> <digest>]``: the same secret has the same digest."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event without secrets; its id and type are unchanged."""
        before = self.found.total()
        cleaned = {name: value if name in _SPARED else self._walk(value) for name, value in event.items()}
        return cleaned if self.found.total() > before else event

    def metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return metadata without secrets."""
        return {name: self._walk(value) for name, value in metadata.items()}

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if next(_matches(_HINT, text), None) is None:
            return text
        for kind, pattern in _COMPILED:
            parts: list[str] = []
            end = 0
            for match in _matches(pattern, text):
                parts += (text[end : match.start()], self._replace(kind, match))
                end = match.end()
            if parts:
                text = "".join((*parts, text[end:]))
        return text

    def _replace(self, kind: str, match: re.Match[str]) -> str:
        whole = match.group()
        named = "s" in match.re.groupindex
        secret = match.group("s") if named else whole
        if secret.startswith(_MARKER_START.rstrip()):
            return whole  # an earlier pattern has replaced it: password=[redacted …]
        self.found[kind] += 1
        digest = sha256(secret.encode(errors="surrogatepass")).hexdigest()[:8]
        marker = f"[redacted {kind} {digest}]"
        if not named:
            return marker
        start = match.start("s") - match.start()
        return whole[:start] + marker + whole[start + len(secret) :]

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self._walk(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walk(one) for one in value]
        return value


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern, as ``finditer`` does, in searches of bounded length."""
    at = 0
    while at < len(text):
        end = at + _SLICE
        found = pattern.search(text, at, end + _MARGIN)
        if found is None or found.start() >= end:
            at = end
            continue
        # What was found may go on behind the slice, or be nothing in view of what follows there.
        match = pattern.match(text, found.start())
        if match is not None:
            yield match
        at = found.start() + 1 if match is None else match.end()
