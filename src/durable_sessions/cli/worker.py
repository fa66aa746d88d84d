"""One of several workers: ``python -m durable_sessions.cli.worker``, which only the supervisor starts."""

import os
import sys

import structlog

from durable_sessions.cli.command_errors import described
from durable_sessions.cli.error_output import print_error
from durable_sessions.cli.log_format import configure_logs
from durable_sessions.cli.server_process import RefusedStartError, run
from durable_sessions.errors import DurableSessionsError
from durable_sessions.node.worker_channel import WorkerChannel
from durable_sessions.node.worker_start import WorkerStart

logger = structlog.get_logger(__name__)


class SupervisedWorker:
    """The supervision of this process, over its channel to the supervisor."""

    def __init__(self, channel: WorkerChannel, start: WorkerStart) -> None:
        self._channel = channel
        self._start = start

    def begin(self) -> None:
        """Listen to the supervisor."""
        self._channel.listen(self._gone)

    def serving(self) -> None:
        """Tell that requests are answered."""
        self._channel.tell_ready()

    async def drained(self) -> None:
        """Tell that no clients are left, and wait until the other workers have none."""
        await self._channel.drained(self._start.limits.shutdown_seconds_max)

    def _gone(self) -> None:
        # As if the server had been killed with its supervisor: what was acknowledged is durable, and who
        # starts the server again must not find the data in use.
        logger.error("supervisor_gone")
        self._start.group.forget_sockets()
        os._exit(1)


def main() -> None:
    """Serve as the supervisor says, until it says stop or is gone; failures are told as by any command."""
    channel = WorkerChannel()
    try:
        start = WorkerStart.decode(channel.start())
    except EOFError:
        sys.exit(1)
    configure_logs(start.settings, worker=start.group.worker.number)
    try:
        run(start.settings, start.limits, start.group, SupervisedWorker(channel, start))
    except RefusedStartError as refused:
        _end(refused.error)
    except (DurableSessionsError, OSError) as error:
        _end(error)


def _end(error: Exception) -> None:
    shown = described(error)
    print_error(shown, as_json=False)
    sys.exit(shown.exit_code)


if __name__ == "__main__":
    main()
