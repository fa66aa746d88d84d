"""The backends ``e2b`` and ``cube``: sandboxes of a service that speaks E2B's interface, by E2B's own SDK.

Not tried against the service: the tests use a stand-in with the signatures of the SDK. The key of the service
stays with the SDK in this process; no sandbox gets it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from durable_sessions.sandbox import remote
from durable_sessions.sandbox.errors import SandboxError, SandboxLostError, SandboxOpenError, SandboxPathError
from durable_sessions.sandbox.output import BoundedOutput
from durable_sessions.sandbox.sandbox import Sandbox, Stopwatch, require_file_size
from durable_sessions.sandbox.spec import TIMED_OUT_EXIT_CODE, Result, SandboxSpec

WORKDIR = "/home/user"
KILL_SECONDS_MAX = 30


class E2bBackend:
    """Opens sandboxes at E2B, or at ``url`` of another service with its interface (``name="cube"``).

    The key comes from ``api_key`` or from E2B_API_KEY; ``image`` of a spec is a template of the service.
    """

    def __init__(
        self,
        *,
        name: str = "e2b",
        url: str | None = None,
        domain: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self.name = name
        given = {"api_url": url, "domain": domain, "api_key": api_key}
        self._options = {option: value for option, value in given.items() if value is not None}

    def open(self, spec: SandboxSpec) -> "E2bSandbox":
        """Create a sandbox at the service."""
        sdk = _sdk()
        spec = spec.named()
        try:
            made = sdk.Sandbox.create(
                template=spec.image,
                timeout=spec.lifetime_seconds,
                metadata={"durable_sessions_sandbox": str(spec.id)},
                allow_internet_access=bool(spec.network),
                **self._options,
            )
        except Exception as error:  # its errors have no common base
            raise SandboxOpenError(f"{self.name} gave no sandbox: {error}") from error
        sandbox = E2bSandbox(spec, self.name, sdk, made)
        try:
            made.files.make_dir(sandbox.workdir)
        except Exception as error:
            sandbox.close()
            raise SandboxOpenError(f"{self.name} made no directory {sandbox.workdir}: {error}") from error
        return sandbox


def _sdk() -> ModuleType:
    try:
        import e2b
    except ImportError as error:
        raise SandboxOpenError("The SDK of E2B is missing: pip install 'durable-sessions[e2b]'.") from error
    return e2b  # type: ignore[no-any-return,unused-ignore]


class E2bSandbox(Sandbox):
    """A sandbox at the service."""

    def __init__(self, spec: SandboxSpec, backend: str, sdk: ModuleType, made: Any) -> None:
        super().__init__(spec)
        self._backend = backend
        self._sdk = sdk
        self._made = made
        self.workdir = spec.workdir or WORKDIR

    @property
    def backend(self) -> str:
        """The name of the backend that opened it."""
        return self._backend

    @property
    def described(self) -> dict[str, Any]:
        """What the place is, as members of ``ds.sandbox``."""
        described = {
            "workdir": self.workdir,
            "network": "internet" if self.spec.network else "none",
            "spec": {"sandbox_id": self._made.sandbox_id},
        }
        return described if self.spec.image is None else {**described, "image": self.spec.image}

    def _run(self, command: str, timeout: float, env: Mapping[str, str], given: bytes | None) -> Result:
        mark, watch = remote.new_mark(), Stopwatch()
        out, err = BoundedOutput(self.spec.output_bytes), BoundedOutput(self.spec.output_bytes)
        code = 0
        with self._losses():
            try:
                handle = self._made.commands.run(
                    command,
                    background=True,
                    envs={**env, remote.MARK: mark},
                    cwd=self.workdir,
                    stdin=given is not None,
                    timeout=timeout,
                    retain_output=False,
                )
                if given is not None:
                    handle.send_stdin(given)
                    handle.close_stdin()
                handle.wait(
                    on_stdout=lambda text: out.take(text.encode()),
                    on_stderr=lambda text: err.take(text.encode()),
                )
            except self._sdk.CommandExitException as error:
                code = error.exit_code
            except self._sdk.TimeoutException as error:
                if isinstance(error, self._gone()):
                    raise
                code = TIMED_OUT_EXIT_CODE
                self._kill(mark)
        truncated = out.truncated or err.truncated
        timed_out = code == TIMED_OUT_EXIT_CODE and watch.seconds >= timeout
        return Result(code, out.text(), err.text(), watch.seconds, truncated, timed_out)

    def _kill(self, mark: str) -> None:
        """Kill a command and all that it started: the SDK kills only its shell."""
        try:
            self._made.commands.run(remote.kill_marked(mark), timeout=KILL_SECONDS_MAX)
        except self._sdk.CommandExitException as error:
            raise SandboxError(f"A command whose time was over could not be killed: {error}") from error

    def _read(self, path: str) -> bytes:
        with self._losses(path):
            found = self._made.files.get_info(self._whole(path))
            require_file_size(path, found.size)
            return bytes(self._made.files.read(self._whole(path), format="bytes"))

    def _write(self, path: str, content: bytes) -> None:
        with self._losses(path):
            self._made.files.write(self._whole(path), content)

    def _list(self, path: str) -> list[str]:
        with self._losses(path):
            found = self._made.files.list(self._whole(path))
        is_directory = self._sdk.FileType.DIR
        return [f"{one.name}/" if one.type == is_directory else one.name for one in found]

    def _suspend(self) -> None:
        with self._losses():
            self._made.pause()

    def _resume(self) -> None:
        with self._losses():
            self._made = self._made.connect(timeout=self.spec.lifetime_seconds)

    def _close(self) -> None:
        try:
            self._made.kill()
        except self._gone():
            pass

    def _whole(self, path: str) -> str:
        return self.workdir if path == "." else f"{self.workdir}/{path}"

    def _gone(self) -> tuple[type[Exception], ...]:
        """The errors that say that the sandbox cannot be reached any more."""
        sdk = self._sdk
        return (
            sdk.SandboxNotFoundException,
            sdk.SandboxNotRunningException,
            sdk.SandboxUnreachableException,
        )

    @contextmanager
    def _losses(self, path: str | None = None) -> Iterator[None]:
        """Say in our words what the SDK says in its own."""
        try:
            yield
        except self._gone() as error:
            raise SandboxLostError(f"The sandbox {self.id} is gone: {error}") from error
        except (self._sdk.NotFoundException, self._sdk.InvalidArgumentException) as error:
            if path is None:
                raise SandboxError(f"{self.backend}: {error}") from error
            raise SandboxPathError(f"{path}: {error}") from error
        except (self._sdk.SandboxException, self._sdk.ServiceBusyException) as error:
            raise SandboxError(f"{self.backend}: {error}") from error
