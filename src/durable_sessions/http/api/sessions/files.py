"""``/v1/files``: files as Anthropic's SDKs upload, list and download them, over artifacts."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError, RegisteredObjectNotFoundError
from durable_sessions.http.api.artifacts import ArtifactsFace
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.registries import page_of, paging, registered_json
from durable_sessions.http.bodies.files import FileDeleted
from durable_sessions.http.carrier.message import Answer, Request, Response, StreamingResponse
from durable_sessions.managed_agents import files
from durable_sessions.managed_agents.registry import Registry
from durable_sessions.storage.scans import Scans

ROOT = b"/v1/files"
_IDS_MAX = 100


class FileRoutes:
    """Answers requests for files; they live where the artifacts of their workspace are."""

    def __init__(
        self,
        registry: Registry,
        artifacts: ArtifactsFace,
        scans: Scans,
        audit: Audit,
        parser: BodyParser,
        auth: Authenticator,
    ) -> None:
        self._auth = auth
        self._registry = registry
        self._artifacts = artifacts
        self._scans = scans
        self._audit = audit
        self._parser = parser

    async def _upload(self, request: Request, caller: Caller) -> Response:
        # Bytes first: a file whose artifact is missing would be a name for nothing.
        content_type = request.headers.get(b"content-type", b"").decode("latin-1")
        new = await self._parser.parsed(request.body, files.uploaded, content_type, request.body)
        await self._artifacts.keep(caller, new.digest, new.data, new.media_type)
        stored = await self._registry.create(caller.workspace, new.document)
        return registered_json(self._registry.kind.shown(stored))

    async def _get(self, request: Request, caller: Caller, name: str) -> Response:
        return registered_json(self._registry.kind.shown(self._registry.get(caller.workspace, name)))

    async def _download(self, request: Request, caller: Caller, name: str) -> Answer:
        digest, media_type = files.digest_of(self._registry.get(caller.workspace, name))
        answer = await self._artifacts.show(request, caller, digest)
        kept = [field for field in answer.headers if field[0] != b"Content-Type"]
        answer.headers[:] = [(b"Content-Type", media_type.encode("latin-1")), *kept]
        if isinstance(answer, StreamingResponse):
            answer.chunks = self._auth.while_valid(caller, answer.chunks, whole=True)
        return answer

    async def _delete(self, request: Request, caller: Caller, name: str) -> Response:
        act = self._audit.beside(deletion(caller, request, "file", name))
        await self._registry.delete(caller.workspace, name, act)
        act.log()
        return registered_json(msgspec.json.encode(FileDeleted(name, "file_deleted")))

    async def _list(self, request: Request, caller: Caller) -> Response:
        parameters = Parameters(request)
        ids = parameters.texts("ids")
        if ids:
            return registered_json(json_page(self._named(caller, ids), next_page=None))
        after, limit = paging(request)
        if parameters.text("scope_id") is not None:
            return registered_json(json_page([], next_page=None))
        async with self._scans.admitted(caller.key_id):
            return page_of(await self._registry.list(caller.workspace, after, limit, lambda head: True))

    def _named(self, caller: Caller, ids: Sequence[str]) -> list[bytes]:
        """Return the files with these ids; those that are missing are left out."""
        once = list(dict.fromkeys(ids))
        if len(once) > _IDS_MAX:
            raise InvalidRequestError(problem=f"ids names {len(once)} files; send at most {_IDS_MAX}.")
        found = []
        for name in once:
            try:
                found.append(self._registry.kind.shown(self._registry.get(caller.workspace, name)))
            except RegisteredObjectNotFoundError:
                continue
        return found

    handlers: ClassVar[dict[str, Handler]] = {
        "uploadFile": _upload,
        "listFiles": _list,
        "getFile": _get,
        "downloadFile": _download,
        "deleteFile": _delete,
    }
