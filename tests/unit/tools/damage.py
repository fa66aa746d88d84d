"""Ways to damage a data directory, and what it says of itself; files are named as they lie on disk."""

from pathlib import Path
from typing import Any

import msgspec

from durable_sessions.bucket.checkpoint import SessionRow, encode_checkpoint, read_checkpoint
from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest, Manifests
from durable_sessions.bucket.store import Bucket
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.effects import SubscriptionCreated
from durable_sessions.tier.subscription_objects import SUBSCRIPTIONS
from tests.unit.tools.datadir import DataDirectory, make


def flip(path: Path, at: int) -> Path:
    """Change one bit of a file; a negative place counts from its end."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    return path


def logs(data: Path) -> list[Path]:
    """Return the segments of the log, oldest first."""
    return sorted((data / "log").glob("*.log"))


def manifests(data: Path) -> list[Path]:
    """Return the manifests, oldest first."""
    return sorted((data / "bucket/partitions/00/manifest").glob("*.json"))


async def newest(data: Path) -> Manifest:
    """Return the manifest that holds."""
    found = await Manifests(await Bucket.open(data / "bucket"), ONLY_PARTITION).newest()
    assert found is not None
    return found


async def rewrite_manifest(data: Path, **changes: Any) -> None:
    """Let another manifest hold, as if a server had written it so."""
    held = await newest(data)
    changed: Manifest = msgspec.structs.replace(held, number=held.number + 1, **changes)
    await Manifests(await Bucket.open(data / "bucket"), ONLY_PARTITION).create_next(changed)


async def rewrite_object(data: Path, info: Any, content: bytes) -> Any:
    """Write other bytes at the place of an object, and return what a manifest has to say of them."""
    (data / "bucket" / info.path).write_bytes(content)
    return msgspec.structs.replace(info, bytes=len(content), sha256=digest(content))


async def rewrite_rows(data: Path, change: Any, *, rows: int | None = None) -> str:
    """Change all rows of the newest checkpoint, with a digest that fits; return its path."""
    held = await newest(data)
    *others, last = held.checkpoints
    found: list[SessionRow] = await read_checkpoint(await Bucket.open(data / "bucket"), last)
    encoded = encode_checkpoint([change(row) for row in found])
    info: CheckpointInfo = await rewrite_object(data, last, encoded.data)
    info = msgspec.structs.replace(info, rows=len(found) if rows is None else rows)
    await rewrite_manifest(data, checkpoints=(*others, info))
    return info.path


async def subscribe(data: Path, *names: str) -> None:
    """Create subscriptions, each in a flush of its own."""
    async with DataDirectory(data) as opened:
        for name in names:
            made = SubscriptionCreated("default", name, b'{"type":"pull-wake","lease_ttl_ms":1000}', "", 0)
            await opened.partition.commit(lambda state, now_ms, made=made: ([made], None))  # type: ignore[misc]
            await opened.flush()


async def make_with_subscriptions(data: Path, *names: str) -> None:
    """Make a directory with subscriptions in the bucket, and several segments of the log behind them."""
    await make(data)
    await subscribe(data, *names)
    async with DataDirectory(data) as opened:
        for number in range(80):
            await opened.append("a", b'{"unflushed":%d}' % number)
        await opened.append("fork", b'{"fork":6}')


async def subscriptions_of(data: Path) -> list[str]:
    """Return the subscriptions that a server would know."""
    async with DataDirectory(data) as opened:
        return sorted(one.key.id for one in opened.partition._state.subscriptions)


def subscription_object(manifest: Manifest) -> CheckpointInfo:
    """Return the object that has all subscriptions as of one flush."""
    return msgspec.json.decode(manifest.extra[SUBSCRIPTIONS], type=CheckpointInfo)
