"""The styles. Each trains something tiny and says what its log must be read as."""

import importlib

STYLES, METRICS = {}, {}


class Truth:
    """`values`: (step, value), as a callback of the library saw them. `steps`: where the steps come from. `shown`:
    "each" value is in the log, or "some", the last one among them: a progress bar is not drawn at each step.
    """

    def __init__(self):
        self.values, self.steps, self.shown = [], "steps", "each"

    def add(self, step, value):
        """A value of the metric."""
        self.values.append((int(step), float(value)))


def style(metric="loss"):
    """Register a function as a style whose log is read for this metric."""

    def register(function):
        STYLES[function.__name__], METRICS[function.__name__] = function, metric
        return function

    return register


for module in ("keras", "boosting", "sklearn", "torch", "printing", "nothing"):
    importlib.import_module(f"tests.log_styles.{module}_styles")
