"""Values that are computed when they are first asked for, by many threads at once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class computed_once(Generic[Owner, Value]):  # noqa: N801 - named like `property`
    """As `functools.cached_property`, without its lock.

    In Python 3.11 that is one lock for all objects of a class: while one query waits for Spark to list a table, no
    other query of the process could be planned. If two threads ask one object at once, its value may be computed twice.
    """

    def __init__(self, compute: Callable[[Owner], Value]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> "computed_once[Owner, Value]": ...

    @overload
    def __get__(self, instance: Owner, owner: type) -> Value: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = self._compute(instance)
        # From now on the object's own attribute is found first.
        return instance.__dict__.setdefault(self._name, value)
