"""What sandboxes elsewhere have in common: they have a shell, and processes are found by a mark."""

import secrets
import shlex

MARK = "DS_COMMAND"
"""A variable in the environment of a command, and so of all processes that it starts."""

_KILL = """for each in /proc/[0-9]*; do
  if [ "${each#/proc/}" != "$$" ] && grep -q "%s" "$each/environ" 2>/dev/null; then
    kill -9 "${each#/proc/}" 2>/dev/null && found=1
  fi
done"""


def new_mark() -> str:
    """Return a mark for one command."""
    return secrets.token_hex(8)


def kill_marked(mark: str) -> str:
    """Return a command that kills all processes with a mark, and those that they start meanwhile."""
    once = _KILL % f"{MARK}={mark}"
    begin = 'found=1; rounds=0; while [ -n "$found" ] && [ $rounds -lt 50 ]; do found=; rounds=$((rounds+1))'
    return f"{begin}\n{once}\ndone"


def list_directory(path: str) -> str:
    """Return a command that prints the names in a directory, each with a NUL behind, for any POSIX shell."""
    return (
        f"cd -- {shlex.quote(path)} || exit 1\n"
        "for each in * .[!.]* ..?*; do\n"
        '  if [ -d "$each" ] && [ ! -L "$each" ]; then printf "%s/\\0" "$each"\n'
        '  elif [ -e "$each" ] || [ -L "$each" ]; then printf "%s\\0" "$each"; fi\n'
        "done"
    )


def listed(output: bytes) -> list[str]:
    """Return the names that ``list_directory`` printed."""
    return [name.decode(errors="replace") for name in output.split(b"\0") if name]
