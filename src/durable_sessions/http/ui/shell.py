"""The shell: one HTML document for all addresses of the page. It holds no data; its script asks for that."""

import base64
import hashlib
import json
from html import escape
from urllib.parse import quote

from durable_sessions import __version__
from durable_sessions.http.carrier.message import Header
from durable_sessions.http.ui.assets import Assets

_BARE = {
    "preact": "vendor/preact-11.2.0.mjs",
    "preact/hooks": "vendor/preact-hooks-11.2.0.mjs",
    "@preact/signals-core": "vendor/signals-core-1.14.5.mjs",
    "@preact/signals": "vendor/signals-2.11.4.mjs",
    "htm": "vendor/htm-3.1.1.mjs",
    "marked": "vendor/marked-18.2.0.mjs",
}
"""Names under which the modules of others are imported."""
_POLICY = (
    "default-src 'none'; script-src 'self' 'sha256-{map}'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
PLAIN_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="ds-base" content="{base}">
<meta name="ds-version" content="{version}">
<title>Durable Sessions</title>
<link rel="icon" href="{icon}">
<link rel="stylesheet" href="{tokens}">
<link rel="stylesheet" href="{style}">
<link rel="stylesheet" href="{print}" media="print">
<noscript><meta http-equiv="refresh" content="0; url=?plain=1"></noscript>
<script type="importmap">{map}</script>
{preloads}
<script type="module" src="{app}"></script>
</head>
<body>
<noscript><p class="noscript">This page needs script; <a href="?plain=1">the same without</a>,
<a href="{base}/docs">documentation</a>.</p></noscript>
<div id="app"></div>
</body>
</html>
"""


class Shell:
    """The document and its headers; both are made once."""

    def __init__(self, assets: Assets, base: str) -> None:
        urls = {name: base + assets.url(file) for name, file in _BARE.items()}
        imports = json.dumps({"imports": urls}, separators=(",", ":"))
        digest = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
        # All modules are fetched at once, not one after the other as they import each other.
        preloads = "\n".join(
            f'<link rel="modulepreload" href="{base + assets.url(name)}">'
            for name in sorted(assets.found)
            if name.endswith(("js", "mjs")) and not name.startswith("views/")
        )
        self.document = _TEMPLATE.format(
            base=escape(base),
            version=escape(__version__),
            icon=base + assets.url("icon.svg"),
            tokens=base + assets.url("tokens.css"),
            style=base + assets.url("page.css"),
            print=base + assets.url("print.css"),
            app=base + assets.url("app.js"),
            map=imports,
            preloads=preloads,
        ).encode()
        self._without = self.document.split(b"?plain=1")
        self.headers = page_headers(_POLICY.format(map=digest))

    def at(self, query: bytes) -> bytes:
        """Return the document for an address with parameters, which the same page without script has, too."""
        if not query:
            return self.document
        kept = escape(quote(query.decode("latin-1"), safe="%&=+,:;@/?!*~-._[]"))
        return f"?{kept}&amp;plain=1".encode().join(self._without)


def page_headers(policy: str, referrer: bytes = b"no-referrer") -> list[Header]:
    """Return the headers of a page that shows data."""
    return [
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Content-Security-Policy", policy.encode()),
        (b"Cross-Origin-Opener-Policy", b"same-origin"),
        (b"Permissions-Policy", b"camera=(), geolocation=(), microphone=()"),
        (b"Referrer-Policy", referrer),
        (b"Cache-Control", b"no-cache"),
        (b"Vary", b"Accept"),
    ]
