"""Where things lie in the bucket, and whose they are."""

from datetime import date

import pytest

from durable_sessions.bucket.layout import (
    FlushedName,
    FlushedNames,
    events_path,
    manifests_prefix,
    sessions_path,
    subscriptions_path,
)
from durable_sessions.partition_id import PartitionId

DAY = date(2026, 11, 15)
ZERO, FIVE = PartitionId(0, of=8), PartitionId(5, of=8)


def test_partition_0_has_the_names_that_it_always_had() -> None:
    assert events_path(DAY, ZERO, 42) == "events/date=2026-11-15/00-000000000042.parquet"
    assert sessions_path(ZERO, 42) == "sessions/00-000000000042.parquet"
    assert subscriptions_path(ZERO, 42, "batch") == "partitions/00/subscriptions/000000000042.batch"
    assert manifests_prefix(ZERO) == "partitions/00/manifest/"


@pytest.mark.parametrize("number", [1, 10**12 - 1])
@pytest.mark.parametrize(("own", "other"), [(ZERO, FIVE), (FIVE, ZERO)])
def test_a_partition_tells_its_own_objects_from_those_of_others(
    own: PartitionId, other: PartitionId, number: int
) -> None:
    names = FlushedNames(own)
    paths = [
        events_path(DAY, own, number),
        sessions_path(own, number),
        subscriptions_path(own, number, "batch"),
        subscriptions_path(own, number, "changes"),
    ]
    assert [names.parse(path) for path in paths] == [FlushedName(number, 0, 0)] * 4
    assert all(path.startswith(names.prefixes) for path in paths)
    assert [FlushedNames(other).parse(path) for path in paths] == [None] * 4
    part = sessions_path(own, number).replace(".parquet", "-part7-2.parquet")
    assert names.parse(part) == FlushedName(number, 7, 2)
    manifest = f"{manifests_prefix(own)}{number:012d}.json"
    assert names.manifest_number(manifest) == number
    assert FlushedNames(other).manifest_number(manifest) is None
    assert names.parse(manifest) is None


@pytest.mark.parametrize(
    "path",
    [
        "events/date=2026-11-15/05-1000000000000.parquet",
        "events/date=2026-11-15/5-000000000042.parquet",
        "events/date=2026-11-15/105-000000000042.parquet",
        "events/date=2026-11-15/05-\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661.parquet",
        "sessions/05-000000000042.json",
        "partitions/05/log/00000001099511627776",
        "partitions/05/manifest/1000000000000.json",
        "other/sessions/05-000000000042.parquet",
    ],
)
def test_what_is_named_otherwise_is_nobody_s(path: str) -> None:
    assert FlushedNames(FIVE).parse(path) is None
    assert FlushedNames(FIVE).manifest_number(path) is None
