"""How much kinds of training slow each other down on one GPU: what is known, learned and predicted (OJPP, 3.3, 4.5)."""

from yarn_plugin.decide.mechanisms.interference.admission import Admission, admissible, score, threshold
from yarn_plugin.decide.mechanisms.interference.known import Interference, Learned, Pair, Profile, learn
from yarn_plugin.decide.mechanisms.interference.predictor import (
    REGRESSIONS,
    Predictor,
    Regression,
    fit,
    is_installed,
    predict,
)

__all__ = [
    "REGRESSIONS",
    "Admission",
    "Interference",
    "Learned",
    "Pair",
    "Predictor",
    "Profile",
    "Regression",
    "admissible",
    "fit",
    "is_installed",
    "learn",
    "predict",
    "score",
    "threshold",
]
