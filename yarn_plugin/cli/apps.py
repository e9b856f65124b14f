"""`yarn-plugin apps`, `why` and `token`: clients of a running arbiter."""

from datetime import datetime
from pathlib import Path

import click
from pydantic import ValidationError

from yarn_plugin import console
from yarn_plugin.api import wire
from yarn_plugin.api.client import ArbiterClient, find_token
from yarn_plugin.api.environment import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE
from yarn_plugin.cli.options import Command, json_option
from yarn_plugin.control_characters import escape_controls
from yarn_plugin.errors import BadInputError, os_reason
from yarn_plugin.files import write_private
from yarn_plugin.quantities import count


def arbiter_options(command: Command) -> Command:
    """`--arbiter`, `--token-file` and `--ca-file`: which arbiter, as which user, and the trusted certificates."""
    url = click.option(
        "--arbiter",
        envvar=URL_VARIABLE,
        default=DEFAULT_URL,
        show_default=True,
        metavar="URL",
        show_envvar=True,
        help="URL of the arbiter.",
    )
    token = click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"File with your token.  [default: the token in the env var {TOKEN_VARIABLE}]",
    )
    return url(token(console.ca_option(command)))


@click.command(context_settings=console.CONTEXT)
@arbiter_options
@json_option
def apps(arbiter: str, token_file: Path | None, verify: str | bool, json_file: Path | None) -> None:
    """List your applications and their shares; with the administrator's token, all applications.

    Needs a running arbiter and a token (`yarn-plugin token`). Shares are percentages of the pool, or of its GPUs if it
    leases them: guarantee, what an application can count on (of GPUs, an equal part); entitlement, what it may use now
    (of GPUs, what it leases); used, what it uses. rho is finish-time fairness: the time that its work takes over the
    time with its guarantee alone; "unbounded" without progress, - if unknown. An application has the arbiter's id
    (app_17) and, once submitted, YARN's (application_1700000000000_0042). Below, for each pool: what is divided of the
    cluster, and what applications outside it use, by queue.

    \b
    Example:
      yarn-plugin apps --arbiter http://127.0.0.1:8780 --token-file alice.token
    """
    client = ArbiterClient(arbiter, find_token(token_file), verify)
    found, cluster = client.list_apps(), client.get_cluster()
    columns = (
        "app",
        "name",
        "user",
        "pool",
        "state",
        "#weight",
        "#guarantee",
        "#entitlement",
        "#used",
        "#rho",
        "since",
        "reason",
    )
    console.out.print(console.table(None, columns, [_row(app) for app in found]))
    for pool in cluster.pools:
        console.out.print(_pool(pool, cluster), soft_wrap=True)
    console.out.print(f"enforcement: {_enforcement(cluster)}", soft_wrap=True)
    if json_file is not None:
        pools = [pool.model_dump() for pool in cluster.pools]
        figures = {"apps": [app.model_dump() for app in found], "pools": pools, "enforcement": cluster.enforcement}
        console.write_json(json_file, figures)


@click.command(context_settings=console.CONTEXT)
@click.argument("app")
@arbiter_options
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Number of decisions to show."
)
@json_option
def why(
    app: str, arbiter: str, token_file: Path | None, verify: str | bool, limit: int, json_file: Path | None
) -> None:
    """Explain the share of APP: the last decisions about it, with their reasons.

    APP is the arbiter's id (app_17) or YARN's. seq is the number of the event that led to the decision. If the
    application waits for containers, the ResourceManager's own diagnostics are shown too. Needs a running arbiter and a
    token (`yarn-plugin token`).

    \b
    Example:
      yarn-plugin why application_1700000000000_0042 --token-file alice.token --limit 3
    """
    client = ArbiterClient(arbiter, find_token(token_file), verify)
    answer = client.explain(app, limit)
    if answer.app is not None:
        console.out.print(
            console.table(None, ("app", "YARN application", "queue", "state", "used", "pending"), [_state(answer.app)])
        )
        cluster = client.get_cluster()
        for pool in (one for one in cluster.pools if one.name == answer.app.pool):
            console.out.print(_pool(pool, cluster), soft_wrap=True)
    rows = [(decision.seq, _time(decision.at), _kind(decision), decision.reason) for decision in answer.decisions]
    console.out.print(console.table("decisions", ("#seq", "time", "decision", "reason"), rows))
    for line in answer.cells:
        console.out.print(escape_controls(line), soft_wrap=True)
    for line in answer.manager_says:
        console.out.print(f"ResourceManager: {escape_controls(line)}", soft_wrap=True)
    if json_file is not None:
        console.write_json(json_file, answer.model_dump())


@click.command(context_settings=console.CONTEXT)
@click.argument("user")
@arbiter_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the token to a private file instead of printing it; an existing file is replaced.",
)
def token(user: str, arbiter: str, token_file: Path | None, verify: str | bool, out: Path | None) -> None:
    """Issue a token to USER, who needs it to register applications and read their shares.

    Needs the administrator's token; the arbiter prints the file that contains it. Tokens do not expire. To revoke all
    of them, delete the file `secret` in the arbiter's --state directory and restart the arbiter.

    \b
    Example:
      yarn-plugin token alice --token-file admin.token --out alice.token
    """
    client = ArbiterClient(arbiter, find_token(token_file), verify)
    try:
        issued = client.issue_token(user)
    except ValidationError:
        raise BadInputError("USER", user, wire.USER_NAME) from None
    if out is None:
        click.echo(issued.token)
        return
    try:
        write_private(out, issued.token + "\n")
    except OSError as problem:
        raise BadInputError("--out", str(out), f"cannot be written ({os_reason(problem)})") from None


def _pool(pool: wire.Pool, cluster: wire.Cluster) -> str:
    """What a pool divides, of what, and who else uses some of it."""
    whole = {name: amount for name, amount in cluster.capacity.items() if name in pool.capacity}
    of = f" of {_amounts(whole)}" if whole != pool.capacity and any(whole.values()) else ""
    outside = [
        f"{one.queue} {_amounts(one.used)} ({count(one.apps, 'application')})" for one in pool.outside[:MAX_OUTSIDE]
    ]
    if len(pool.outside) > MAX_OUTSIDE:
        outside.append(f"and {count(len(pool.outside) - MAX_OUTSIDE, 'more queue')}")
    used = f"; outside it: {', '.join(outside)}" if outside else ""
    return escape_controls(f"pool {pool.name} divides {_amounts(pool.capacity)}{of}{used}")


MAX_OUTSIDE = 5
"""Queues outside a pool that are listed: those that use the most."""


def _enforcement(cluster: wire.Cluster) -> str:
    problems = [problem for problem in (cluster.manager_error, cluster.enforcement_error) if problem]
    return escape_controls("; ".join([cluster.enforcement, *problems]))


def _row(app: wire.App) -> tuple[object, ...]:
    share = app.share
    since = _time(share.effective_at) if share else ""
    return (
        app.app,
        app.name,
        app.user,
        app.pool,
        app.state,
        f"{app.weight:g}",
        *_standing(app),
        since,
        share.reason if share else "",
    )


def _standing(app: wire.App) -> tuple[str, str, str, str]:
    standing, share = app.standing, app.share
    if standing is None and share is not None:
        # An earlier arbiter.
        standing = wire.Standing(
            guarantee=share.guarantee.fraction, entitlement=share.entitlement.fraction, used=share.current
        )
    if standing is None:
        return "", "", "", "-"
    rho = "-" if standing.rho is None else standing.rho if isinstance(standing.rho, str) else f"{standing.rho:.2f}"
    return _percent(standing.guarantee), _percent(standing.entitlement), _percent(standing.used), rho


def _state(app: wire.App) -> tuple[object, ...]:
    return app.app, app.yarn_app, app.queue, app.state, _amounts(app.used), _amounts(app.pending)


def _kind(decision: wire.Decision) -> str:
    detail = decision.detail
    if decision.kind == "TellShare" and {"guarantee", "effective_at", "told_at"} <= detail.keys():
        portion, until = detail["guarantee"]["fraction"], detail["effective_at"] - detail["told_at"]
        return f"share {_percent(portion)}" + (f", enforced in {until:.0f} s" if until > 0 else "")
    names = {"Admit": "admitted", "Dismiss": "removed", "SignalContainers": "containers killed"}
    return names.get(decision.kind, decision.kind)


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in amounts.items() if amount) or "nothing"


def _percent(fraction: float) -> str:
    return f"{fraction:.1%}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S")
