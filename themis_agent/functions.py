"""A Python function as the command of a search, packed so that a trial calls it in a process of its own, anywhere.

The archive is a zip that `python` runs: the function as cloudpickle writes it, cloudpickle, and the user's own modules
that the function uses. Installed packages do not travel: trials import them.
"""

import hashlib
import inspect
import io
import json
import re
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle

from themis_agent.trial.function import ABOUT, PICKLE
from yarn_plugin import files
from yarn_plugin.errors import BadInputError

MAX_BYTES = 256 << 20
"""Of a pickled function with the data that it refers to."""

_OURS = ("themis_agent", "yarn_plugin")
_MAIN = "from themis_agent.trial.function import main\n\nmain(__import__('sys').argv[0])\n"
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class Packed:
    """A packed function. `digest`: of its code, the values that it uses and its modules, but not of where they are:
    the same function, packed by another process, has the same one. `saves`: it may save checkpoints."""

    name: str
    digest: str
    archive: bytes
    saves: bool

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.digest}.pyz"

    def write(self, directory: Path) -> Path:
        """Write it into a directory, if it is not there; returns its file.

        Raises:
            OSError: it cannot be written.
        """
        path = directory / self.file
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with files.draft(path, files.PRIVATE_MODE) as draft:
                draft.write(self.archive)
        return path


def pack(function: Callable[[dict[str, Any]], object]) -> Packed:
    """Pack a function of one argument, the parameters of a trial.

    Raises:
        BadInputError: it cannot be called so, or uses something that cannot travel.
    """
    shown = getattr(function, "__qualname__", type(function).__name__).rpartition(".")[2]
    name = re.sub(r"\W+", "", shown) or "function"
    _check(function, shown)
    used = dict(_used(function))
    modules = _own_modules(used)
    try:
        pickled = cloudpickle.dumps(function)
    except Exception as problem:  # noqa: BLE001 - whatever an object's own pickling raises
        raise BadInputError("function", shown, _cannot_travel(function, problem)) from None
    if len(pickled) > MAX_BYTES:
        raise BadInputError(
            "function",
            shown,
            f"has {len(pickled) >> 20} MiB with the data that it uses; must be at most {MAX_BYTES >> 20}: read large "
            "data inside the function, from a file",
        )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        about = {"name": shown, "python": sys.version_info[:2]}
        archive.writestr(ABOUT, json.dumps(about))
        archive.writestr(PICKLE, pickled)
        archive.writestr("__main__.py", _MAIN)
        for path in sorted(Path(cloudpickle.__file__).parent.glob("*.py")):
            archive.write(path, f"cloudpickle/{path.name}")
        for inside, path in modules.items():
            archive.write(path, inside)
    saves = any(b"checkpoint" in text.lower() for text in (pickled, *(path.read_bytes() for path in modules.values())))
    return Packed(name, _digest(function, used, modules), written.getvalue(), saves)


def _check(function: object, shown: str) -> None:
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        kind = "generator" if inspect.isgeneratorfunction(function) else "coroutine"
        raise BadInputError("function", shown, f"is a {kind}; must be a function that trains when it is called")
    try:
        inspect.signature(function).bind({})  # type: ignore[arg-type]
    except TypeError:
        expected = "must take one argument, the parameters of the trial as a dictionary"
        raise BadInputError("function", shown, expected) from None
    except ValueError:  # One of an extension says nothing of its arguments.
        pass


def _used(value: object, seen: set[int] | None = None) -> Iterator[tuple[str, object]]:
    """What a function uses, by name, directly or through functions and classes that travel with it."""
    seen = set() if seen is None else seen
    for name, part in _parts(value):
        if id(part) not in seen:
            seen.add(id(part))
            yield name, part
            yield from _used(part, seen)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    match value:
        case MethodType():
            yield from (("self", value.__self__), (value.__func__.__name__, value.__func__))
        case partial():
            yield value.func.__name__ if hasattr(value.func, "__name__") else "func", value.func
            yield from ((f"argument {place}", one) for place, one in enumerate(value.args, 1))
            yield from value.keywords.items()
        case FunctionType() if not _is_installed(sys.modules.get(value.__module__)):
            yield from _module_of(value)
            names = _names(value.__code__)
            yield from ((name, one) for name, one in value.__globals__.items() if name in names)
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
            yield from ((name, cell.cell_contents) for name, cell in cells if cell != type(cell)())
            yield from ((f"default {place}", one) for place, one in enumerate(value.__defaults__ or (), 1))
        case type() if not _is_installed(sys.modules.get(value.__module__)):
            yield from _module_of(value)
            yield from ((base.__name__, base) for base in value.__bases__)
            yield from ((name, one) for name, one in vars(value).items() if isinstance(one, FunctionType))
        case ModuleType() if _source(value) is not None:
            kinds = (FunctionType, type, ModuleType)
            yield from ((name, one) for name, one in vars(value).items() if isinstance(one, kinds))
        case _ if not isinstance(value, (*_PLAIN, ModuleType, type, FunctionType)):
            yield type(value).__name__, type(value)


def _module_of(value: FunctionType | type) -> Iterator[tuple[str, object]]:
    """The user's module that a function or class is imported from: with all that it imports itself."""
    module = sys.modules.get(value.__module__)
    if module is not None and _source(module) is not None:
        yield module.__name__, module


def _names(code: CodeType) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _own_modules(used: dict[str, object]) -> dict[str, Path]:
    """The source files, by their names in the archive, of the user's modules that hold what a function uses."""
    found: dict[str, Path] = {}
    for value in used.values():
        module = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        parts = module.__name__.split(".") if module is not None else []
        # A module is imported after the packages that it is in.
        for end in range(1, len(parts) + 1):
            of = sys.modules.get(".".join(parts[:end]))
            path = _source(of)
            if of is not None and path is not None:
                is_package = path.name == "__init__.py"
                found["/".join(parts[:end]) + ("/__init__.py" if is_package else ".py")] = path
    return found


def _source(module: ModuleType | None) -> Path | None:
    """The file of a module that is the user's own; None: it is none."""
    if module is None or module.__name__ == "__main__" or module.__name__.partition(".")[0] in _OURS:
        return None
    path = getattr(module, "__file__", None)
    return Path(path) if path is not None and path.endswith(".py") and not _is_installed(module) else None


def _is_installed(module: ModuleType | None) -> bool:
    """Whether trials import a module from their own Python."""
    if module is None or module.__name__ == "__main__":
        return False
    path = getattr(module, "__file__", None)
    if path is None:
        return not hasattr(module, "__path__")  # Built in, or a namespace package, which may be the user's.
    inside = Path(path).resolve()
    installed = {"site-packages", "dist-packages"} & set(inside.parts)
    libraries = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    ours = module.__name__.partition(".")[0] in _OURS
    return bool(installed) or ours or any(inside.is_relative_to(one) for one in libraries)


def _digest(function: object, used: dict[str, object], modules: dict[str, Path]) -> str:
    found = hashlib.sha256()
    for name, value in (("", function), *sorted(used.items(), key=lambda one: one[0])):
        found.update(f"{name}={_fingerprint(value)};".encode())
    for inside, path in sorted(modules.items()):
        found.update(inside.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _fingerprint(value: object) -> str:
    """What stays the same from process to process as long as a value does; of unknown kinds, the kind."""
    match value:
        case FunctionType() if not _is_installed(sys.modules.get(value.__module__)):
            return _of_code(value.__code__)
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(_fingerprint, value)))}}}"
        case list() | tuple():
            return f"[{', '.join(map(_fingerprint, value))}]"
        case dict():
            return f"{{{', '.join(f'{_fingerprint(key)}: {_fingerprint(one)}' for key, one in value.items())}}}"
        case CodeType():
            return _of_code(value)
        case type() | FunctionType():
            return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, _PLAIN):
        return repr(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return hashlib.sha256(value.tobytes()).hexdigest()
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _of_code(code: CodeType) -> str:
    # Docstrings are constants too; lines and files are not looked at.
    constants = ", ".join(map(_fingerprint, code.co_consts))
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} [{constants}]"


def _cannot_travel(function: object, problem: Exception) -> str:
    for name, value in _used(function):
        if isinstance(value, ModuleType | FunctionType | type):
            continue
        try:
            cloudpickle.dumps(value)
        except Exception as found:  # noqa: BLE001 - as above
            return f"uses {name!r}, which cannot travel to trials ({_plain(found)}); make it inside the function"
    return f"cannot travel to trials: {_plain(problem)}"


def _plain(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    return f"{text[:1].lower()}{text[1:200]}"
