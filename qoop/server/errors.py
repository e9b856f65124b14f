"""Errors of the server, as clients see them."""

from qoop.errors import QoopError

GENERAL_ERROR = "HY000"


class ServerError(QoopError):
    """The root of the server's errors: a message, and the SQLSTATE that clients read."""

    def __init__(self, message: str, sql_state: str = GENERAL_ERROR, error_code: int = 0) -> None:
        super().__init__(message)
        self.sql_state, self.error_code = sql_state, error_code


class InvalidHandleError(ServerError):
    """A handle names no session or operation of this user: it has ended, or never was."""


class LimitError(ServerError):
    """A limit of the server is reached."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "53000")


class StatementFailedError(ServerError):
    """A statement has failed; the message is Spark's."""


class AuthenticationError(ServerError):
    """The user or the password is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "28000")


class MalformedError(ServerError):
    """What a client sent is not the protocol, or larger than allowed: its connection is closed."""
