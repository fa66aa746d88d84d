"""What a sandbox takes and gives at most."""

KIB = 1024
MIB = 1024 * KIB

COMMAND_BYTES_MAX = 100 * KIB
"""Linux takes 128 KiB as one argument of a program."""
INPUT_BYTES_MAX = 64 * MIB
FILE_BYTES_MAX = 64 * MIB
LIST_ENTRIES_MAX = 10_000
PATH_BYTES_MAX = 4_000
ENVIRONMENT_BYTES_MAX = 64 * KIB
ID_CHARACTERS_MAX = 63
"""Docker and most services take names of this length."""

OUTPUT_BYTES = 1 * MIB
OUTPUT_BYTES_MAX = 64 * MIB
TIMEOUT_SECONDS = 600.0
TIMEOUT_SECONDS_MAX = 86_400.0
LIFETIME_SECONDS = 3_600
"""How long a service keeps a sandbox whose owner says nothing more."""
