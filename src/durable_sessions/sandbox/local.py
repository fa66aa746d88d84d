"""The backend ``local``: processes on this machine, in a fresh directory.

It keeps runs apart and tidy; it is **no isolation boundary**. A command has the rights of the user who runs
the harness: it can read that user's files, reach the network and signal that user's processes. For code that
you do not trust, use a backend with containers or virtual machines.
"""

import fcntl
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from durable_sessions.sandbox.errors import SandboxClosedError, SandboxLostError, SandboxOpenError
from durable_sessions.sandbox.local_command import LocalCommand
from durable_sessions.sandbox.local_files import LocalFiles
from durable_sessions.sandbox.sandbox import Sandbox
from durable_sessions.sandbox.spec import Result, SandboxSpec

_LOG = logging.getLogger(__name__)
PREFIX = "ds-sandbox-"
KEPT_VARIABLES = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""With those that begin with LC_, all that a command gets from the environment of the harness. A list of what
is harmless: nobody can list the names of all credentials."""


class LocalBackend:
    """Opens sandboxes on this machine; ``root`` is where their directories are made."""

    name = "local"

    def __init__(self, root: Path | str | None = None) -> None:
        self._root = Path(tempfile.gettempdir() if root is None else root)

    def open(self, spec: SandboxSpec) -> "LocalSandbox":
        """Make a fresh directory, after removing those whose harness has died."""
        if spec.image is not None:
            raise SandboxOpenError(
                "The backend local runs on this machine and has no images; leave image out."
            )
        if spec.network is False:
            raise SandboxOpenError(
                "The backend local cannot keep commands from the network; use docker, or leave network out."
            )
        if spec.workdir is not None:
            raise SandboxOpenError("The backend local makes a directory of its own; leave workdir out.")
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            for left in abandoned(self._root):
                shutil.rmtree(left, ignore_errors=True)
            return LocalSandbox(spec, Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._root)))
        except OSError as error:
            raise SandboxOpenError(f"No directory can be made in {self._root}: {error.strerror}.") from error


class LocalSandbox(Sandbox):
    """A directory with ``work``, where commands run, ``home`` and ``tmp``."""

    backend = "local"

    def __init__(self, spec: SandboxSpec, folder: Path) -> None:
        super().__init__(spec)
        self._folder = folder
        # Locked before it has its name, so that nobody takes it for one that was left behind.
        self._owned = os.open(folder / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._owned, fcntl.LOCK_EX)
        (folder / "new").rename(folder / "owner")
        self.workdir = folder / "work"
        for name in ("work", "home", "tmp"):
            (folder / name).mkdir()
        self._files = LocalFiles(self.workdir)
        self._lock = Lock()
        self._commands: set[LocalCommand] = set()

    @property
    def described(self) -> dict[str, Any]:
        """What the place is, as members of ``ds.sandbox``."""
        return {"workdir": str(self.workdir), "network": "host", "host": socket.gethostname()}

    def _run(self, command: str, timeout: float, env: Mapping[str, str], given: bytes | None) -> Result:
        running = self._start(command, env, given)
        try:
            return running.wait(timeout)
        except BaseException:
            running.kill()
            raise
        finally:
            # What it has left in the background is kept in mind, so that closing the sandbox kills it.
            if not running.is_busy:
                with self._lock:
                    self._commands.discard(running)

    def _start(self, command: str, env: Mapping[str, str], given: bytes | None) -> LocalCommand:
        with self._lock:  # so that none is started while others are being killed
            if self.is_closed:
                raise SandboxClosedError(f"The sandbox {self.id} was closed; open another one.")
            # Its last process has ended meanwhile; only now does anybody look.
            for one in [one for one in self._commands if one.has_left()]:
                self._commands.discard(one)
                one.kill()
            if not self.workdir.is_dir():
                raise SandboxLostError(f"The directory of the sandbox is gone: {self.workdir}.")
            running = LocalCommand(
                command, self.workdir, self._environment(env), given, self.spec.output_bytes
            )
            self._commands.add(running)
            return running

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT_VARIABLES or name.startswith("LC_")
        }
        own = {"HOME": str(self._folder / "home"), "TMPDIR": str(self._folder / "tmp")}
        return {**kept, **own, **given}

    def _read(self, path: str) -> bytes:
        return self._files.read(path)

    def _write(self, path: str, content: bytes) -> None:
        self._files.write(path, content)

    def _list(self, path: str) -> list[str]:
        return self._files.list(path)

    def _close(self) -> None:
        with self._lock:
            left, self._commands = self._commands, set()
        for one in left:
            one.kill()
        shutil.rmtree(self._folder, onerror=_make_removable)
        os.close(self._owned)


def abandoned(root: Path) -> Iterator[Path]:
    """Yield the directories of sandboxes whose harness has died: nobody has a lock on them any more."""
    for folder in root.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or just being made or removed
            owner = os.open(folder / "owner", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield folder
            finally:
                os.close(owner)


def _make_removable(_: object, path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
    """Remove what a command has protected against removal; say so if that fails, too."""
    parent = os.path.dirname(path)
    try:
        os.chmod(parent, 0o700)
        os.chmod(path, 0o700, follow_symlinks=False)
    except (OSError, NotImplementedError):
        pass
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
    except OSError as left:
        _LOG.warning("%s of a sandbox could not be removed: %s", path, left)
    del error
