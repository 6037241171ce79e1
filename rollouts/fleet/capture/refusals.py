"""Requests that the proxy refuses, before each API puts them into its own format."""


class Refusal(Exception):
    """A request that gets an error as its response.

    Attributes:
        status: HTTP status; 4xx if the agent can correct the request.
        param: Field of the request; None if no single field is the cause.
        code: Code of the inference server's error; None if it sent none.
        retry_after: Seconds until a retry is useful, as sent by the inference server.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        param: str | None = None,
        code: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after
