"""The worker processes of a server that was started with several."""

from pathlib import Path

from tests.support.process import ServerProcess


def worker_pids(server: ServerProcess) -> list[int]:
    """Return the workers that run, the first one first as long as none was started again."""
    assert server.process is not None
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


def alive(pid: int) -> bool:
    """Say whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
