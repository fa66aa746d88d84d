"""The backend ``docker``: a container of its own for each sandbox, through the command ``docker``."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from durable_sessions.sandbox import bounds, remote
from durable_sessions.sandbox.errors import SandboxError, SandboxLostError, SandboxOpenError, SandboxPathError
from durable_sessions.sandbox.exchange import PipeExchange
from durable_sessions.sandbox.sandbox import Sandbox, Stopwatch, require_file_size
from durable_sessions.sandbox.spec import TIMED_OUT_EXIT_CODE, Result, SandboxSpec

IMAGE = "python:3.12-slim"
WORKDIR = "/workspace"
ANSWER_SECONDS_MAX = 60.0
"""How long docker may take for what should take a moment."""
PULL_SECONDS_MAX = 900.0
_NO_FILE = 66
_NAMES_BYTES_MAX = 8 * bounds.MIB
_READ = f'[ -f "$1" ] || exit {_NO_FILE}; head -c "$2" < "$1"'
_WRITE = 'case "$1" in */*) mkdir -p -- "${1%/*}";; esac && cat > "$1"'


class DockerBackend:
    """Opens containers. ``options`` are further ones of ``docker run``, such as ``("--memory", "2g")``.

    A container has no capabilities, cannot gain privileges, and has no network unless the spec asks for it.
    """

    name = "docker"

    def __init__(self, docker: str = "docker", options: Sequence[str] = ("--pids-limit", "1024")) -> None:
        self._docker = DockerCommand(docker)
        self._options = tuple(options)

    def open(self, spec: SandboxSpec) -> "DockerSandbox":
        """Start a container that waits for commands."""
        spec = spec.named()
        image, workdir, name = spec.image or IMAGE, spec.workdir or WORKDIR, str(spec.id)
        started = self._docker.ask(
            "run",
            "--detach",
            "--init",
            *("--name", name),
            *("--label", "durable-sessions.sandbox"),
            *("--workdir", workdir),
            *("--network", "bridge" if spec.network else "none"),
            *("--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges"),
            *self._options,
            *("--entrypoint", "sh"),
            image,
            *("-c", "while :; do sleep 3600; done"),
            seconds=PULL_SECONDS_MAX,
        )
        if started.exit_code != 0:
            self._docker.ask("rm", "--force", "--volumes", name)  # it may have been created and not started
            raise SandboxOpenError(f"docker run of {image} failed: {_last_line(started.stderr)}")
        digest = self._docker.ask("inspect", "--format", "{{.Image}}", name).stdout.strip()
        described = {
            "image": image,
            "workdir": workdir,
            "network": "bridge" if spec.network else "none",
            "spec": {"container": started.stdout.strip()},
        }
        if digest:
            described["image_digest"] = digest
        return DockerSandbox(spec, self._docker, workdir, described)


class DockerCommand:
    """Runs ``docker``; what it prints is bounded."""

    def __init__(self, program: str) -> None:
        self._program = program

    def ask(
        self,
        *words: str,
        given: bytes | None = None,
        seconds: float = ANSWER_SECONDS_MAX,
        output_bytes: int = bounds.OUTPUT_BYTES,
    ) -> Result:
        """Run docker with these words, and return what it gave."""
        watch = Stopwatch()
        exchange, process = self.start(words, given, output_bytes)
        with process:
            in_time = exchange.run(time.monotonic() + seconds)
            if not in_time:
                process.kill()
            exchange.close()
            code = process.wait()
        out, err = exchange.stdout.text(), exchange.stderr.text()
        code = code if in_time else TIMED_OUT_EXIT_CODE
        return Result(code, out, err, watch.seconds, exchange.truncated, not in_time)

    def start(
        self, words: Sequence[str], given: bytes | None, output_bytes: int
    ) -> "tuple[PipeExchange, subprocess.Popen[bytes]]":
        """Start docker with these words."""
        try:
            process = subprocess.Popen(  # noqa: S603 - the words are arguments, not a line of a shell
                [self._program, *words],
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxOpenError(
                f"{self._program} cannot be run: {error.strerror}. Is it installed?"
            ) from error
        return PipeExchange(process, given, output_bytes, None), process


class DockerSandbox(Sandbox):
    """A container in which commands run by ``docker exec``."""

    backend = "docker"

    def __init__(
        self, spec: SandboxSpec, docker: DockerCommand, workdir: str, described: dict[str, Any]
    ) -> None:
        super().__init__(spec)
        self._docker = docker
        self._workdir = workdir
        self._described = described

    @property
    def described(self) -> dict[str, Any]:
        """What the place is, as members of ``ds.sandbox``."""
        return dict(self._described)

    def _run(self, command: str, timeout: float, env: Mapping[str, str], given: bytes | None) -> Result:
        mark = remote.new_mark()
        words = self._exec({**env, remote.MARK: mark}, ("sh", "-c", command), interactive=given is not None)
        result = self._docker.ask(*words, given=given, seconds=timeout, output_bytes=self.spec.output_bytes)
        if result.timed_out:
            # The end of "docker exec" is not the end of what it started.
            self._docker.ask(*self._exec({}, ("sh", "-c", remote.kill_marked(mark))))
        if result.exit_code != 0:
            self._require_running(result.stderr)
        return result

    def _exec(self, env: Mapping[str, str], words: Sequence[str], *, interactive: bool = False) -> list[str]:
        variables = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        options = ["--interactive"] if interactive else []
        return ["exec", *options, "--workdir", self._workdir, *variables, self.id, *words]

    def _require_running(self, problem: str) -> None:
        """Raise if the container is gone: "docker exec" gives the same exit codes as a command."""
        asked = self._docker.ask("inspect", "--format", "{{.State.Running}}", self.id)
        if asked.exit_code != 0 or asked.stdout.strip() != "true":
            said = _last_line(asked.stderr or problem)
            raise SandboxLostError(f"The container {self.id} does not run any more. {said}".strip())

    def _shell(self, script: str, *arguments: str, given: bytes | None = None) -> Result:
        words = self._exec({}, ("sh", "-c", script, "sh", *arguments), interactive=given is not None)
        result = self._docker.ask(*words, given=given)
        if result.exit_code != 0:
            self._require_running(result.stderr)
        return result

    def _read(self, path: str) -> bytes:
        # Not through _shell: a file is bytes, and larger than the output of a command may be.
        # One byte more than may be read tells a file that is too large from one that just fits.
        limit = bounds.FILE_BYTES_MAX + 1
        words = self._exec({}, ("sh", "-c", _READ, "sh", path, str(limit)))
        code, content, problem = self._docker_bytes(words, limit)
        if code == 0:
            require_file_size(path, len(content))
            return content
        self._require_running(problem)
        raise SandboxPathError(f"{path}: there is no such file. {_last_line(problem)}".strip())

    def _docker_bytes(self, words: Sequence[str], limit: int) -> tuple[int, bytes, str]:
        # Twice as much as can come: an output that is kept in part keeps only half at its beginning.
        exchange, process = self._docker.start(words, None, 2 * limit)
        with process:
            if not exchange.run(time.monotonic() + ANSWER_SECONDS_MAX):
                process.kill()
            exchange.close()
            return process.wait(), exchange.stdout.content(), exchange.stderr.text()

    def _write(self, path: str, content: bytes) -> None:
        result = self._shell(_WRITE, path, given=content)
        if result.exit_code != 0:
            raise SandboxPathError(f"{path} cannot be written: {_last_line(result.stderr)}")

    def _list(self, path: str) -> list[str]:
        words = self._exec({}, ("sh", "-c", remote.list_directory(path)))
        code, names, problem = self._docker_bytes(words, _NAMES_BYTES_MAX)
        if code != 0:
            self._require_running(problem)
            raise SandboxPathError(f"{path} cannot be listed: {_last_line(problem)}")
        return remote.listed(names)

    def _suspend(self) -> None:
        self._run_docker("pause", self.id)

    def _resume(self) -> None:
        self._run_docker("unpause", self.id)

    def _run_docker(self, *words: str) -> None:
        done = self._docker.ask(*words)
        if done.exit_code != 0:
            self._require_running(done.stderr)
            raise SandboxError(f"docker {words[0]} failed: {_last_line(done.stderr)}")

    def _close(self) -> None:
        done = self._docker.ask("rm", "--force", "--volumes", self.id)
        if done.exit_code != 0 and "No such container" not in done.stderr:
            raise SandboxError(f"The container {self.id} could not be removed: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:500]
