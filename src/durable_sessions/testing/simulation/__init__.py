"""The real engine in a simulated world: one seed decides everything, and the same seed replays it exactly.

Log, partition, archive and maintenance run as they are on an event loop with virtual time, a disk
that loses unsynced data and fails, a bucket behind a bad network, and a clock that jumps. Processes die
at any moment and start again. Clients record their answers, and the history is checked.

    python -m durable_sessions.testing.simulation --seeds 1000
    python -m durable_sessions.testing.simulation --seed 42 --trace
"""
