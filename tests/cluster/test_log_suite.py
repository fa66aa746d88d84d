"""Logs in NATS and in a bucket pass the suite for logs, on real servers."""

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.testing.log_suite import CASES, LogCase
from tests.cluster.harnesses import BucketHarness, NatsHarness

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_log_in_nats_passes_every_case(case: LogCase, wire: NatsWire) -> None:
    assert await case.check(NatsHarness(wire)) is None


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_log_in_a_bucket_passes_every_case_that_can_apply(case: LogCase, bucket: Bucket) -> None:
    assert await case.check(BucketHarness(bucket)) == BucketHarness.inapplicable.get(case.name)
