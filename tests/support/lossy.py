"""A transport under the client that carries requests out and loses their answers on command."""

import httpx2


class Lossy(httpx2.BaseTransport):
    """Passes requests on to a real server; of the next ``lose`` ones nobody hears the answer."""

    def __init__(self) -> None:
        self._real = httpx2.HTTPTransport()
        self.lose = 0
        self.requests: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.requests.append(request)
        answer = self._real.handle_request(request)
        if self.lose:
            self.lose -= 1
            answer.close()
            raise httpx2.ReadError("lost")
        return answer

    def repeat(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request once more, as a network that held it back would."""
        answer = self._real.handle_request(request)
        answer.read()
        answer.close()
        return answer

    def close(self) -> None:
        self._real.close()
