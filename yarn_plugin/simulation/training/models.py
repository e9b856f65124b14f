"""The networks of the workloads (thesis, table 3.4), and by how much placement slows each of them down.

Without profiles from files, each has one of three classes of slowdown. Two are those of the jobs in the Themis authors'
workloads, the third is the crude estimate of section 3.4.3.1 (footnote).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from yarn_plugin.model.gpus import Slowdown

COMPUTE_INTENSIVE = Slowdown(1.0, 1 / 0.98, 1 / 0.96)
"""Speeds 1, 0.98 and 0.96 across slots, machines and racks: the jobs of online_workload_0network.json."""

NETWORK_INTENSIVE = Slowdown(1 / 0.9, 1 / 0.7, 1 / 0.5)
"""Speeds 0.9, 0.7 and 0.5: the jobs of online_workload_100network.json."""

UNKNOWN = Slowdown()
"""1, 1.1 and 1.3: for networks about which no file says anything."""


@dataclass(frozen=True, slots=True)
class Model:
    """A network. `share`: of the applications that train it."""

    name: str
    share: float
    slowdown: Slowdown


def _kind(share: float, **models: Slowdown) -> tuple[Model, ...]:
    """Networks of one kind of application. The thesis gives the share of the kind; each of its networks has as much."""
    return tuple(Model(name.replace("_", "-"), share / len(models), slowdown) for name, slowdown in models.items())


TABLE_3_4: tuple[Model, ...] = (
    *_kind(
        0.1,
        Inception_v3=COMPUTE_INTENSIVE,
        AlexNet=NETWORK_INTENSIVE,
        ResNet50=COMPUTE_INTENSIVE,
        VGG16=NETWORK_INTENSIVE,
        VGG19=NETWORK_INTENSIVE,
    ),
    *_kind(0.6, Bi_Att_Flow=UNKNOWN, LangModel=NETWORK_INTENSIVE, GNMT=UNKNOWN, Transformer=NETWORK_INTENSIVE),
    *_kind(0.3, WaveNet=UNKNOWN, DeepSpeech=UNKNOWN),
)
"""Computer vision 10%, language 60%, speech 30%."""

OTHERS: Mapping[str, Slowdown] = {"ResNet-18": COMPUTE_INTENSIVE}
"""Networks of other workloads."""


def slowdowns(profiles: Mapping[str, Slowdown]) -> dict[str, Slowdown]:
    """The slowdown of each network by name. `profiles`: known ones, which replace those of the classes."""
    return {**{model.name: model.slowdown for model in TABLE_3_4}, **OTHERS, **profiles}
