"""What the commands that start Spark share of their command lines: spark-submit's words, and the arbiter's options."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from qoop.submit.spark_options import check_spark_options
from yarn_plugin import console
from yarn_plugin.api.environment import TOKEN_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from qoop.submit.registration import ArbiterAccess


Command = TypeVar("Command", bound=Callable[..., Any])


def arbiter_options(
    use: str = "for a share of the cluster; needs --master yarn", token: str = "your token"
) -> Callable[[Command], Command]:
    """The options of a command that registers with an arbiter; `arbiter_access` takes their values.

    Args:
        use: what it registers for.
        token: whose token it needs.
    """
    options = (
        click.option(
            "--arbiter",
            envvar=URL_VARIABLE,
            metavar="URL",
            help=f"Arbiter to register with, {use}.  [env var: {URL_VARIABLE}]",
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=f"With --arbiter: file with {token}.  [default: the token in {TOKEN_VARIABLE}]",
        ),
        console.ca_option,
        click.option("--pool", metavar="NAME", help="With --arbiter: the pool to join, if there are several."),
        click.option(
            "--weight",
            type=console.Number(0, 1000, min_open=True),
            default=1.0,
            help="With --arbiter: weight among the applications in the pool, up to the pool's max_weight.  "
            "[default: 1]",
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class PassThroughCommand(click.Command):
    """A command that accepts its own options anywhere and collects all other words, unchanged, in `rest`.

    Click alone would parse `-Dexample=1` as `-e` with a value. `takes_file`: the last word may be a file.
    """

    def __init__(self, *args: Any, takes_file: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._takes_file = takes_file

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Separate our options from the other words, then let Click parse ours."""
        values = {name: _value_count(option) for option in self.get_params(ctx) for name in option.opts}
        own: list[str] = []
        rest: list[str] = []
        words = list(args)
        while words:
            word = words.pop(0)
            if word in values:
                own += [word, *words[: values[word]]]
                if len(words) < values[word]:
                    # Click reports the missing value.
                    return super().parse_args(ctx, own)
                del words[: values[word]]
            else:
                name, equals, _ = word.partition("=")
                (own if equals and name.startswith("--") and name in values else rest).append(word)
        if not {"-h", "--help"} & {*own, *rest}:
            check_spark_options(rest, values, self._takes_file)
        return super().parse_args(ctx, [*own, "--", *rest])


def _value_count(option: click.Parameter) -> int:
    """How many words an option takes as its value."""
    return 0 if getattr(option, "is_flag", False) or isinstance(option, click.Argument) else option.nargs


def ends_with_file(words: tuple[str, ...]) -> bool:
    """Whether the last of spark-submit's words is not the value of a flag."""
    *others, last = ("--given=", *words)
    return bool(words) and not last.startswith("-") and (not others[-1].startswith("-") or "=" in others[-1])


def is_arbiter_from_environment() -> bool:
    """Whether the arbiter's address is the environment's, not an option."""
    return click.get_current_context().get_parameter_source("arbiter") is ParameterSource.ENVIRONMENT


SHARE_OPTIONS = ("arbiter", "profile", "slots")
"""The options that set the share; a command may lack some."""


def check_one_share(given: Mapping[str, Any]) -> None:
    """Check that one option at most sets the share.

    Raises:
        SubmissionError: several do; the message names them, and where the arbiter's address came from.
    """
    from qoop.submit.job import SubmissionError

    names = [name for name in SHARE_OPTIONS if given.get(name) is not None]
    if len(names) < 2:
        return
    if "arbiter" not in names or not is_arbiter_from_environment():
        options = ", ".join(f"--{name}" for name in names)
        raise SubmissionError(f"{options}: give only one; each of them sets the share")
    others = " and ".join(f"--{name}" for name in names if name != "arbiter")
    raise SubmissionError(
        f"--arbiter (from {URL_VARIABLE}) and {others}: give only one; unset the variable to run without the arbiter"
    )


def arbiter_access(given: dict[str, Any]) -> "ArbiterAccess | None":
    """The arbiter to register with; None without one.

    Raises:
        ArbiterAccessError: there is no token for it.
    """
    from qoop.submit.registration import ArbiterAccess
    from yarn_plugin.api.client import ArbiterAccessError, find_token

    if given["arbiter"] is None:
        return None
    option = f"--arbiter (from {URL_VARIABLE})" if is_arbiter_from_environment() else "--arbiter"
    try:
        token = find_token(given["token_file"])
    except ArbiterAccessError as problem:
        if not is_arbiter_from_environment():
            raise
        raise ArbiterAccessError(f"{problem}; or unset {URL_VARIABLE} to run without the arbiter") from None
    return ArbiterAccess(given["arbiter"], token, given["pool"], given["weight"], given["verify"], option)
