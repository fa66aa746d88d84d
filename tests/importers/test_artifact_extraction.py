"""Images and large blocks become artifacts; what is left fits, and nothing is cut silently."""

import base64
import json
from typing import Any

from durable_sessions.importers.artifact_extraction import ArtifactExtractor
from tests.importers.memory_destination import MemoryDestination

IMAGE = base64.b64encode(b"\x89PNG not really").decode()


def fit(event: dict[str, Any], **limits: int) -> tuple[dict[str, Any], MemoryDestination]:
    shelf = MemoryDestination()
    data = ArtifactExtractor(shelf.put_artifact, **limits).fit({"id": "imp_1", "type": "x", **event})
    assert len(data) <= limits.get("event_bytes_max", 900 * 1024)
    return json.loads(data), shelf


def test_images_of_every_shape() -> None:
    event, shelf = fit(
        {
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
                {"type": "image", "source": {"type": "url", "url": f"data:image/png;base64,{IMAGE}"}},
            ],
            "detail": {"file": {"base64": IMAGE, "type": "image/png", "originalSize": 15}},
        }
    )
    assert list(shelf.artifacts.values()) == [(b"\x89PNG not really", "image/png")]
    (digest,) = shelf.artifacts
    assert (
        event["content"][0]["source"]["url"]
        == event["content"][1]["source"]["url"]
        == f"/v1/artifacts/{digest}"
    )
    assert event["detail"]["file"]["artifact"]["sha256"] == digest
    assert event["detail"]["file"]["originalSize"] == 15


def test_what_is_no_image_stays() -> None:
    strange = {"type": "base64", "media_type": "[trimmed]", "data": "no base64!"}
    event, shelf = fit({"a": strange, "b": {"media_type": "image/png", "data": "no base64!"}})
    assert event["a"] == strange
    assert not shelf.artifacts


def test_long_texts_leave_a_preview_and_a_reference() -> None:
    text = "line of output\n" * 100_000
    event, shelf = fit({"content": [{"type": "text", "text": text}]})
    ((data, kind),) = shelf.artifacts.values()
    assert (data.decode(), kind) == (text, "text/plain")
    shown = event["content"][0]["text"]
    assert shown.startswith("line of output\n")
    assert f"{len(text)} bytes in all: /v1/artifacts/" in shown


def test_many_texts_are_lifted_until_it_fits() -> None:
    event, shelf = fit(
        {"parts": ["x" * 3_000 for _ in range(20)]}, event_bytes_max=50_000, text_bytes_max=8_000
    )
    assert len(event["parts"]) == 20
    assert len(shelf.artifacts) == 1


def test_an_event_of_too_many_pieces_goes_as_a_whole() -> None:
    event, shelf = fit({"numbers": list(range(50_000)), "name": "bash"}, event_bytes_max=20_000)
    assert event["name"] == "bash"
    whole = json.loads(shelf.artifacts[event["artifact"]["sha256"]][0])
    assert whole["numbers"] == list(range(50_000))


def test_half_a_surrogate_pair_is_replaced() -> None:
    event, _ = fit({"words": "a\ud800b"})
    assert event["words"].startswith("a")
    assert event["words"].endswith("b")
