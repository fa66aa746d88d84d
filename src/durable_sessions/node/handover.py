"""Hand-over of connections between processes of one machine, over a unix socket.

The giving side offers a descriptor with the request that was read from it. The taking side accepts or
declines; it begins only when the giving side confirms. So a connection is never served by both, whoever is
slow or dies: until the confirmation the giving side can still forward the request.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from struct import Struct, unpack

import structlog

from durable_sessions.http.carrier.message import Request
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import Limits
from durable_sessions.node.link_frames import LinkProtocolError, decode_request, encode_request, to_request

_OFFER, _ACCEPT, _DECLINE, _CONFIRM, _WITHDRAW = range(1, 6)
_MESSAGE = Struct("<BQ")
"""Kind of the message and number of the offer; the request follows in an offer."""
_MESSAGES_PER_TURN = 16
_CREDENTIALS = "iII"  # struct ucred: pid, uid, gid
_CREDENTIALS_BYTES = 12
_GONE = (ConnectionError, FileNotFoundError)

logger = structlog.get_logger(__name__)


class HandOverChannel:
    """One side of a connection between two processes, which carries messages and descriptors."""

    def __init__(self, sock: socket.socket, message_bytes_max: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._bytes_max = message_bytes_max
        self.closed = False

    def start(self) -> None:
        """Receive messages."""
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def received(self, kind: int, number: int, payload: bytes, descriptors: list[int]) -> None:
        """Handle a message; the descriptors belong to the handler."""
        raise NotImplementedError

    def ended(self) -> None:
        """Clean up: nothing more can be sent or received."""

    def send(self, kind: int, number: int, payload: bytes = b"", descriptor: int | None = None) -> bool:
        """Send a message, unless too many are waiting; say whether it was sent."""
        message = _MESSAGE.pack(kind, number) + payload
        descriptors = [] if descriptor is None else [descriptor]
        try:
            socket.send_fds(self._socket, [message], descriptors, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except OSError:
            self.close()
            return False
        return True

    def _readable(self) -> None:
        for _ in range(_MESSAGES_PER_TURN):
            try:
                message, descriptors, _, _ = socket.recv_fds(
                    self._socket, _MESSAGE.size + self._bytes_max, 4, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            if len(message) < _MESSAGE.size:  # an empty one is how SEQPACKET tells the end of the connection
                _close_all(descriptors)
                self.close()
                return
            kind, number = _MESSAGE.unpack_from(message)
            self.received(kind, number, message[_MESSAGE.size :], descriptors)
            if self.closed:
                return

    def close(self) -> None:
        """End the connection."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self.ended()


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class HandOverSender:
    """Gives connections to the process that listens at ``path``; connects when there is one to give."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._channel: _GivingChannel | None = None

    async def give(self, descriptor: int, request: Request) -> bool:
        """Offer a connection with a request; say whether the other process has taken it."""
        if len(request.body) > self._limits.hand_over_bytes_max:
            return False
        payload = encode_request(0, request, self._limits.hand_over_bytes_max)
        if len(payload) > self._limits.hand_over_bytes_max:
            return False
        channel = self._connected()
        if channel is None or channel.offers >= self._limits.hand_overs_max:
            return False
        return await channel.give(descriptor, payload, self._limits.hand_over_seconds_max)

    def _connected(self) -> "_GivingChannel | None":
        if self._channel is None or self._channel.closed:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            sock.setblocking(False)
            try:
                sock.connect(str(self._path))  # never waits: a full backlog is an error
            except OSError as error:
                sock.close()
                if not isinstance(error, _GONE):
                    logger.warning("hand_over_refused", path=str(self._path), reason=str(error))
                return None
            self._channel = _GivingChannel(sock, self._limits.hand_over_bytes_max)
            self._channel.start()
        return self._channel

    def close(self) -> None:
        """Give no more; connections that are on offer stay here."""
        if self._channel is not None:
            self._channel.close()


class _GivingChannel(HandOverChannel):
    def __init__(self, sock: socket.socket, message_bytes_max: int) -> None:
        super().__init__(sock, message_bytes_max)
        self._offers: dict[int, asyncio.Future[bool]] = {}
        self._last = 0

    @property
    def offers(self) -> int:
        """How many connections are on offer."""
        return len(self._offers)

    async def give(self, descriptor: int, payload: bytes, seconds_max: float) -> bool:
        """Offer a connection, and confirm it when it was accepted."""
        # Offer, accept, confirm: both processes have the connection open until the last message, but only one
        # may read from it. The taker begins with the confirmation. Without one, however the channel ends, the
        # giver keeps the connection, so a request is never answered twice.
        self._last += 1
        number = self._last
        if not self.send(_OFFER, number, payload, descriptor):
            return False
        taken = self._offers[number] = self._loop.create_future()
        try:
            async with asyncio.timeout(seconds_max):
                await taken
        except TimeoutError:
            pass  # unless it was confirmed in the same turn, which the result tells
        finally:
            del self._offers[number]
            # Also if this task is cancelled: the client has gone, or this process ends.
            if taken.cancelled():
                self._tell(_WITHDRAW, number)
        return not taken.cancelled() and taken.result()

    def received(self, kind: int, number: int, payload: bytes, descriptors: list[int]) -> None:
        """Handle the reply to an offer."""
        _close_all(descriptors)
        offer = self._offers.get(number)
        if offer is None or offer.done():
            return  # it was withdrawn, and the other process has been told so
        # Confirmed in this very step, so that nothing can come between the decision and the message.
        offer.set_result(kind == _ACCEPT and self._tell(_CONFIRM, number))

    def _tell(self, kind: int, number: int) -> bool:
        """Send what must arrive; if it cannot be sent, the end of the channel says that nothing was given."""
        if self.send(kind, number):
            return True
        self.close()
        return False

    def ended(self) -> None:
        """Keep what was on offer."""
        for offer in self._offers.values():
            if not offer.done():
                offer.set_result(False)


class HandOverReceiver:
    """Takes connections for ``server`` from other processes of the same user."""

    def __init__(self, server: HttpServer, limits: Limits) -> None:
        self._server = server
        self._limits = limits
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._channels: set[_TakingChannel] = set()
        self._adoptions: set[asyncio.Task[None]] = set()

    def listen(self, path: Path) -> None:
        """Accept offers at a path; a socket that a dead process left there is replaced."""
        path.unlink(missing_ok=True)
        # SEQPACKET keeps the borders of messages: each arrives whole, with its own descriptor.
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.setblocking(False)
        try:
            listener.bind(str(path))
            # Between bind() and listen() connections are refused: nobody gets in before the mode is set.
            path.chmod(0o600)
            listener.listen()
        except OSError:
            listener.close()
            raise
        self._listener, self._path = listener, path
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept)

    def _accept(self) -> None:
        assert self._listener is not None, "it listens"
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        uid = unpack(
            _CREDENTIALS, sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS_BYTES)
        )[1]
        if uid != os.getuid():
            logger.warning("hand_over_refused", reason=f"it comes from user {uid}")
            sock.close()
            return
        channel = _TakingChannel(sock, self._limits, self._server, self._adopt, self._channels.discard)
        self._channels.add(channel)
        channel.start()

    def _adopt(self, connection: socket.socket, request: Request) -> None:
        task = asyncio.create_task(self._serve(connection, request))
        self._adoptions.add(task)
        task.add_done_callback(self._adoptions.discard)

    async def _serve(self, connection: socket.socket, request: Request) -> None:
        try:
            await self._server.adopt(connection, request)
        except OSError as error:
            connection.close()
            logger.warning("adoption_failed", reason=str(error))

    async def close(self) -> None:
        """Take no more; those already confirmed are served."""
        listener, self._listener = self._listener, None
        if listener is not None and self._path is not None:
            asyncio.get_running_loop().remove_reader(listener.fileno())
            listener.close()
            self._path.unlink(missing_ok=True)
        for channel in tuple(self._channels):
            channel.close()
        if self._adoptions:
            await asyncio.wait(self._adoptions)


class _TakingChannel(HandOverChannel):
    def __init__(
        self,
        sock: socket.socket,
        limits: Limits,
        server: HttpServer,
        adopt: Callable[[socket.socket, Request], None],
        forget: Callable[["_TakingChannel"], None],
    ) -> None:
        super().__init__(sock, limits.hand_over_bytes_max)
        self._most = limits.hand_overs_max
        self._server = server
        self._adopt = adopt
        self._forget = forget
        self._accepted: dict[int, tuple[int, Request]] = {}  # not confirmed yet

    def received(self, kind: int, number: int, payload: bytes, descriptors: list[int]) -> None:
        """Handle an offer, or what became of one."""
        if kind == _OFFER:
            self._offered(number, payload, descriptors)
            return
        _close_all(descriptors)
        accepted = self._accepted.pop(number, None)
        if accepted is None:
            return
        descriptor, request = accepted
        if kind == _CONFIRM:
            self._adopt(socket.socket(fileno=descriptor), request)
        else:
            os.close(descriptor)

    def _offered(self, number: int, payload: bytes, descriptors: list[int]) -> None:
        request = self._request(payload)
        if (
            request is None
            or len(descriptors) != 1  # none: this process has as many open files as it may have
            or len(self._accepted) >= self._most
            or not self._server.can_adopt
            or number in self._accepted
        ):
            _close_all(descriptors)
            self.send(_DECLINE, number)
        elif self.send(_ACCEPT, number):
            # Noted behind the message, which may fail: the reply to it cannot be read before this turn ends.
            self._accepted[number] = descriptors[0], request
        else:
            _close_all(descriptors)

    @staticmethod
    def _request(payload: bytes) -> Request | None:
        try:
            sent = decode_request(payload)
        except LinkProtocolError as error:
            logger.warning("hand_over_refused", reason=str(error))
            return None
        request = to_request(sent, sent.body)
        # Where a name lives is for the router of this process to find: a note is shown to one partition only.
        request.named = None
        return request

    def ended(self) -> None:
        """Drop what was not confirmed: the other process still has it, or is gone."""
        accepted, self._accepted = self._accepted, {}
        _close_all([descriptor for descriptor, _ in accepted.values()])
        self._forget(self)
