"""The documentation stays true: its links, the commands, options, settings and metrics that it names."""

import ast
import importlib
import json
import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

from qoop.cli import cli as qoop
from qoop.submit.words import PassThroughCommand
from qoop.tables.statistics import VERSION as STATISTICS_VERSION
from themis_agent.cli import cli as themis_agent
from tpcds.cli import cli as tpcds
from tpcds.demo.effects import Times, effects
from yarn_plugin import console
from yarn_plugin.api.jobs import Job, Jobs
from yarn_plugin.cli import cli as yarn_plugin
from yarn_plugin.decide.allocators.auction import AuctionSettings
from yarn_plugin.decide.arbiter import ALLOCATORS
from yarn_plugin.drive.config import load

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [ROOT / "docs/examples/yarn-arbiter.service"]
PROGRAMS = {"yarn-plugin": yarn_plugin, "qoop": qoop, "tpcds": tpcds, "themis-agent": themis_agent}
OF_SPARK_SUBMIT = {"--master", "--executor-memory", "--queue", "--conf", "--deploy-mode", "--archives"}
COUNTING = ("act", "drive", "observe")
"""Packages of the arbiter that count what /metrics shows as `yarn_arbiter_NAME_total`."""

ENTRY_POINTS = {
    "yarn_plugin.allocators",
    "yarn_plugin.controllers",
    "yarn_plugin.lease_policies",
    "yarn_plugin.simulated_applications",
    "yarn_plugin.simulated_training",
}

README_LINES = 120


def page_names():
    return [page.name for page in PAGES]


def code_of(text):
    """The code of a page: fenced and indented blocks, and code between backticks."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^ {4}.*$", text, re.MULTILINE)
    return "\n".join([*fenced, *indented, *re.findall(r"`([^`\n]+)`", text)]).replace("\\\n", " ")


def block_after(page, heading):
    """The first indented block below a heading."""
    text = (ROOT / "docs" / page).read_text().split(f"{heading}\n", 1)[1]
    return re.search(r"(?:^(?: {4}.*)?\n)*^ {4}.*\n", text, re.MULTILINE)[0].replace("\n    ", "\n").lstrip("\n")


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_names())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_the_index_leads_to_every_page():
    index = (ROOT / "docs/index.md").read_text()
    assert not [page.name for page in PAGES[1:] if page.name != "index.md" and f"]({page.name})" not in index]


def test_readme_fits_on_one_page():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_what_the_readme_says_of_switching_follows_from_the_times_of_the_demo():
    known = json.loads((ROOT / "docs/demo-times.json").read_text())
    switches = known.pop("switches")
    assert effects(Times(**known), switches) in " ".join((ROOT / "README.md").read_text().split())


def command_lines(text):
    """The uses of our commands in code: program, and the words after it."""
    for line in text.splitlines():
        for program, rest in re.findall(r"(?:^|[\s`(/])(yarn-plugin|qoop|tpcds|themis-agent) +([^|;&#`<>()\"]*)", line):
            yield program, rest.split()


def commands_of(group, words):
    """The commands that the words name, `a/b` being two of them, and the words that follow."""
    context = click.Context(group)
    for name in words[0].split("/"):
        command = group.get_command(context, name)
        assert command is not None, words
        if isinstance(command, click.Group) and len(words) > 1 and not words[1].startswith("-"):
            yield from commands_of(command, words[1:])
        else:
            yield command, words[1:]


def unknown_options(program, words):
    for command, rest in commands_of(PROGRAMS[program], words):
        # The help option is cached, so it must be the one that the programs have.
        context = click.Context(command, **console.CONTEXT)
        # What follows is the command line of another program.
        rest = rest[: rest.index("--")] if "--" in rest else rest
        known = {option for parameter in command.get_params(context) for option in parameter.opts}
        known |= OF_SPARK_SUBMIT if isinstance(command, PassThroughCommand) else set()
        yield from (word for word in rest if word.startswith("-") and word.strip("])'\"").split("=")[0] not in known)


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: page.name)
def test_commands_and_options_exist(page):
    text = page.read_text()
    code = code_of(text) if page.suffix == ".md" else text.replace("\\\n", " ")
    for program, words in command_lines(code):
        assert not list(unknown_options(program, words)), (program, words)


def test_every_command_is_in_the_readme():
    code = code_of((ROOT / "README.md").read_text())
    named = {(program, name) for program, words in command_lines(code) for name in words[0].split("/")}
    for program, group in PROGRAMS.items():
        for name in group.list_commands(click.Context(group)):
            assert (program, name) in named


def test_the_settings_of_operations_md_are_accepted(tmp_path):
    (tmp_path / "arbiter.toml").write_text(block_after("operations.md", "## Settings"))
    (tmp_path / "topology.toml").write_text(block_after("operations.md", "### Topology"))
    loaded = load(tmp_path / "arbiter.toml")
    assert [section.name for section in loaded.pools] == ["sql"]


def test_the_jobs_of_jobs_md_are_accepted_and_every_field_is_described():
    text = (ROOT / "docs" / "jobs.md").read_text()
    example = re.search(r"-d '(\{.*?)'\n", text, re.DOTALL)[1]
    assert [job.name for job in Jobs.model_validate_json(example).jobs] == ["train", "evaluate"]
    described = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)))
    assert described == list(Job.model_fields)


DESCRIBED_IN = {"cells": "cells.md", "allox": "allox.md", "shared_gpus": "sharing.md"}
"""The pages of allocators that have one; the others are in controllers.md."""

ONLY_SIMULATED = {"across_applications"}


@pytest.mark.parametrize("kind", ALLOCATORS, ids=lambda kind: kind.name)
def test_every_allocator_and_each_of_its_settings_is_described(kind):
    assert f"| `{kind.name}` |" in (ROOT / "docs/controllers.md").read_text()
    page = "leases.md" if kind.parameters is AuctionSettings else DESCRIBED_IN.get(kind.name, "controllers.md")
    text = (ROOT / "docs" / page).read_text()
    names = {field.name for field in fields(kind.parameters)} - ONLY_SIMULATED
    assert not [name for name in names if not re.search(rf"\b{name}\b", text)]


def test_pages_name_the_folders_in_which_qoop_keeps_what_it_knows():
    text = "".join(page.read_text() for page in PAGES)
    assert set(re.findall(r"\bstatistics-(\d+)", text)) == {str(STATISTICS_VERSION)}


def metrics_named_in(path):
    return set(re.findall(r"\byarn_arbiter_(\w+)", (ROOT / "docs" / path).read_text()))


def counters():
    """The names under which the arbiter counts, read off its sources."""
    modules = (module for name in COUNTING for module in (ROOT / "yarn_plugin" / name).glob("*.py"))
    return {f"{name}_total" for module in modules for name in re.findall(r"\b(\w+)=(?:0|self)\b", module.read_text())}


@pytest.mark.parametrize("path", ["examples/alerts.yml", "operations.md"])
def test_metrics_exist(path, service):
    exported = re.findall(r"^yarn_arbiter_(\w+)", service.as_admin("GET", "/metrics").text, re.MULTILINE)
    assert metrics_named_in(path) - set(exported) - counters() == set()


def test_every_metric_to_alert_on_has_a_rule():
    assert metrics_named_in("operations.md") - metrics_named_in("examples/alerts.yml") == set()


def texts_of(package):
    """All texts in the sources of a package, except docstrings, each on a line of its own."""
    nodes = [node for path in (ROOT / package).rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return "\n".join(text for text in texts if isinstance(text, str))


def test_log_lines_exist():
    table = (ROOT / "docs/operations.md").read_text().split("### Log lines\n", 1)[1].split("\n## ", 1)[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    lines = [line for cell in cells for line in re.findall(r"`([^`]+)`", cell)]
    texts = texts_of("yarn_plugin")
    assert lines
    assert not [part for line in lines for part in re.split(r" ?\.\.\. ?", line) if part not in texts]


def is_importable(name):
    """Whether a dotted name is a module, or something in one."""
    module, names = name, []
    while module:
        try:
            found = importlib.import_module(module)
            return not names or hasattr(found, names[0])
        except ModuleNotFoundError as problem:
            if problem.name == "torch":
                # An extra: the module is there.
                return True
        module, _, last = module.rpartition(".")
        names.insert(0, last)
    return False


@pytest.mark.parametrize("page", PAGES, ids=page_names())
def test_modules_and_files_exist(page):
    code = code_of(page.read_text())
    for path in re.findall(r"(?<![\w/.])(?:yarn_plugin|qoop|themis_agent|tpcds|tests|docs)/[\w/.-]*\w", code):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"(?<![\w/.])(?:yarn_plugin|qoop|themis_agent|tpcds)(?:\.\w+)+", code):
        assert name in ENTRY_POINTS or is_importable(name), name
    for module, names in re.findall(r"from (\w+(?:\.\w+)+) import (.*)", code):
        assert all(is_importable(f"{module}.{name.strip()}") for name in names.split(",")), names


@pytest.mark.parametrize("package", ["yarn_plugin", "qoop", "themis_agent"])
def test_design_md_lists_the_packages(package):
    tree = (ROOT / "docs/design.md").read_text().split(f"\n    {package}/", 1)[1]
    listed = re.match(r".*\n(?:      .*\n)*", tree)[0]
    found = {folder.parent.name for folder in (ROOT / package).glob("*/__init__.py")} - {"cli"}
    assert set(re.findall(r"^ {6}(\w+)/", listed, re.MULTILINE)) == found


def test_the_tuner_of_tuners_md_answers_the_arbiter():
    made = {}
    exec(
        block_after("tuners.md", "as phases, so that its bids count the work that is not assigned to trials yet."), made
    )
    # Each job has one of the two GPUs, the longer one takes 50 s; alone on four GPUs all take 70 / 4 s, and two share.
    tuner, answer = made["tuner"], made["answer"]
    assert [job.id for job in answer.jobs] == ["a", "b"]
    assert dict(answer.jobs[0].held) == {"node-1": 2}
    assert tuner.work().budget_gpu_s == 70.0
    assert answer.rho == pytest.approx((30 + 50) / (70 / 4 * 2))
