"""A transport for clients whose server is killed while they connect."""

import httpx2


class CutTransport(httpx2.AsyncHTTPTransport):
    """Calls a connection that was cut while it was being made what it is: a failed connection.

    The socket layer asks a socket for its peer that is gone by then, and raises AttributeError.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except AttributeError as error:
            if "getpeername" not in str(error):
                raise
            raise httpx2.ConnectError("cut while connecting", request=request) from error
