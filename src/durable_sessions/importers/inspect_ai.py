"""Inspect AI: evaluation logs, one session for each sample and epoch."""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from durable_sessions.importers import chat
from durable_sessions.importers.conversation import Conversation
from durable_sessions.importers.documents import DOCUMENT_BYTES_MAX, decode, found_in, load, transcript
from durable_sessions.importers.events import (
    Event,
    count,
    instant,
    members,
    objects,
    text,
    usage,
    without,
)
from durable_sessions.importers.sources import SourceError, Transcript

TOOL = "inspect"
_ZSTANDARD = 93
_ATTACHMENT = "attachment://"
_NESTING_MAX = 100


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return the samples of logs in files and folders."""
    return found_in(paths, _samples, ".eval", ".json")


def _samples(path: Path, root: Path) -> list[Transcript]:
    if path.suffix == ".json":
        document = members(load(path))
        names = [f"{one.get('id')}_epoch_{one.get('epoch')}" for one in objects(document.get("samples"))]
        return [
            transcript(TOOL, _source(document, path, name), path, root, _whole(path, number), part=name)
            for number, name in enumerate(names)
        ]
    names = _names(path)
    header: dict[str, Any] = {}
    if "header.json" in names:
        header = members(decode(_member(path, "header.json"), f"{path} header.json"))
    return [
        transcript(
            TOOL,
            _source(header, path, name[len("samples/") : -len(".json")]),
            path,
            root,
            _zipped(path, name, header),
            part=name,
        )
        for name in names
        if name.startswith("samples/") and name.endswith(".json")
    ]


def _source(header: dict[str, Any], path: Path, sample: str) -> str:
    run = text(members(header.get("eval")).get("eval_id")) or path.name.split(".")[0]
    return f"{run}:{sample}"


def _names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile as error:
        raise SourceError(f"{path} is not an archive, or half written: {error}") from error


def _member(path: Path, name: str) -> bytes:
    """Return a file of an archive; its size is limited, whatever the archive claims."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(name)
        if info.file_size > DOCUMENT_BYTES_MAX:
            raise SourceError(f"{path} {name} is larger than {DOCUMENT_BYTES_MAX} bytes.")
        if info.compress_type == _ZSTANDARD:
            return _unpack(path, info)
        with archive.open(info) as file:
            data = file.read(DOCUMENT_BYTES_MAX + 1)
    if len(data) > DOCUMENT_BYTES_MAX:
        raise SourceError(f"{path} {name} is larger than it says.")
    return data


def _unpack(path: Path, info: zipfile.ZipInfo) -> bytes:
    """Return a file that was compressed with Zstandard, which this Python's zipfile does not support."""
    import pyarrow

    # The local header of a ZIP file has the lengths of name and extra field at byte 26; then come both, and
    # then the data.
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        sizes = file.read(4)
        file.seek(int.from_bytes(sizes[:2], "little") + int.from_bytes(sizes[2:], "little"), 1)
        packed = file.read(info.compress_size)
    try:
        return bytes(pyarrow.decompress(packed, decompressed_size=info.file_size, codec="zstd", asbytes=True))
    except pyarrow.ArrowException as error:
        raise SourceError(f"{path} {info.filename} cannot be unpacked: {error}") from error


def _zipped(path: Path, name: str, header: dict[str, Any]) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        yield from _sample(talk, members(decode(_member(path, name), f"{path} {name}")), header)

    return produce


def _whole(path: Path, number: int) -> Any:
    def produce(talk: Conversation) -> Iterator[Event]:
        document = members(load(path))
        yield from _sample(talk, objects(document.get("samples"))[number], without(document, "samples"))

    return produce


def _sample(talk: Conversation, sample: dict[str, Any], header: dict[str, Any]) -> Iterator[Event]:
    sample = _resolved(sample, members(sample.get("attachments")), 0)
    run = members(header.get("eval"))
    talk.about.note(task=run.get("task"), model=run.get("model"), eval_id=run.get("eval_id"))
    talk.about.name(f"{text(run.get('task')) or 'sample'} {sample.get('id')}, epoch {sample.get('epoch')}")
    events = objects(sample.get("events"))
    begun = next((at for one in events if (at := instant(one.get("timestamp")))), None)
    yield talk.event("session.updated", "eval", at=begun, source_record=header)
    yield from chat.conversation(talk, objects(sample.get("messages")))
    asked = [one for one in events if one.get("event") == "model"]
    for number, one in enumerate(asked):
        output = members(one.get("output"))
        yield from _request(
            talk, f"model {text(one.get('uuid')) or number}", members(output.get("usage")), one, output
        )
    if not asked:
        for model, used in members(sample.get("model_usage")).items():
            yield from _request(talk, f"usage {model}", members(used), {}, {"model": model})
    for number, one in enumerate(events):
        talk.tally.records += 1
        at = instant(one.get("timestamp"))
        name = f"event {text(one.get('uuid')) or number}"
        yield talk.keep(name, f"event {text(one.get('event'))}", without(one, "input"), at=at)
    if error := sample.get("error"):
        yield talk.error("sample", text(members(error).get("message")) or text(error), source_detail=error)
    rest = without(sample, "messages", "events", "attachments")
    yield talk.keep("sample", "sample", rest)


def _request(
    talk: Conversation, record: str, used: dict[str, Any], one: dict[str, Any], output: dict[str, Any]
) -> Iterator[Event]:
    if not used:
        return
    read, written = count(used.get("input_tokens_cache_read")), count(used.get("input_tokens_cache_write"))
    numbers = usage(used.get("input_tokens"), used.get("output_tokens"), read, written)
    yield from talk.request(
        record, numbers, used, at=instant(one.get("timestamp")), model=output.get("model")
    )


def _resolved(value: Any, attachments: dict[str, Any], depth: int) -> Any:
    """Return the value with references replaced by their attachments."""
    if isinstance(value, str):
        if value.startswith(_ATTACHMENT):
            return attachments.get(value[len(_ATTACHMENT) :], value)
        return value
    if depth > _NESTING_MAX:
        return value
    if isinstance(value, dict):
        return {
            name: one if name == "attachments" else _resolved(one, attachments, depth + 1)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_resolved(one, attachments, depth + 1) for one in value]
    return value
