"""Runs one command and can kill everything that it started; a program of its own, which imports no package.

``python -I -S supervisor.py REPORT LIFELINE COMMAND``: two numbers of pipes that it inherits, and a line of
the shell. It says on REPORT ``started <pid>`` and, when the command has ended, ``ended <exit code> alone`` or
``ended <exit code> busy``, if processes in the background are left. It ends with the last of them. When
LIFELINE is closed, because time is over, the sandbox is closed or the harness has died, it kills them all.

Killing a process group does not reach processes that have left it (``setsid``). As a *subreaper* (Linux) this
program becomes the parent of every process that has lost its own, so that none can get out of its sight.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

PR_SET_CHILD_SUBREAPER = 36
PAUSE_SECONDS = 0.005
PAUSE_SECONDS_MAX = 0.25


def main() -> None:
    """Run the command, and stay until nothing of it is left."""
    report, lifeline, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with suppress(OSError, AttributeError):  # other systems kill by group alone
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        become(command, report, lifeline)
    detach()
    os.write(report, b"started %d;" % child)
    while True:
        code, others = reap(child)
        if code is not None:
            os.write(report, b"ended %d %s\n" % (code, b"busy" if others else b"alone"))
        if not others:
            return
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready:
            kill_all(child)
            return
        os.read(woken, 4096)


def become(command: str, report: int, lifeline: int) -> None:
    """Turn into the command, in a session and process group of its own."""
    try:
        os.setsid()
        os.close(report)
        os.close(lifeline)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.execv("/bin/sh", ["sh", "-c", command])  # noqa: S606 - it is the shell
    finally:
        os._exit(127)


def detach() -> None:
    """Let go of the pipes of the command, so that their ends are seen."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def reap(child: int) -> "tuple[int | None, bool]":
    """Return the exit code of the child, if it has ended just now, and whether any process is left."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, False
        if pid == 0:
            return code, True
        if pid == child:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else 128 - ended  # as shells say that a signal ended it


def kill_all(group: int) -> None:
    """Kill every descendant, again and again until none is left: some may start others meanwhile."""
    pause = PAUSE_SECONDS
    while True:
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)
        for pid in descendants():
            with suppress(OSError):  # it has ended, or belongs to another user
                os.kill(pid, signal.SIGKILL)
        if not reap(0)[1]:
            return
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


def descendants() -> "list[int]":
    """Return the processes below this one, as far as the system tells."""
    children: dict[int, list[int]] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                    # A name in brackets may hold anything; the parent is the second word behind.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                    children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), []))
    for pid in found:
        found += children.get(pid, [])
    return found


if __name__ == "__main__":
    main()
