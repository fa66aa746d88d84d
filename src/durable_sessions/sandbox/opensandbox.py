"""The backend ``opensandbox``: sandboxes of an OpenSandbox server, by OpenSandbox's own SDK.

Not tried against the service: the tests use a stand-in with the signatures of the SDK. The key of the service
stays with the SDK in this process; no sandbox gets it.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Timer
from types import ModuleType
from typing import Any

from durable_sessions.sandbox import remote
from durable_sessions.sandbox.errors import SandboxError, SandboxLostError, SandboxOpenError, SandboxPathError
from durable_sessions.sandbox.output import BoundedOutput
from durable_sessions.sandbox.sandbox import Sandbox, Stopwatch, require_file_size
from durable_sessions.sandbox.spec import TIMED_OUT_EXIT_CODE, Result, SandboxSpec

IMAGE = "python:3.12-slim"
WORKDIR = "/workspace"
KILL_SECONDS_MAX = 30
GRACE_SECONDS = 10
"""The server ends a command so much later than we do, if we cannot."""
_GONE = (404, 410)


class OpenSandboxBackend:
    """Opens sandboxes at an OpenSandbox server: at ``domain``, or OPEN_SANDBOX_DOMAIN, or localhost:8080."""

    name = "opensandbox"

    def __init__(
        self, *, domain: str | None = None, protocol: str | None = None, api_key: str | None = None
    ) -> None:
        given = {"domain": domain, "protocol": protocol, "api_key": api_key}
        self._options = {option: value for option, value in given.items() if value is not None}

    def open(self, spec: SandboxSpec) -> "OpenSandboxSandbox":
        """Create a sandbox at the server, and wait until it answers."""
        sdk = OpenSandboxSdk()
        spec = spec.named()
        policy = sdk.models.NetworkPolicy(default_action="allow" if spec.network else "deny")
        connection = sdk.connection.ConnectionConfigSync(**self._options)
        try:
            made = sdk.sync.SandboxSync.create(
                spec.image or IMAGE,
                timeout=timedelta(seconds=spec.lifetime_seconds),
                metadata={"durable-sessions-sandbox": str(spec.id)},
                network_policy=policy,
                connection_config=connection,
            )
        except sdk.exceptions.SandboxException as error:
            raise SandboxOpenError(f"OpenSandbox gave no sandbox: {error}") from error
        sandbox = OpenSandboxSandbox(spec, sdk, made, connection)
        try:
            made.files.create_directories([sdk.files.WriteEntry(path=sandbox.workdir)])
        except sdk.exceptions.SandboxException as error:
            sandbox.close()
            raise SandboxOpenError(f"OpenSandbox made no directory {sandbox.workdir}: {error}") from error
        return sandbox


class OpenSandboxSdk:
    """The modules of the SDK that are used; they are imported when a sandbox is opened."""

    def __init__(self) -> None:
        try:
            import opensandbox.config.connection_sync as connection
            import opensandbox.exceptions as exceptions
            import opensandbox.models.execd as execd
            import opensandbox.models.execd_sync as handlers
            import opensandbox.models.filesystem as files
            import opensandbox.models.sandboxes as models
            import opensandbox.sync.sandbox as sync
        except ImportError as error:
            raise SandboxOpenError(
                "The SDK of OpenSandbox is missing: pip install 'durable-sessions[opensandbox]'."
            ) from error
        self.connection: ModuleType = connection
        self.exceptions: ModuleType = exceptions
        self.execd: ModuleType = execd
        self.handlers: ModuleType = handlers
        self.files: ModuleType = files
        self.models: ModuleType = models
        self.sync: ModuleType = sync


class OpenSandboxSandbox(Sandbox):
    """A sandbox at the server."""

    backend = "opensandbox"

    def __init__(self, spec: SandboxSpec, sdk: OpenSandboxSdk, made: Any, connection: Any) -> None:
        super().__init__(spec)
        self._sdk = sdk
        self._made = made
        self._connection = connection
        self.workdir = spec.workdir or WORKDIR

    @property
    def described(self) -> dict[str, Any]:
        """What the place is, as members of ``ds.sandbox``."""
        return {
            "image": self.spec.image or IMAGE,
            "workdir": self.workdir,
            "network": "internet" if self.spec.network else "none",
            "spec": {"sandbox_id": self._made.id},
        }

    def _run(self, command: str, timeout: float, env: Mapping[str, str], given: bytes | None) -> Result:
        mark, watch = remote.new_mark(), Stopwatch()
        out, err = TextLines(self.spec.output_bytes), TextLines(self.spec.output_bytes)
        with self._losses():
            input_file = f"/tmp/ds-input-{mark}"  # noqa: S108 - in the sandbox, and with a name nobody knows
            if given is not None:  # the interface has no input of commands
                self._made.files.write_file(input_file, given)
                command = f"{{ rm -f {input_file}; sh -c {shlex.quote(command)}; }} < {input_file}"
            over = CommandTimer(timeout, lambda: self._kill(mark))
            with over:
                done = self._made.commands.run(
                    command,
                    opts=self._sdk.execd.RunCommandOpts(
                        working_directory=self.workdir,
                        timeout=timedelta(seconds=timeout + GRACE_SECONDS),
                        envs={**env, remote.MARK: mark},
                    ),
                    handlers=self._sdk.handlers.ExecutionHandlersSync(
                        on_stdout=out.take, on_stderr=err.take, skip_accumulation=True
                    ),
                )
        code = TIMED_OUT_EXIT_CODE if over.is_over else done.exit_code
        if code is None:
            raise SandboxLostError(f"The sandbox {self.id} does not say how the command ended.")
        truncated = out.truncated or err.truncated
        return Result(code, out.text(), err.text(), watch.seconds, truncated, over.is_over)

    def _kill(self, mark: str) -> None:
        options = self._sdk.execd.RunCommandOpts(timeout=timedelta(seconds=KILL_SECONDS_MAX))
        with suppress(self._sdk.exceptions.SandboxException):  # the server does it GRACE_SECONDS later
            self._made.commands.run(remote.kill_marked(mark), opts=options)

    def _read(self, path: str) -> bytes:
        with self._losses(path):
            whole = self._whole(path)
            found = self._made.files.get_file_info([whole])[whole]
            require_file_size(path, found.size)
            return bytes(self._made.files.read_bytes(whole))

    def _write(self, path: str, content: bytes) -> None:
        with self._losses(path):
            parent = self._whole(path).rpartition("/")[0]
            self._made.files.create_directories([self._sdk.files.WriteEntry(path=parent)])
            self._made.files.write_file(self._whole(path), content, mode=644)

    def _list(self, path: str) -> list[str]:
        with self._losses(path):
            entry = self._sdk.files.DirectoryListEntry(path=self._whole(path), depth=1)
            found = self._made.files.list_directory(entry)
        names = ((one.path.rstrip("/").rpartition("/")[2], one.entry_type) for one in found)
        return [f"{name}/" if kind == "directory" else name for name, kind in names]

    def _suspend(self) -> None:
        with self._losses():
            self._made.pause()

    def _resume(self) -> None:
        with self._losses():
            self._made = self._sdk.sync.SandboxSync.resume(self._made.id, self._connection)

    def _close(self) -> None:
        try:
            with self._losses():
                self._made.destroy()
        except SandboxLostError:
            pass

    def _whole(self, path: str) -> str:
        return self.workdir if path == "." else f"{self.workdir}/{path}"

    @contextmanager
    def _losses(self, path: str | None = None) -> Iterator[None]:
        """Say in our words what the SDK says in its own."""
        errors = self._sdk.exceptions
        try:
            yield
        except (errors.SandboxConnectionException, errors.SandboxUnhealthyException) as error:
            raise SandboxLostError(f"The sandbox {self.id} cannot be reached: {error}") from error
        except KeyError as error:
            raise SandboxPathError(f"{path}: there is no such file.") from error
        except errors.SandboxException as error:
            status = getattr(error, "status_code", None)
            if status in _GONE and (path is None or not self._made.is_healthy()):
                raise SandboxLostError(f"The sandbox {self.id} is gone: {error}") from error
            if path is not None:
                raise SandboxPathError(f"{path}: {error}") from error
            raise SandboxError(f"OpenSandbox: {error}") from error


class TextLines:
    """The output of a command, which comes as messages: some servers leave out the line ends between them."""

    def __init__(self, bytes_max: int) -> None:
        self._kept = BoundedOutput(bytes_max)
        self._ends_in = ""

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._kept.truncated

    def take(self, message: Any) -> None:
        """Take a message of the SDK."""
        text: str = message.text
        if text and self._ends_in and self._ends_in not in "\r\n" and text[0] not in "\r\n":
            self._kept.take(b"\n")
        self._kept.take(text.encode())
        self._ends_in = text[-1:] or self._ends_in

    def text(self) -> str:
        """Return what was kept."""
        return self._kept.text()


class CommandTimer:
    """Ends a command when its time is over, while another thread waits for it."""

    def __init__(self, seconds: float, end: Any) -> None:
        self._end = end
        self._timer = Timer(seconds, self._over)
        self._timer.daemon = True
        self.is_over = False

    def __enter__(self) -> "CommandTimer":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()

    def _over(self) -> None:
        self.is_over = True
        self._end()
