"""Write everything that the product prints to a file: help, errors, log lines, console messages, other sentences."""

import contextlib
import sys
import tempfile
from pathlib import Path

from tests.printed import commands, templates

TITLES = {
    "error": "Error messages",
    "problem": "Problems that the API answers",
    "log": "Log lines",
    "console": "Console messages",
    "other": "Other sentences: causes, findings, reports, pages",
}


def write(out):
    """All sections. In templates, {...} stands for a value."""
    print("# Help\n", file=out)
    for path, _, text in commands.help_texts():
        print(f"## {path} -h\n\n{text}\n", file=out)
    print("# Errors of wrong invocations\n", file=out)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for words, code, text in commands.run_wrong_invocations((*commands.WRONG, *commands.WRONG_ON_SPARK)):
            print(f"$ {words}\n[{code}] {text.rstrip()}\n", file=out)
    found = list(templates.all_templates())
    for kind, title in TITLES.items():
        print(f"# {title}\n", file=out)
        for module in dict.fromkeys(one.module for one in found if one.kind == kind):
            print(f"## {module}\n", file=out)
            for one in found:
                if (one.kind, one.module) == (kind, module):
                    print(f"{one.line:>5} {one.source}: {one.text!r}", file=out)
            print(file=out)


if __name__ == "__main__":
    (path,) = sys.argv[1:]
    with Path(path).open("w", encoding="utf-8") as file:
        write(file)
