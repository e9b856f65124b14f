"""The base of every error whose message is for a person.

Public: the applications (`qoop`, `themis_agent`, `tpcds`) derive their own errors from `ReportedError`.
"""

from collections.abc import Iterator


class ReportedError(Exception):
    """An error to print as one line: what is wrong (field and value), and what would be right.

    `exit_code`: that of a command that fails with this error.
    """

    exit_code = 1


class BadInputError(ReportedError):
    """A value from the user is invalid: the message has the field, the value, and what would be right."""

    exit_code = 2

    def __init__(self, field: str, value: object, expected: str) -> None:
        # None and a flag's truth are Python's: the user has written neither.
        is_shown = value is not None and not (isinstance(value, bool) and field.startswith("--"))
        super().__init__(f"{field} {value!r}: {expected}" if is_shown else f"{field}: {expected}")
        self.field, self.value, self.expected = field, value, expected


def os_reason(problem: OSError) -> str:
    """Why the operating system refused, in the form of our errors, such as "no such file or directory"."""
    reason = problem.strerror or str(problem)
    return f"{reason[:1].lower()}{reason[1:]}"


def with_causes(problem: BaseException) -> Iterator[BaseException]:
    """An exception and what led to it, the nearest first. `requests` and `urllib3` put that among the arguments, or
    under `reason`."""
    waiting, seen = [problem], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        wrapped = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
        waiting += [inner for inner in wrapped if isinstance(inner, BaseException)]


def describe(problem: BaseException) -> str:
    """The type and message of an unexpected exception, on one line of at most 300 characters."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:300]
