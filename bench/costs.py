"""What a fleet of agents costs per month in the bucket, from what was measured and a price list."""

from bench import amplification, s3
from bench.amplification import FLUSH_SECONDS, Measured
from bench.figures import Result
from bench.options import Fleet, Options, Prices
from bench.place import Place
from bench.report import Claim, Column, Part, Table

DAYS_PER_MONTH = 30
HOSTED_DOLLARS_PER_MONTH = 18.50
"""What a hosted product of this kind names for 1,000 agents, each active for an hour a day."""

COLUMNS = (
    Column("per month", "amount", "{:,.2f}".format),
    Column("US$ per month", "dollars", "{:.2f}".format),
)


def run(place: Place, options: Options) -> Part:
    """Measure bytes and requests, then price them."""
    if problem := s3.missing():
        skipped = Result("bytes and requests of the bucket", skipped=problem)
        return Part("Bytes, requests and costs", [Table("Bytes and requests", COLUMNS, [skipped])])
    table, measured = amplification.measure(place, options)
    rows = bill(measured, options.fleet, options.prices)
    total = rows[-1].median("dollars")
    fleet = options.fleet
    hosted = f"{HOSTED_DOLLARS_PER_MONTH:.2f} $ named by a hosted product"
    what = f"bucket of {fleet.agents:,} agents: ours ÷ {hosted}"
    claim = Claim(what, total, HOSTED_DOLLARS_PER_MONTH, at_most=True)
    priced = Table("The bucket's bill", COLUMNS, rows)
    return Part("Bytes, requests and costs", [table, priced], [claim], _assumptions(measured, options))


def bill(measured: Measured, fleet: Fleet, prices: Prices) -> list[Result]:
    """Return the lines of the bill and their sum."""
    events = fleet.agents * fleet.hours_per_day * fleet.events_per_hour * DAYS_PER_MONTH
    daily_gb = events * fleet.bytes_per_event / DAYS_PER_MONTH / 1e9
    kept_gb = daily_gb * fleet.kept_days * measured.kept_bytes_per_payload_byte
    flushes = DAYS_PER_MONTH * 86_400 / FLUSH_SECONDS
    session_reads = fleet.agents * fleet.cold_reads_per_day * DAYS_PER_MONTH
    puts = flushes * measured.puts_per_flush
    lists = flushes * measured.lists_per_flush
    gets = flushes * measured.gets_per_flush + session_reads * measured.gets_per_session_read
    lines = [
        _line("GB stored", kept_gb, kept_gb * prices.storage_gb_month),
        _line("PUT requests: flushes and merges", puts, puts / 1000 * prices.put_thousand),
        _line("LIST requests: flushes and merges", lists, lists / 1000 * prices.put_thousand),
        _line("GET requests: sessions read back, merges", gets, gets / 1000 * prices.get_thousand),
    ]
    total = sum(line.median("dollars") or 0.0 for line in lines)
    return [*lines, Result("**sum**", [{"dollars": total}])]


def _line(name: str, amount: float, dollars: float) -> Result:
    return Result(name, [{"amount": amount, "dollars": dollars}])


def _assumptions(measured: Measured, options: Options) -> list[str]:
    fleet, prices = options.fleet, options.prices
    rate = amplification.active_agents(fleet) * fleet.events_per_hour / 3600
    return [
        f"Assumed, each changeable by its flag: {fleet.agents:,} agents, each active "
        f"{fleet.hours_per_day:g} h a day, spread evenly, so that {amplification.active_agents(fleet)} work "
        f"at any time and no flush is saved; {fleet.events_per_hour:,} events of {fleet.bytes_per_event:,} "
        f"bytes per agent-hour; everything kept for {fleet.kept_days} days; every session read back from "
        f"the bucket {fleet.cold_reads_per_day:g} times a day.",
        f"Measured: {measured.puts_per_flush:.2f} PUTs, {measured.lists_per_flush:.2f} LISTs and "
        f"{measured.gets_per_flush:.2f} GETs per flush with its share of the merges, "
        f"{measured.gets_per_session_read:.1f} GETs per session read back, "
        f"{measured.kept_bytes_per_payload_byte:.2f} bytes kept per payload byte. Flushed every "
        f"{FLUSH_SECONDS:g} s, the default.",
        f"Prices: {prices.name}: {prices.storage_gb_month} $ per GB-month, {prices.put_thousand} $ per "
        f"1,000 PUT and LIST, {prices.get_thousand} $ per 1,000 GET; DELETE is free, and so is traffic "
        "within the region.",
        "Not in it: the hourly sweep, a few LISTs, below 0.02 $; and the machine. This fleet "
        f"writes {rate:.1f} events/s, which takes "
        f"{rate * measured.cpu_seconds_per_event:.2%} of one core, flushes included; the hosted price has "
        "the machines in it.",
    ]
