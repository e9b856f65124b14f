"""How the loss of a training job falls with its iterations."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SublinearLoss:
    """1 / (a k^2 + b k + c) + d after k iterations: first-order methods (SLAQ, section 3.1)."""

    a: float
    b: float
    c: float
    d: float

    def at(self, iterations: float) -> float:
        """The loss after so many iterations."""
        return 1.0 / (self.a * iterations * iterations + self.b * iterations + self.c) + self.d


@dataclass(frozen=True, slots=True)
class SuperlinearLoss:
    """u^(k - b) + c after k iterations, 0 < u < 1: quasi-Newton methods (SLAQ, section 3.1)."""

    u: float
    b: float
    c: float

    def at(self, iterations: float) -> float:
        """The loss after so many iterations."""
        return float(self.u ** (iterations - self.b)) + self.c


Loss = SublinearLoss | SuperlinearLoss
