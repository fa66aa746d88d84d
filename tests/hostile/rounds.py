"""How long to attack: ``HOSTILE_ROUNDS=50 pytest tests/hostile`` is fifty times as thorough.

Every round has a seed of its own, which a failing test names; ``HOSTILE_SEED`` begins with another.
"""

import os

ROUNDS = int(os.environ.get("HOSTILE_ROUNDS", "1"))
SEED = int(os.environ.get("HOSTILE_SEED", "1"))
SEEDS = range(SEED, SEED + ROUNDS)
