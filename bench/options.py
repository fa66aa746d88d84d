"""What a run can be told."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Prices:
    """A price list of an object store, in US dollars."""

    name: str = "Amazon S3 Standard, us-east-1, list prices as of 2026-11"
    storage_gb_month: float = 0.023
    put_thousand: float = 0.005
    get_thousand: float = 0.0004


@dataclass(frozen=True)
class Fleet:
    """The agents whose bucket is priced."""

    agents: int = 1_000
    hours_per_day: float = 1.0
    events_per_hour: int = 1_000
    bytes_per_event: int = 1_000
    kept_days: int = 30
    cold_reads_per_day: float = 1.0


@dataclass(frozen=True)
class Options:
    """How long and how often is measured, and where the data lies."""

    directory: Path
    seconds: float = 3.0
    rounds: int = 3
    quick: bool = False
    fleet: Fleet = Fleet()
    prices: Prices = Prices()

    def scaled(self, full: int, quick: int) -> int:
        """Return a size for this kind of run."""
        return quick if self.quick else full
