"""What an adapter has stored is exported as what it means, in every format that tells a conversation."""

import json

import pytest

from durable_sessions.exporters import FORMATS, ExportOptions

SESSION = {"id": "s", "created_at": "2026-11-18T09:00:00Z"}
ITEMS = [
    {"role": "user", "content": "Is it green?"},
    {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command":"make"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "It is red."},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Not yet."}]},
]
LINES = [
    json.dumps(
        {
            "id": f"e{number}",
            "type": "openai.item",
            "offset": f"{0:016}_{number:016}",
            "created_at": "2026-11-18T09:00:00Z",
            "raw_format": "openai.item/1",
            "raw": item,
        }
    ).encode()
    for number, item in enumerate(ITEMS)
]


def exported(name: str) -> str:
    pieces = FORMATS[name].export(SESSION, iter(LINES), ExportOptions(content=True))
    return b"".join(pieces).decode()


@pytest.mark.parametrize("name", ["atif", "html", "inspect", "managed-agents", "markdown"])
def test_a_conversation_of_a_framework_is_told(name: str) -> None:
    text = exported(name)
    for said in ("Is it green?", "bash", "It is red.", "Not yet."):
        assert said in text, said


@pytest.mark.parametrize("name", ["atif", "inspect", "managed-agents"])
def test_a_result_names_its_call(name: str) -> None:
    assert exported(name).count('"c1"') >= 2


def test_a_trace_has_the_call_with_its_result() -> None:
    [call, _] = json.loads(exported("otlp"))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    said = {one["key"]: one["value"]["stringValue"] for one in call["attributes"]}
    assert said["gen_ai.tool.call.id"] == "c1"
    assert said["gen_ai.tool.call.arguments"] == '{"command":"make"}'
    assert said["gen_ai.tool.call.result"] == "It is red."
