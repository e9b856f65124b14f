"""Story files: scenes of events, each with the trace that is expected of it.

A scene is a few lines of events, a line `----` and the trace, which an empty line ends:

    # Comments begin with a number sign.
    at 5 register b
    ----
    5 notify app_4 50.0% from=15 (8192 MiB, 8 vcores) cause=share([app-arrived(app_8)], 2, ...)

A cause stands in a trace as its kind and its fields; the sentences made of causes are in tests/golden.
"""

from dataclasses import dataclass, field, fields

from qoop.plans.plan import StageId
from yarn_plugin.model.causes import Causes

RULE = "----"


@dataclass
class Scene:
    """Lines of events (with comments), and the trace that is expected."""

    lines: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


def read(text):
    """The scenes of a story."""
    scenes, scene, is_trace = [], Scene(), False
    for line in text.splitlines():
        if is_trace and not line.strip():
            scenes.append(scene)
            scene, is_trace = Scene(), False
        elif line.strip() == RULE and not is_trace:
            is_trace = True
        else:
            (scene.expected if is_trace else scene.lines).append(line)
    return [*scenes, scene] if scene.lines or scene.expected else scenes


def write(scenes, traces):
    """The text of a story with these traces."""
    parts = ["\n".join([*scene.lines, RULE, *trace]) + "\n" for scene, trace in zip(scenes, traces, strict=True)]
    return "\n".join(parts)


def cause_value(cause, stage_name=str):
    """A cause as its kind and its fields: `app-arrived(app_4)`; several as a list, with the number of further ones."""
    if isinstance(cause, Causes):
        further = [f"+{cause.more}"] if cause.more else []
        return f"[{', '.join([*map(cause_value, cause.named), *further])}]"
    values = [
        _value(getattr(cause, one.name), stage_name) for one in fields(cause) if one.name not in ("kind", "joins")
    ]
    return f"{cause.kind}({', '.join(values)})" if values else cause.kind


def _value(value, stage_name):
    match value:
        case StageId():
            return stage_name(value)
        case tuple():
            return f"[{', '.join(_value(one, stage_name) for one in value)}]"
        case float():
            return f"{value:.4g}"
        case _ if hasattr(value, "kind"):
            return cause_value(value)
        case _:
            shown = str(value)
            return repr(shown) if " " in shown or not shown else shown
