"""The asking end of one connection of a link: requests out, answers in."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from durable_sessions.errors import LinkDownError, LinkLostError, OutcomeUnknownError, OverloadedError
from durable_sessions.http.carrier.message import Answer, Request, Response, StreamingResponse, Waiting
from durable_sessions.limits import Limits
from durable_sessions.node.link_body import ArrivingBody
from durable_sessions.node.link_chunks import LinkChunks
from durable_sessions.node.link_connection import LinkConnection
from durable_sessions.node.link_frames import (
    ANSWER,
    BODY,
    CANCEL,
    CHUNK,
    CREDIT,
    CREDIT_PAYLOAD,
    DECLINED,
    DURABLE,
    END,
    HELLO,
    PLAIN,
    PROOF,
    REQUEST,
    STREAM,
    AnswerFrame,
    LinkProtocolError,
    PlainFrame,
    decode_answer,
    decode_stream,
    encode,
    encode_request,
)
from durable_sessions.node.link_handshake import Handshake, LinkRefusedError


class Question(asyncio.Future[Answer]):
    """A request that waits for its answer; cancelling it tells the owner."""

    partition: int
    request: Request
    # Until it is settled, the connection that it was sent over, and the number of its stream there.
    asker: "LinkAsker | None" = None
    stream = 0
    size = 0  # what is counted for it, in bytes
    sending = False  # whether some of its body has not been given away yet
    arriving: tuple[AnswerFrame, ArrivingBody] | None = None

    def cancel(self, msg: object | None = None) -> bool:
        """Cancel the request: the client has gone."""
        asker, self.asker = self.asker, None
        cancelled = super().cancel(msg=msg)
        if cancelled and asker is not None:
            asker.withdraw(self.stream)
        return cancelled


class PlainQuestion(NamedTuple):
    """A plain append that waits for what becomes of it."""

    waiting: Waiting
    body: bytes
    size: int


_PLAIN_SINCE = 2
"""The version of the link that brought plain appends."""


class LinkAsker(LinkConnection):
    """An open connection to the owner; ``ready`` is done when the owner has proved itself."""

    side = "the asking side"

    def __init__(
        self, secrets: Sequence[bytes], limits: Limits, on_lost: Callable[["LinkAsker"], None]
    ) -> None:
        handlers = {
            ANSWER: self._answered,
            CHUNK: self._chunk_arrived,
            BODY: self._body_arrived,
            STREAM: self._stream_begins,
            END: self._stream_ended,
            CANCEL: self._broken_off,
            DURABLE: self._durable,
            DECLINED: self._declined,
        }
        super().__init__(limits, secrets, handlers)
        self._on_lost = on_lost
        self._questions: dict[int, Question] = {}
        self._plain: dict[int, PlainQuestion] = {}
        self._takes_plain = False
        self._chunks: dict[int, LinkChunks] = {}
        self._last_stream = 0
        self._flushed_stream = 0
        self.bytes_held = 0
        self.ready: asyncio.Future[None] = self._loop.create_future()

    # Opening ----------------------------------------------------------------------------

    def opened(self) -> None:
        """Greet the owner."""
        assert self._handshake is not None, "it is not open yet"
        self.send(HELLO, 0, self._handshake.greet())

    def shake_hands(self, handshake: Handshake, kind: int, payload: bytes) -> None:
        """Take the greeting and the proof of the owner."""
        try:
            if kind == HELLO and not handshake.version:
                handshake.greeted(payload)
                self.send(PROOF, 0, handshake.asker_proof())
            elif kind == PROOF and handshake.version:
                handshake.check_owner(payload)
                self._takes_plain = handshake.version >= _PLAIN_SINCE
                self._handshake = None
                if not self.ready.done():
                    self.ready.set_result(None)
            else:
                raise LinkProtocolError("a link begins with a greeting and a proof")
        except LinkRefusedError as error:
            self.drop(str(error))

    # Requests ---------------------------------------------------------------------------

    @property
    def open_questions(self) -> int:
        """Requests under way, streamed answers included."""
        return len(self._questions) + len(self._plain) + len(self._chunks)

    @property
    def open_streams(self) -> int:
        """Streamed answers under way."""
        return len(self._chunks)

    @property
    def expects_signs_of_life(self) -> bool:
        """Whether an answer is due."""
        return bool(self._questions or self._plain or self._chunks or self._handshake is not None)

    def ask(self, question: Question) -> None:
        """Send a request; it fails at once if there are too many."""
        limits, request = self._limits, question.request
        payload = encode_request(question.partition, request, limits.link_piece_bytes_max)
        length, sent = len(request.body), min(len(request.body), limits.link_piece_bytes_max)
        size = len(payload) + length - sent
        if len(payload) > limits.link_frame_bytes_max:
            question.set_exception(LinkDownError(reason="its head is larger than a link takes"))
            return
        if self.open_questions >= limits.link_requests_max:
            question.set_exception(OverloadedError(what="requests on one link (link_requests_max)"))
            return
        if self.bytes_held + size > limits.link_bytes_max:
            question.set_exception(OverloadedError(what="bytes on one link (link_bytes_max)"))
            return
        self._last_stream += 1
        stream = self._last_stream
        self.bytes_held += size
        question.size = size
        question.asker = self
        question.stream = stream
        self._questions[stream] = question
        self.send(REQUEST, stream, payload)
        if sent < length:
            question.sending = True
            self.send_rest(stream, request.body, sent)

    def ask_plain(self, sent: PlainFrame, waiting: Waiting) -> bool:
        """Send a plain append, unless there are too many requests, or the owner knows none."""
        limits = self._limits
        if not self._takes_plain or self.open_questions >= limits.link_requests_max:
            return False
        payload = encode(sent)
        size = len(payload)
        if self.bytes_held + size > limits.link_bytes_max or size > limits.link_frame_bytes_max:
            return False
        self._last_stream += 1
        self.bytes_held += size
        self._plain[self._last_stream] = PlainQuestion(waiting, sent.body, size)
        self.send(PLAIN, self._last_stream, payload)
        return True

    def flushed(self) -> None:
        """Note which requests may have reached the owner."""
        self._flushed_stream = self._last_stream

    def body_sent(self, stream: int) -> None:
        """Note that a request with a large body may have reached the owner."""
        question = self._questions.get(stream)
        if question is not None:
            question.sending = False

    def withdraw(self, stream: int) -> None:
        """Tell the owner that nobody waits for an answer any more."""
        if self._settled(stream) is not None:
            self.drop_rest(stream)
            self.send(CANCEL, stream)

    def _settled(self, stream: int) -> Question | None:
        """Forget a question that has its answer, or needs none any more."""
        question = self._questions.pop(stream, None)
        if question is not None:
            self.bytes_held -= question.size
            question.asker = None
        return question

    # Answers ----------------------------------------------------------------------------

    def _durable(self, stream: int, payload: bytes) -> None:
        self._settled_plain(stream).waiting.durable(payload)

    def _declined(self, stream: int, payload: bytes) -> None:
        question = self._settled_plain(stream)
        question.waiting.declined(question.body)

    def _settled_plain(self, stream: int) -> PlainQuestion:
        question = self._plain.pop(stream, None)
        if question is None:
            raise LinkProtocolError("an answer belongs to no plain append")
        self.bytes_held -= question.size
        return question

    def _answered(self, stream: int, payload: bytes) -> None:
        answer = decode_answer(payload)
        if stream in self._plain:
            if answer.length != len(answer.body):
                raise LinkProtocolError("the answer to a plain append comes in pieces")
            refusal = Response(answer.status, answer.headers, answer.body)
            self._settled_plain(stream).waiting.refused(refusal)
            return
        if answer.length == len(answer.body):
            question = self._settled(stream)
            if question is None:
                self._require_old(stream)
            elif not question.done():
                question.request.audience = answer.audience
                question.set_result(Response(answer.status, answer.headers, answer.body))
        else:
            self._expect(stream, answer)

    def _require_old(self, stream: int) -> None:
        """Refuse a frame for a stream that never was; one that has ended may still get frames."""
        if not 0 < stream <= self._last_stream:
            raise LinkProtocolError("an answer belongs to no request")

    def _expect(self, stream: int, answer: AnswerFrame) -> None:
        question = self._questions.get(stream)
        if question is None:
            self._require_old(stream)
            return
        if self.bytes_held + answer.length > self._limits.link_bytes_max:
            self._settled(stream)
            self.send(CANCEL, stream)
            reason = "its answer does not fit into link_bytes_max with all others"
            question.set_exception(LinkLostError(reason=reason))
            return
        self.bytes_held += answer.length
        question.size += answer.length
        question.arriving = answer, ArrivingBody(answer.length, answer.body)

    def _body_arrived(self, stream: int, piece: bytes) -> None:
        question = self._questions.get(stream)
        if question is None:
            self._require_old(stream)
            return
        if question.arriving is None:
            raise LinkProtocolError("a piece of a body belongs to no answer")
        answer, body = question.arriving
        if body.add(piece):
            self._settled(stream)
            question.request.audience = answer.audience
            question.set_result(Response(answer.status, answer.headers, body.whole()))

    def _stream_begins(self, stream: int, payload: bytes) -> None:
        head = decode_stream(payload)
        question = self._settled(stream)
        if question is None:
            self._require_old(stream)
            return
        chunks = LinkChunks(
            self._limits.link_credit_bytes,
            partial(self._give_credit, stream),
            partial(self._stop_stream, stream),
        )
        self._chunks[stream] = chunks
        question.request.audience = head.audience
        question.set_result(StreamingResponse(head.status, head.headers, chunks))

    def _chunk_arrived(self, stream: int, piece: bytes) -> None:
        chunks = self._chunks.get(stream)
        if chunks is None:
            self._require_old(stream)
        else:
            chunks.arrived(piece)

    def _stream_ended(self, stream: int, payload: bytes) -> None:
        chunks = self._chunks.pop(stream, None)
        if chunks is None:
            self._require_old(stream)
        else:
            chunks.ended()

    def _broken_off(self, stream: int, payload: bytes) -> None:
        reason = "the owner broke the answer off"
        chunks, question = self._chunks.pop(stream, None), self._settled(stream)
        if chunks is not None:
            chunks.broke_off(reason)
        elif question is not None:
            question.set_exception(LinkLostError(reason=reason))
        else:
            self._require_old(stream)

    def _give_credit(self, stream: int, credit: int) -> None:
        if stream in self._chunks:
            self.send(CREDIT, stream, CREDIT_PAYLOAD.pack(credit))

    def _stop_stream(self, stream: int) -> None:
        if self._chunks.pop(stream, None) is not None:
            self.send(CANCEL, stream)

    # Life -------------------------------------------------------------------------------

    def lost(self, reason: str) -> None:
        """Fail whatever was under way, and say of each request whether it may have reached the owner."""
        questions, self._questions = self._questions, {}
        chunks, self._chunks = self._chunks, {}
        plain, self._plain = self._plain, {}
        self.bytes_held = 0
        if not self.ready.done():
            self.ready.set_exception(LinkDownError(reason=reason))
            self.ready.exception()
        for stream, question in questions.items():
            question.asker = None
            if question.done():
                continue
            # A request that was not given to the operating system as a whole cannot have been carried out, so
            # it may be repeated. Whether any other was is unknown.
            if question.sending or stream > self._flushed_stream:
                question.set_exception(LinkDownError(reason=reason))
            else:
                question.set_exception(LinkLostError(reason=reason))
        for one in chunks.values():
            one.broke_off(reason)
        self._on_lost(self)
        for stream, append in plain.items():
            if stream > self._flushed_stream:
                append.waiting.declined(append.body)
            else:
                append.waiting.failed(OutcomeUnknownError(reason=reason))
