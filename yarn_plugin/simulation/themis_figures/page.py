"""The page of the figures, and the command that makes each."""

from collections.abc import Sequence

from yarn_plugin.quantities import count, number
from yarn_plugin.report import Badge, Code, Column, KeyFigure, KeyFigures, Page, Section, Table, Text
from yarn_plugin.report.table import Tone
from yarn_plugin.simulation.themis_figures import plan
from yarn_plugin.simulation.themis_figures.case import SIZES
from yarn_plugin.simulation.themis_figures.charts import blocks
from yarn_plugin.simulation.themis_figures.claims import Claim, Results, Verdict

TONES: dict[Verdict, Tone] = {"agrees": "good", "not decided": "warn", "disagrees": "bad"}


def command(figure: str, seeds: int, size: str) -> str:
    """The command that makes a figure."""
    return f'yarn-plugin figures themis --only "{figure}" --seeds {seeds} --size {size}'


def shown(claim: Claim) -> tuple[str, str]:
    """The measured effect, and its interval."""
    one = claim.measured
    between = "one seed" if one.low is None else f"{number(one.low, 3)} to {number(one.high, 3)}"
    return number(one.mean, 3), between


def page(results: Results, claims: Sequence[Claim], figures: Sequence[str], seeds: Sequence[int], size: str) -> Page:
    """The page of these figures."""
    its = SIZES[size]
    verdicts = [claim.verdict for claim in claims]
    counted = tuple(KeyFigure(verdict, str(verdicts.count(verdict)), "claims", tone) for verdict, tone in TONES.items())
    return Page(
        title="Themis, thesis chapter 3, simulated",
        subtitle=f"size {size}: {its.apps} applications of at most {count(its.jobs, 'job')} on {its.cluster}, "
        f"durations times {its.scale:g}, {its.cut[0]:g} to {its.cut[1]:g} times the median, load {its.load:g}; "
        f"{count(len(seeds), 'seed')}",
        top=(
            KeyFigures(counted),
            Text(
                "Means over paired seeds: a ratio is taken within each seed, its mean is geometric. Intervals: 95%, by "
                "Student's t. A claim "
                "counts as decided if its whole interval is on one side. The thesis measured 3.9 to 3.14 and table "
                "3.5 on 64 GPUs; here everything is simulated."
            ),
            table(claims),
        ),
        sections=tuple(
            _section(figure, [one for one in claims if one.figure == figure.number], results, seeds, size)
            for figure in plan.FIGURES
            if figure.number in figures
        ),
    )


def table(claims: Sequence[Claim]) -> Table:
    """The claims and what was measured."""
    rows = tuple(
        (one.figure, one.text, one.paper, *shown(one), Badge(one.verdict, TONES[one.verdict])) for one in claims
    )
    columns = (Column("figure"), Column("effect"), Column("thesis"), Column("here", True), Column("95% interval"),
               Column("sign and shape"))  # fmt: skip
    return Table(columns, rows, empty="No claims about these figures.")


def _section(
    figure: plan.Figure, claims: Sequence[Claim], results: Results, seeds: Sequence[int], size: str
) -> Section:
    name = figure.number.capitalize() if figure.number.startswith("table") else f"Figure {figure.number}"
    title = f"{name}: {figure.title}"
    if figure.not_reproduced:
        return Section(title, (Text(f"Not reproduced: {figure.not_reproduced}.", "muted"),))
    own = (table(claims),) if claims else ()
    return Section(
        title,
        (
            *((Text(f"Thesis: {figure.thesis}."),) if figure.thesis else ()),
            *blocks(figure.number, results, seeds, size),
            *own,
            Code(command(figure.number, len(seeds), size)),
        ),
    )
