"""What the product prints: every option has a description, every error a message, every wrong invocation one line."""

import logging

import click
import pytest

from tests.printed import commands, templates


@pytest.fixture(scope="module")
def wrong_invocations(tmp_path_factory):
    folder, logger = tmp_path_factory.mktemp("wrong"), logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("YARN_ARBITER_TOKEN", raising=False)
        yield list(commands.run_wrong_invocations())
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_every_command_and_every_option_has_a_description():
    lacking = []
    for path, command, text in commands.help_texts():
        assert text.startswith("Usage: ")
        lacking += [path] if not command.help else []
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        lacking += [f"{path} {one.opts[0]}" for one in options if not (one.help or "").strip()]
    assert lacking == []


CAUGHT_INSIDE = {"BlockingIOError", "ScriptEndedError", "TooLargeError"}
"""Errors that signal between functions of the product and never reach a user."""


def test_no_error_has_an_empty_message():
    texts = templates.all_templates()
    errors = [one for one in texts if one.kind in ("error", "problem") and one.source not in CAUGHT_INSIDE]
    assert len(errors) > 200
    assert [f"{one.module}:{one.line} {one.source}" for one in errors if not one.text] == []


def test_texts_are_found_wherever_they_are_written():
    source = '''
"""A docstring."""
LIMIT = "at most 3"
class OddError(Exception):
    def __init__(self, name):
        super().__init__(f"{name} is odd")
def check(value):
    expected = f"give {value} or more" if value else "give a number"
    log.warning("seen %s", value)
    console.out.print("all is well")
    if value > 3:
        raise BadInputError("value", value, LIMIT)
    raise Refused(422, "value", value, expected)
'''
    found = {(one.kind, one.source, one.text) for one in templates.templates_of(source, "m")}
    assert {
        ("error", "OddError", "{name} is odd"),
        ("log", "warning", "seen %s, {value}"),
        ("console", "print", "all is well"),
        ("error", "BadInputError", "value {value}: at most 3"),
        ("problem", "Refused", "value {value}: give {value} or more | give a number"),
    } <= found
    assert "A docstring." not in {text for _, _, text in found}


def test_every_wrong_invocation_ends_in_one_line_that_names_the_program(wrong_invocations):
    assert len(wrong_invocations) == len(commands.WRONG)
    for words, code, printed in wrong_invocations:
        program, last = words.split()[0], printed.splitlines()[-1]
        assert code in (1, 2), words
        name, _, message = last.partition(": ")
        assert (name, bool(message.strip())) == (program, True), words
        assert "Traceback" not in printed, words
