"""Read the files of training workloads and clusters: JSON and TOML, and what is said about keys that are not used."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from yarn_plugin.toml_files import NESTED_TOO_DEEP, FileError, read_text, read_toml


def read_json(where: str, path: Path) -> Any:
    """Read a JSON file. `where`: names it in errors.

    Raises:
        FileError: it cannot be read, or is not JSON.
    """
    text = read_text(where, path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        place = f"line {problem.lineno}, column {problem.colno}"
        raise FileError(f"{where}: not JSON: {place}: {problem.msg[:1].lower()}{problem.msg[1:]}") from None
    except RecursionError:
        raise FileError(f"{where}: {NESTED_TOO_DEEP}") from None


def read_table(where: str, path: Path) -> Any:
    """Read a file by its suffix: .json, otherwise TOML.

    Raises:
        FileError: it cannot be read, or is not of that format.
    """
    return read_json(where, path) if path.suffix.lower() == ".json" else read_toml(where, path)


def ignored_keys(keys: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """A note of the keys that are not used; none if all are."""
    unknown = sorted({str(key) for key in keys} - set(known))
    return (f"ignored keys: {', '.join(unknown)}",) if unknown else ()
