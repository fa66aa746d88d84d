"""Checks artifacts: their bytes against their digests, and their descriptions."""

import msgspec

from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import ARTIFACT_ABOUT, ARTIFACTS
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import BucketError, ObjectNotFoundError
from durable_sessions.storage.artifacts import ArtifactInfo
from durable_sessions.tools.verify.findings import Findings


async def check_artifacts(bucket: ObjectStore, findings: Findings) -> None:
    """Check every artifact; one without a description was never acknowledged, and is only noted."""
    paths = {info.path for info in await bucket.list(ARTIFACTS)}
    for path in sorted(paths):
        if path.endswith(ARTIFACT_ABOUT):
            await _check(bucket, path.removesuffix(ARTIFACT_ABOUT), findings)
        elif path + ARTIFACT_ABOUT not in paths:
            findings.notes.append(f"{path} was never acknowledged; storing it again completes it")


async def _check(bucket: ObjectStore, path: str, findings: Findings) -> None:
    findings.checked["artifacts"] += 1
    try:
        about = msgspec.json.decode(await bucket.get(path + ARTIFACT_ABOUT), type=ArtifactInfo)
        data = await bucket.get(path)
    except msgspec.MsgspecError as error:
        findings.add(path + ARTIFACT_ABOUT, f"it does not say what the artifact is: {error}", mendable=False)
        return
    except ObjectNotFoundError:
        findings.add(path, "it is missing", mendable=False)
        return
    except BucketError as error:
        findings.add(path, f"it cannot be read: {error}", mendable=False)
        return
    if digest(data) != path.rpartition("/")[2] or len(data) != about.bytes:
        findings.add(path, "its bytes have changed: they do not have its digest", mendable=False)
