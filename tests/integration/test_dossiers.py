"""Dossiers over HTTP: what they show of a family, and that their archives can be trusted."""

import io
import json
import random
import subprocess
import zipfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google.protobuf.json_format import ParseDict
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from durable_sessions.evidence import archive, statement
from durable_sessions.evidence.archive import ArchiveWriter
from durable_sessions.evidence.verification import DossierInvalidError, VerifiedDossier, public_keys, verify
from durable_sessions.sessions.dossier.dossiers import Dossiers
from durable_sessions.sessions.reading import EventReader
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.partition import Partition
from durable_sessions.testing.server import local_server
from tests.support.evidence import DIGESTS, FEATURE, FILES, JUDGE, post, tell_story
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.sessions import at, code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
KINDS = ("engineering", "research", "trading", "report")


async def dossier(api: httpx2.AsyncClient, session: str = "issue-7", **query: Any) -> httpx2.Response:
    answer = await api.get(f"/sessions/{session}/dossier", params=query)
    assert answer.status_code == 200, answer.text
    return answer


async def keys(api: httpx2.AsyncClient) -> dict[str, bytes]:
    return public_keys((await api.get("/stream/__ds/jwks.json")).content)


def refs(found: dict[str, Any]) -> list[dict[str, str]]:
    items = [item for section in found["sections"].values() for item in section["items"]]
    answers = [ref for answer in found["questions"].values() for ref in answer]
    return answers + [ref for item in items for ref in item["refs"]]


def said(found: dict[str, Any], section: str) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in item.items() if name != "refs"}
        for item in found["sections"][section]["items"]
    ]


def require_official(stated: bytes) -> None:
    """See what in-toto's own package makes of a statement."""
    document = ParseDict(json.loads(stated), statement_pb2.Statement())
    read = Statement.copy_from_pb(document)
    read.validate()
    assert read.pb.predicate_type == "https://in-toto.io/attestation/test-result/v0.1"
    result = ParseDict(json.loads(stated)["predicate"], test_result_pb2.TestResult())
    assert (result.result, list(result.passed_tests), list(result.failed_tests)) == ("PASSED", ["f1"], [])
    assert [one.name for one in result.configuration] == ["events/issue-7.jsonl"]


async def test_each_kind_shows_what_the_family_did(api: httpx2.AsyncClient) -> None:
    await tell_story(api)
    found = {kind: (await dossier(api, kind=kind)).json() for kind in KINDS}
    for kind, one in found.items():
        assert one["format"] == "durable-sessions-dossier/1"
        assert (one["kind"], one["session"], one["principals"]) == (kind, "issue-7", "declared")
        assert (one["complete"], one["missing"]) == (True, []), kind
        assert all(one["questions"].values())
        for ref in refs(one):
            event = await api.get(f"/sessions/{ref['session']}/events/{ref['id']}")
            assert event.status_code == 200, ref
    whole = found["engineering"]
    assert said(whole, "task") == [{"text": "Mend calc"}]
    assert said(whole, "repository_state") == [{"name": "repo_state.txt", "sha256": DIGESTS["repo_state"]}]
    assert said(whole, "patch") == [{"name": "diff.txt", "sha256": DIGESTS["diff"]}]
    assert said(whole, "test_command") == [{"command": "pytest -q"}] * 2
    assert said(whole, "test_result") == [
        {"name": "test_log.txt", "sha256": DIGESTS["test_log"]},
        {"verdict": "fail", "exit_code": 1},
        {"verdict": "pass", "exit_code": 0},
    ]
    assert [item["name"] for item in said(whole, "tool_calls")] == ["edit", "pytest", "edit"]
    assert whole["sections"]["tool_calls"]["items"][2] == {
        "name": "edit",
        "input": {"path": "calc.py", "n": 2},
        "refs": [{"session": "issue-7-b", "id": "c3"}, {"session": "issue-7-b", "id": "r3"}],
    }
    assert said(whole, "placement") == [{"sandbox": "sb-1", "backend": "local", "status": "ready"}]
    assert said(whole, "rejected_branches") == [
        {"session": "issue-7", "evaluations": ["e1"], "adopted": False}
    ]
    assert [item["key"] for item in said(whole, "memory_update")] == ["sum"]
    assert said(found["research"], "inputs") == [{"name": "input.txt", "sha256": DIGESTS["input"]}]
    assert [item["next"] for item in said(found["research"], "experiment_state")] == ["f1"]
    assert [item["is_error"] for item in said(found["research"], "tool_logs")] == [False, True, False]
    assert said(found["research"], "decisions") == [
        {"key": "cause", "value": "off by one"},
        {"to": "judge", "reason": "verify f1"},
    ]
    assert said(found["research"], "metrics") == [{"metrics": {"failures": 1}}, {"metrics": {"failures": 0}}]
    assert said(found["trading"], "policy") == [{"name": "policy.txt", "sha256": DIGESTS["policy"]}]
    assert [item["name"] for item in said(found["trading"], "domain_tools")] == ["pytest"]
    assert said(found["trading"], "state_deltas") == [{"effects": [{"kind": "file", "target": "calc.py"}]}]
    assert [item["effect"] for item in said(found["trading"], "action_log")] == [
        "idempotent",
        "unknown",
        "unknown",
    ]
    assert [item["verdict"] for item in said(found["trading"], "risk_checks")] == ["fail", "pass"]
    failures = [item["failure"] for item in said(found["report"], "failure_analysis")]
    assert failures == ["result", "verdict"]
    # The same family, asked for from its other end.
    other = (await dossier(api, "issue-7-b", kind="engineering")).json()
    assert other["sections"] == whole["sections"]
    graph = whole["graph"]
    assert not [node for node in graph["nodes"] if node.get("missing")], "all evidence is of the family"
    assert {"issue-7", "issue-7-b"} <= {node["label"] for node in graph["nodes"] if node["kind"] == "session"}


async def test_what_is_missing_is_said(api: httpx2.AsyncClient) -> None:
    await post(api, "s", {"type": "user.message", "id": "m", "content": "Hello"})
    found = (await dossier(api, "s", kind="report")).json()
    assert found["complete"] is False
    assert found["missing"] == [
        "tool_logs",
        "sandbox_metadata",
        "validation_result",
        "environment",
        "workflow",
        "tools",
        "sandbox",
        "validation",
    ]
    assert found["questions"]["task"] == [{"session": "s", "id": "m"}]
    assert found["sections"]["failure_analysis"]["items"] == [{"none": True, "refs": []}]
    text = (await dossier(api, "s", kind="report", format="md")).text
    assert text.startswith("# Dossier of `s`: report")
    assert "**Missing.**" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=novel", "invalid_request"),
        ("format=pdf", "invalid_request"),
        ("at=99", "offset_beyond_tail"),
        ("foo=1", "unknown_parameter"),
    ],
)
async def test_what_a_dossier_cannot_be_asked_for(api: httpx2.AsyncClient, query: str, expected: str) -> None:
    await post(api, "s", {"type": "user.message", "content": "Hello"})
    refused = await api.get(f"/sessions/s/dossier?{query}")
    assert (refused.status_code, code(refused)) == (400, expected)
    if "novel" in query:
        assert all(kind in refused.json()["error"]["message"] for kind in KINDS)
    assert (await api.get("/sessions/nobody/dossier?kind=report")).status_code == 404


async def test_an_archive_proves_itself_and_every_other_byte_is_noticed(
    api: httpx2.AsyncClient, tmp_path: Path
) -> None:
    await tell_story(api)
    answer = await dossier(api, kind="engineering", format="zip")
    again = await dossier(api, kind="engineering", format="zip")
    assert answer.content == again.content
    assert answer.headers["content-disposition"] == 'attachment; filename="issue-7-engineering.zip"'
    path = tmp_path / "dossier.zip"
    path.write_bytes(answer.content)
    with zipfile.ZipFile(path) as zipped:
        names = zipped.namelist()
        assert zipped.testzip() is None
        zipped.extractall(tmp_path / "out")
    assert names == [
        "events/issue-7.jsonl",
        "events/issue-7-b.jsonl",
        *sorted(f"artifacts/{digest}" for digest in DIGESTS.values()),
        "dossier.json",
        "dossier.md",
        "graph.json",
        "graph.mmd",
        "statement.json",
        "statement.dsse.json",
        "SHA256SUMS",
    ]
    out = tmp_path / "out"
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    assert (out / "dossier.json").read_bytes() == (await dossier(api, kind="engineering")).content
    assert (out / "dossier.md").read_bytes() == (await dossier(api, kind="engineering", format="md")).content
    assert (out / "graph.mmd").read_text().startswith("graph")
    assert (
        json.loads((out / "graph.json").read_bytes())
        == json.loads((out / "dossier.json").read_bytes())["graph"]
    )
    lines = (out / "events/issue-7-b.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["c3", "r3", "e2"]
    for role, data in FILES.items():
        assert (out / "artifacts" / DIGESTS[role]).read_bytes() == data
    require_official((out / "statement.json").read_bytes())
    known = await keys(api)
    verified = verify(path, known)
    assert (verified.session, verified.kind, verified.result) == ("issue-7", "engineering", "PASSED")
    assert (verified.complete, verified.principals, list(known)) == (True, "declared", [verified.keyid])
    with pytest.raises(DossierInvalidError, match="none of the keys"):
        verify(path, {"ds_other": next(iter(known.values()))})
    chance = random.Random(12)
    infos = zipfile.ZipFile(path).infolist()
    # A byte of every file, of every head, and many anywhere.
    places = [
        info.header_offset + 30 + len(info.filename) + chance.randrange(info.file_size) for info in infos
    ]
    places += [info.header_offset + chance.randrange(30) for info in infos]
    places += [chance.randrange(len(answer.content)) for _ in range(300)]
    for place in places:
        damaged = bytearray(answer.content)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(DossierInvalidError):
            verify(path, known)
    for shorter in (
        answer.content[:-1],
        answer.content[: len(answer.content) // 2],
        answer.content + b"\0",
        b"",
    ):
        path.write_bytes(shorter)
        with pytest.raises(DossierInvalidError):
            verify(path, known)


async def test_an_archive_that_was_made_anew_after_a_change_has_no_signature(
    api: httpx2.AsyncClient, tmp_path: Path
) -> None:
    """Somebody who changes a file, and the sums and subjects with it, cannot sign it."""
    await tell_story(api)
    given = zipfile.ZipFile(io.BytesIO((await dossier(api, kind="engineering", format="zip")).content))
    contents = {name: given.read(name) for name in given.namelist()}
    contents["events/issue-7.jsonl"] = contents["events/issue-7.jsonl"].replace(b'"fail"', b'"pass"')

    def written(**changed: bytes) -> Path:
        path = tmp_path / "forged.zip"
        with path.open("w+b") as file:
            writer = ArchiveWriter(file)
            for name, data in {**contents, **changed}.items():
                writer.add(name, [statement.sums(writer.files) if name == "SHA256SUMS" else data])
            writer.close()
        return path

    known = await keys(api)
    with pytest.raises(DossierInvalidError, match="subjects"):
        verify(written(), known)
    stated = json.loads(contents["statement.json"])
    with written().open("rb") as file:
        digests = {one.name: one.sha256 for one in archive.read(file)}
    for subject in stated["subject"]:
        subject["digest"]["sha256"] = digests[subject["name"]]
    forged = json.dumps(stated).encode()
    with pytest.raises(DossierInvalidError, match="signs is not"):
        verify(written(**{"statement.json": forged}), known)
    (kid,) = known
    signed = statement.envelope(forged, kid, lambda data: b"\0" * 64)
    with pytest.raises(DossierInvalidError, match="signature"):
        verify(written(**{"statement.json": forged, "statement.dsse.json": signed}), known)


async def test_no_file_of_an_archive_can_be_exchanged(api: httpx2.AsyncClient, tmp_path: Path) -> None:
    """Archives that are whole and have the sums of their files, but are not what was signed."""
    await tell_story(api)
    given = zipfile.ZipFile(io.BytesIO((await dossier(api, kind="engineering", format="zip")).content))
    contents = [(name, given.read(name)) for name in given.namelist() if name != "SHA256SUMS"]
    known = await keys(api)

    def verified(files: Iterable[tuple[str, bytes]]) -> VerifiedDossier:
        path = tmp_path / "forged.zip"
        with path.open("w+b") as file:
            writer = ArchiveWriter(file)
            for name, data in files:
                writer.add(name, [data])
            writer.add("SHA256SUMS", [statement.sums(writer.files)])
            writer.close()
        return verify(path, known)

    assert verified(contents).result == "PASSED"
    chance = random.Random(9)
    for index, (name, data) in enumerate(contents):
        others = contents[:index], contents[index + 1 :]
        places = chance.sample(range(len(data)), min(12, len(data)))
        if name == "statement.dsse.json":
            places += range(data.index(b'"sig"'), len(data))
        changed = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in places]
        for other in [*changed, data[:-1], data + b"\n", b""]:
            with pytest.raises(DossierInvalidError):
                verified([*others[0], (name, other), *others[1]])
        for files in (
            [*others[0], *others[1]],
            [*contents, (name, data)],
            [*contents, (f"{name}.more", data)],
            [*others[0], (name.upper(), data), *others[1]],
        ):
            with pytest.raises(DossierInvalidError):
                verified(files)


async def test_an_earlier_place_gives_the_same_bytes_for_ever(api: httpx2.AsyncClient) -> None:
    await tell_story(api)
    end = int((await dossier(api, kind="report")).json()["offset"][17:])
    before = (await dossier(api, kind="engineering", format="zip", at=end)).content
    early = (await dossier(api, kind="engineering", at=2)).json()
    await post(api, "issue-7", {"type": "user.message", "content": "more"})
    assert (await dossier(api, kind="engineering", format="zip", at=at(end))).content == before
    assert (await dossier(api, kind="engineering", format="zip")).content != before
    # Nothing had been forked from its first events.
    assert {ref["session"] for ref in refs(early)} == {"issue-7"}
    assert early["questions"]["tools"] == []


async def test_events_of_a_deleted_source_are_told_by_the_fork(
    api: httpx2.AsyncClient, tmp_path: Path
) -> None:
    await tell_story(api)
    whole = (await dossier(api, kind="engineering")).json()
    assert (await api.delete("/sessions/issue-7")).status_code == 200
    await post(api, "issue-7", {"type": "user.message", "content": "another life"})
    left = (await dossier(api, "issue-7-b", kind="engineering")).json()
    assert {ref["session"] for ref in refs(left)} == {"issue-7-b"}
    assert said(left, "tool_calls") == said(whole, "tool_calls")
    assert said(left, "task") == [{"text": "Mend calc"}]
    for ref in refs(left):
        assert (await api.get(f"/sessions/issue-7-b/events/{ref['id']}")).status_code == 200
    path = tmp_path / "d.zip"
    path.write_bytes((await dossier(api, "issue-7-b", kind="engineering", format="zip")).content)
    assert verify(path, await keys(api)).result == "PASSED"
    assert b"another life" not in path.read_bytes()


async def test_redacted_and_missing_artifacts(api: httpx2.AsyncClient) -> None:
    await tell_story(api)
    redacted = await api.post(
        "/sessions/issue-7/redact",
        json={"events": ["c1"], "artifacts": [DIGESTS["diff"]], "reason": "private"},
    )
    assert redacted.status_code == 200, redacted.text
    found = (await dossier(api, kind="engineering")).json()
    assert said(found, "patch") == [{"name": "diff.txt", "sha256": DIGESTS["diff"], "redacted": True}]
    assert said(found, "tool_calls")[0] == {"name": None, "input": None, "redacted": True}
    zipped = zipfile.ZipFile(io.BytesIO((await dossier(api, kind="engineering", format="zip")).content))
    assert f"artifacts/{DIGESTS['diff']}" not in zipped.namelist()
    assert (await api.delete(f"/artifacts/{DIGESTS['policy']}")).status_code == 204
    refused = await api.get("/sessions/issue-7/dossier?kind=engineering&format=zip")
    assert (refused.status_code, code(refused)) == (404, "artifact_not_found")


@pytest.mark.parametrize("form", ["json", "md", "zip"])
async def test_what_is_redacted_while_a_dossier_is_made_is_not_in_it(
    api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    await tell_story(api)
    await post(api, "issue-7-b", {"type": "agent.tool_use", "id": "c9", "name": "sh", "input": "hunter2"})
    complete = Dossiers._complete

    async def redact(self: Dossiers, *arguments: Any) -> None:
        monkeypatch.undo()
        done = await api.post("/sessions/issue-7-b/redact", json={"events": ["c9"], "reason": "private"})
        assert done.status_code == 200, done.text
        await complete(self, *arguments)

    monkeypatch.setattr(Dossiers, "_complete", redact)
    refused = await api.get(f"/sessions/issue-7/dossier?kind=report&format={form}")
    assert (refused.status_code, code(refused)) == (503, "view_unavailable")
    assert "was redacted while" in refused.json()["error"]["message"]
    assert b"hunter2" not in (await dossier(api, kind="report", format=form)).content


async def test_a_dossier_that_is_being_sent_ends_when_something_of_it_is_redacted(
    api: httpx2.AsyncClient,
) -> None:
    for number in range(12):
        await post(api, "s", {"type": "note", "id": f"n{number}", "text": "x" * 1_000_000})
    target = "/sessions/s/dossier?kind=report&format=zip"
    async with api.stream("GET", target) as answer:
        assert answer.status_code == 200
        pieces = answer.aiter_raw()
        await anext(pieces)
        await api.post("/sessions/s/redact", json={"events": ["n11"], "reason": "private"})
        with pytest.raises(httpx2.RemoteProtocolError):
            async for _ in pieces:
                pass
    assert (await api.get(target)).status_code == 200


async def test_a_dossier_leaves_the_last_of_a_disk_to_the_log(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", low_space_bytes=2**60) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await post(api, "s", {"type": "note"})
        refused = await api.get("/sessions/s/dossier?kind=report&format=zip")
        assert (refused.status_code, code(refused)) == (503, "view_unavailable")
        assert "bytes are free on its disk" in refused.json()["error"]["message"]


async def test_a_missing_event_refuses_the_dossier(
    api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tell_story(api)
    await dossier(api, "issue-7-b", kind="report")  # so that the state is known without reading again
    whole = EventReader.range

    async def short(
        self: EventReader, view: StreamView, start: int, stop: int, *more: Any
    ) -> AsyncIterator[tuple[int, bytes]]:
        async for found in whole(self, view, start, stop - 1, *more):
            yield found

    for form in ("json", "zip"):
        with monkeypatch.context() as patched:
            patched.setattr(EventReader, "range", short)
            refused = await api.get(f"/sessions/issue-7-b/dossier?kind=report&format={form}")
        assert (refused.status_code, code(refused)) == (503, "view_unavailable")
        assert "cannot be read" in refused.json()["error"]["message"]
    find = Partition.peek_id

    def missing(self: Partition, number: int) -> StreamView | None:
        found = find(self, number)
        return None if found is not None and found.stream.key.path == "sessions/issue-7" else found

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "peek_id", missing)
        refused = await api.get("/sessions/issue-7-b/dossier?kind=report")
    assert (refused.status_code, code(refused)) == (503, "view_unavailable")
    await dossier(api, "issue-7-b", kind="report")


async def test_how_reliable_trials_are(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", partitions=3) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await tell_story(api)
        said = {"metadata": {"trial_of": "rebalance"}}
        fork = {"Stream-Forked-From": "/v1/sessions/issue-7", "Stream-Fork-Offset": at(2)}
        # Two are forks, the others begin by themselves, in any partition.
        for number, verdict in enumerate(("pass", "fail", "pass", "pass")):
            name, headers = f"trial-{number}", fork if number < 2 else {}
            outcome = {} if number < 2 else {"outcome": {"features": [FEATURE]}}
            made = await api.put(f"/sessions/{name}", json=said | outcome, headers=headers)
            assert made.status_code == 201, made.text
            evaluation = {"type": "ds.evaluation", "id": f"v{number}", "verdict": verdict, "feature": "f1"}
            await post(api, name, {"type": "user.message", "id": "go", "content": "go"})
            await post(api, name, {**evaluation, "refs": [{"rel": "because", "id": "go"}]}, by=JUDGE)
        for session in ("trial-1", "trial-3"):
            found = (await dossier(api, session, kind="trading")).json()
            assert found["sections"]["reliability"]["items"] == [
                {
                    "trial_of": "rebalance",
                    "trials": 4,
                    "passed": 3,
                    "pass_k": [0.75, 0.5, 0.25, 0.0],
                    "sessions": [f"trial-{n}" for n in range(4)],
                    "refs": [{"session": f"trial-{n}", "id": f"v{n}"} for n in range(4)],
                }
            ]
            for ref in refs(found):
                assert (await api.get(f"/sessions/{ref['session']}/events/{ref['id']}")).status_code == 200
            path = tmp_path / "d.zip"
            path.write_bytes((await dossier(api, session, kind="trading", format="zip")).content)
            verify(path, await keys(api))
        early = (await dossier(api, "trial-3", kind="trading", at=1)).json()
        assert early["sections"]["reliability"]["items"][0]["passed"] == 2


async def test_a_family_lives_in_one_partition(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", workers=2) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        for number in range(4):
            session, fork = f"work-{number}", f"other-{number}"
            await tell_story(api, session, fork)
            path = tmp_path / "d.zip"
            path.write_bytes((await dossier(api, session, kind="engineering", format="zip")).content)
            assert verify(path, await keys(api)).result == "PASSED"
            by_fork = (await dossier(api, fork, kind="engineering")).json()
            assert by_fork["sections"] == (await dossier(api, session, kind="engineering")).json()["sections"]


def client_of(url: str, secret: str | None = None) -> httpx2.AsyncClient:
    headers = {} if secret is None else bearer(secret)
    return httpx2.AsyncClient(base_url=f"{url}/v1", headers=headers, timeout=PATIENCE_SECONDS)


async def test_principals_are_proven_by_keys_only_if_all_events_are_younger_than_the_first_key(
    tmp_path: Path,
) -> None:
    async with local_server(tmp_path) as server, client_of(server.url) as api:
        await post(api, "before", {"type": "note", "id": "n"}, by={})
        declared = (await dossier(api, "before", format="zip")).content
    async with local_server(tmp_path, api_key=BOOTSTRAP) as server:
        async with client_of(server.url, BOOTSTRAP) as api:
            # Nobody knows since when the key of the settings is there.
            assert (await dossier(api, "before")).json()["principals"] == "declared"
        secret = await make_secret(server.url, "writer")
        async with client_of(server.url, secret) as api:
            await post(api, "after", {"type": "note", "id": "n"}, by={})
            assert (await dossier(api, "after")).json()["principals"] == "keys"
            assert (await dossier(api, "before", format="zip")).content == declared
