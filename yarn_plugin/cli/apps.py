"""`yarn-plugin apps`, `why` and `token`: what the arbiter knows, for people."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from yarn_plugin import console
from yarn_plugin.api import wire
from yarn_plugin.api.client import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, ArbiterClient, find_token
from yarn_plugin.errors import BadInputError
from yarn_plugin.files import write_private

Command = TypeVar("Command", bound=Callable[..., Any])


def arbiter_options(command: Command) -> Command:
    """The options that say which arbiter, as whom, and which certificates to trust."""
    url = click.option(
        "--arbiter", envvar=URL_VARIABLE, default=DEFAULT_URL, show_default=True, metavar="URL", help="The arbiter."
    )
    token = click.option(
        "--token-file", type=click.Path(path_type=Path), help=f"A file with your token; or set {TOKEN_VARIABLE}."
    )
    return url(token(console.ca_option(command)))


@click.command(context_settings=console.CONTEXT)
@arbiter_options
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to a file too.")
def apps(arbiter: str, token_file: Path | None, verify: str | bool, json_file: Path | None) -> None:
    """The applications of every pool and their shares, and how shares are enforced.

    With the administrator's token: everybody's.
    """
    client = ArbiterClient(arbiter, find_token(token_file), verify)
    found, cluster = client.apps(), client.cluster()
    columns = ("app", "name", "user", "pool", "state", "#weight", "#guarantee", "#entitled", "#uses", "since", "")
    console.out.print(console.table(None, columns, [_row(app) for app in found]))
    console.out.print(f"enforcement: {_enforcement(cluster)}", soft_wrap=True)
    if json_file is not None:
        figures = {"apps": [app.model_dump() for app in found], "enforcement": cluster.enforcement}
        console.write_json(json_file, figures)


@click.command(context_settings=console.CONTEXT)
@click.argument("app")
@arbiter_options
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many decisions.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to a file too.")
def why(
    app: str, arbiter: str, token_file: Path | None, verify: str | bool, limit: int, json_file: Path | None
) -> None:
    """Why APP (the arbiter's id, or YARN's) has what it has: the last decisions about it, with their reasons.

    For an application that waits for containers, also what the ResourceManager itself says.
    """
    client = ArbiterClient(arbiter, find_token(token_file), verify)
    answer = client.why(app, limit)
    if answer.app is not None:
        console.out.print(
            console.table(None, ("app", "yarn", "queue", "state", "uses", "waits for"), [_state(answer.app)])
        )
    rows = [(decision.seq, _time(decision.at), _kind(decision), decision.reason) for decision in answer.decisions]
    console.out.print(console.table("decisions", ("#seq", "at", "what", "why"), rows))
    for line in answer.manager_says:
        console.out.print(f"the ResourceManager says: {console.printable(line)}", soft_wrap=True)
    if json_file is not None:
        console.write_json(json_file, answer.model_dump())


@click.command(context_settings=console.CONTEXT)
@click.argument("user")
@arbiter_options
@click.option("--out", type=click.Path(path_type=Path), help="Write it to a file that only you can read.")
def token(user: str, arbiter: str, token_file: Path | None, verify: str | bool, out: Path | None) -> None:
    """A token for USER, with which that user registers and follows applications. Needs the administrator's token."""
    client = ArbiterClient(arbiter, find_token(token_file), verify)
    try:
        issued = client.issue_token(user)
    except ValidationError as problem:
        raise BadInputError("USER", user, problem.errors()[0]["msg"]) from None
    if out is None:
        click.echo(issued.token)
        return
    try:
        write_private(out, issued.token + "\n")
    except OSError as problem:
        raise BadInputError("--out", str(out), problem.strerror or "it cannot be written") from None


def _enforcement(cluster: wire.Cluster) -> str:
    problems = [problem for problem in (cluster.manager_error, cluster.enforcement_error) if problem]
    return console.printable("; ".join([cluster.enforcement, *problems]))


def _row(app: wire.App) -> tuple[object, ...]:
    share = app.share
    told = (
        (_percent(share.guarantee.fraction), _percent(share.entitlement.fraction), _percent(share.current))
        if share
        else ("", "", "")
    )
    since = _time(share.effective_at) if share else ""
    return (
        app.app,
        app.name,
        app.user,
        app.pool,
        app.state,
        f"{app.weight:g}",
        *told,
        since,
        share.reason if share else "",
    )


def _state(app: wire.App) -> tuple[object, ...]:
    return app.app, app.yarn_app, app.queue, app.state, _amounts(app.used), _amounts(app.pending)


def _kind(decision: wire.Decision) -> str:
    detail = decision.detail
    if decision.kind == "TellShare" and {"guarantee", "effective_at", "told_at"} <= detail.keys():
        portion, until = detail["guarantee"]["fraction"], detail["effective_at"] - detail["told_at"]
        return f"told {_percent(portion)}" + (f", binding in {until:.0f} s" if until > 0 else "")
    names = {"Admit": "admitted", "Dismiss": "dismissed", "SignalContainers": "containers signalled"}
    return names.get(decision.kind, decision.kind)


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items() if amount) or "nothing"


def _percent(fraction: float) -> str:
    return f"{fraction:.1%}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S")
