"""A model that says what a script says: the Messages API of Anthropic, on loopback, for real agents."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

Block = dict[str, Any]


class ScriptedModel:
    """Answers requests that offer tools from a script, turn by turn; all others get a word."""

    def __init__(self, turns: list[list[Block]]) -> None:
        self._turns = iter(turns)
        self._guard = Lock()
        self.requests: list[dict[str, Any]] = []
        """The requests that the script has answered."""
        self.url = ""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a message of the model."""
        with self._guard:
            if request.get("tools"):
                self.requests.append(request)
                content = next(self._turns, [{"type": "text", "text": "The script has ended."}])
            else:
                content = [{"type": "text", "text": "ok"}]
            number = len(self.requests)
        called = any(block["type"] == "tool_use" for block in content)
        return {
            "id": f"msg_{number:04}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "scripted"),
            "content": content,
            "stop_reason": "tool_use" if called else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10 + number, "output_tokens": 5},
        }


@contextmanager
def scripted_model(turns: list[list[Block]]) -> Iterator[ScriptedModel]:
    """Serve a scripted model until the block is left."""
    model = ScriptedModel(turns)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
                self._send(b'{"input_tokens":1}', "application/json")
                return
            request = json.loads(body)
            message = model.answer(request)
            if request.get("stream"):
                self._send(b"".join(_frames(message)), "text/event-stream")
            else:
                self._send(json.dumps(message).encode(), "application/json")

        def do_GET(self) -> None:
            self._send(b"{}", "application/json")

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _frames(message: dict[str, Any]) -> Iterator[bytes]:
    """Yield a message as the stream of server-sent events that clients of the API expect."""
    begun = {**message, "content": [], "stop_reason": None}
    yield _frame({"type": "message_start", "message": begun})
    for index, block in enumerate(message["content"]):
        if block["type"] == "tool_use":
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        yield _frame({"type": "content_block_start", "index": index, "content_block": empty})
        yield _frame({"type": "content_block_delta", "index": index, "delta": delta})
        yield _frame({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _frame({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}})
    yield _frame({"type": "message_stop"})


def _frame(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
