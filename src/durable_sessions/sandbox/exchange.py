"""The pipes of a process: its input is fed, its outputs are read to the end, and a bounded part is kept."""

import os
import selectors
import subprocess
import time
from contextlib import suppress
from threading import Thread
from typing import IO

from durable_sessions.sandbox.output import BoundedOutput

_PIECE_BYTES = 64 * 1024


class PipeExchange:
    """Exchanges data with a process until it ends or its time is over.

    A process never waits for a reader: what is beyond the bound is read and dropped. ``report`` is a pipe on
    which a supervisor says that the command has ended; without it, the end of both outputs says so. The
    process was started with pipes for its outputs, and for its input if it is ``given`` one.
    """

    def __init__(
        self, process: "subprocess.Popen[bytes]", given: bytes | None, output_bytes: int, report: int | None
    ) -> None:
        self.stdout = BoundedOutput(output_bytes)
        self.stderr = BoundedOutput(output_bytes)
        self.reported = b""
        self._report = report
        self._unsent = memoryview(given or b"")
        self._input = process.stdin
        assert process.stdout is not None
        assert process.stderr is not None
        self._outputs: dict[IO[bytes], BoundedOutput] = {
            process.stdout: self.stdout,
            process.stderr: self.stderr,
        }
        for pipe in (*self._outputs, self._input):
            if pipe is not None:
                # One thread serves all three: a process that fills one pipe while we wait at another would
                # never end.
                os.set_blocking(pipe.fileno(), False)

    @property
    def truncated(self) -> bool:
        """Whether part of an output was dropped."""
        return self.stdout.truncated or self.stderr.truncated

    def run(self, deadline: float) -> bool:
        """Exchange until the command has ended, and return True; False if its time is over before."""
        with selectors.DefaultSelector() as selector:
            for pipe in self._outputs:
                selector.register(pipe, selectors.EVENT_READ)
            if self._input is not None:
                selector.register(self._input, selectors.EVENT_WRITE)
            if self._report is not None:
                selector.register(self._report, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                for key, _ in selector.select(left):
                    self._serve(key.fileobj, selector)
                if self._has_ended():
                    self.read_rest()
                    return True

    def _has_ended(self) -> bool:
        # With a supervisor the ends of the outputs do not count: processes in the background may keep them
        # open.
        return not self._outputs if self._report is None else self.reported.endswith(b"\n")

    def _serve(self, pipe: object, selector: selectors.BaseSelector) -> None:
        if self._input is not None and pipe is self._input:
            if not self._feed():
                selector.unregister(self._input)
                self.close_input()
        elif pipe == self._report:
            assert self._report is not None
            # The supervisor ends each of its reports with a line end; one that was killed cannot.
            self.reported += os.read(self._report, _PIECE_BYTES) or b"lost\n"
        else:
            for output in list(self._outputs):
                if output is pipe and not self._read(output):
                    selector.unregister(output)
                    self._forget(output)

    def _feed(self) -> bool:
        """Send a part of the input; False if there is no more, or nobody reads it."""
        assert self._input is not None
        try:
            sent = os.write(self._input.fileno(), self._unsent[:_PIECE_BYTES])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        self._unsent = self._unsent[sent:]
        return bool(self._unsent)

    def _read(self, output: IO[bytes]) -> bool:
        """Read a piece of an output; False at its end."""
        piece = os.read(output.fileno(), _PIECE_BYTES)
        self._outputs[output].take(piece)
        return bool(piece)

    def read_rest(self) -> None:
        """Take what lies in the pipes, without waiting for more."""
        for output in list(self._outputs):
            with suppress(BlockingIOError):
                while self._read(output):
                    pass
                self._forget(output)

    def close_input(self) -> None:
        """Let the process see the end of its input."""
        if self._input is not None:
            with suppress(BrokenPipeError):
                self._input.close()
            self._input = None

    def close(self) -> None:
        """Close all pipes."""
        self.close_input()
        for output in list(self._outputs):
            self._forget(output)

    def drain(self) -> None:
        """Read and drop, in a thread of its own, what processes in the background go on printing."""
        self.close_input()
        left = list(self._outputs)
        self._outputs = {}
        for output in left:
            Thread(target=_drop_all, args=(output,), name="drain a sandbox", daemon=True).start()

    def _forget(self, output: IO[bytes]) -> None:
        del self._outputs[output]
        output.close()


def _drop_all(output: IO[bytes]) -> None:
    with output:
        os.set_blocking(output.fileno(), True)
        while os.read(output.fileno(), _PIECE_BYTES):
            pass
