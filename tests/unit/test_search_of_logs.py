"""Searches on this machine whose scripts only print: the right trial wins, and `status` and `why` say what was read."""

import json
import textwrap

import pytest

from themis_agent.cli import cli
from yarn_plugin import console

EPOCH = 'print(f"epoch {e} loss {1 + q - 0.4 * q * e:.4f}", flush=True)'
ACCURACY = 'print(f"epoch {e}: val_acc={0.6 - 0.4 * q + 0.2 * q * e:.4f}", flush=True)'
KERAS = """
acc = 0.5 + 0.4 * q * e / 5
print(f"Epoch {e}/5", flush=True)
rest = f"loss: {1.2 - acc:.4f} - val_accuracy: {acc - .05:.4f} - val_loss: {1.3 - acc:.4f}"
print(f"10/10 - 0s - 5ms/step - accuracy: {acc:.4f} - {rest}", flush=True)
"""
SILENT = 'print(f"epoch {e} accuracy={q}", flush=True)'
ENDLESS = "time.sleep(600)"

APP = """
name = "app"
command = "python train.py {{q}}"
algorithm = "plain"
trials = 2
max_steps = {max_steps}
enqueue = [{{ q = 0.2 }}, {{ q = 0.8 }}]
grace_s = 1
{more}
[space]
q = {{ type = "float", low = 0.0, high = 1.0 }}
"""


def run(folder, monkeypatch, body, more="", max_steps=5):
    """The exit code of a search, and its result."""
    monkeypatch.chdir(folder)
    loop = textwrap.indent(textwrap.dedent(body), "    ")
    (folder / "train.py").write_text(f"import sys, time\nq = float(sys.argv[1])\nfor e in range(1, 6):\n{loop}\n")
    (folder / "app.toml").write_text(APP.format(max_steps=max_steps, more=more))
    words = ["run", "--local", "app.toml", "--gpus", "2", "--json", "result.json"]
    code = console.run(cli, "themis-agent", words)
    return code, json.loads((folder / "result.json").read_text())


def said(capsys, *words):
    capsys.readouterr()
    assert console.run(cli, "themis-agent", list(words)) == 0
    return " ".join(capsys.readouterr().out.split())


MAXIMIZE = 'direction = "maximize"'
PATTERN = "loss_pattern = 'val_acc=(?P<loss>[0-9.]+)'"

SCRIPTS = {
    "epochs": (EPOCH, "", 5, 5, "loss, epochs as steps"),
    "pattern": (
        ACCURACY,
        f'metric = "val_acc"\n{MAXIMIZE}\n{PATTERN}',
        5,
        5,
        "val_acc by loss_pattern, epochs as steps",
    ),
    "keras": (KERAS, f'metric = "accuracy"\n{MAXIMIZE}', 50, 50, "accuracy, steps as printed"),
    "ends early": (EPOCH, "", 100, 5, "loss, epochs as steps"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_last_value_decides(tmp_path, monkeypatch, capsys, name):
    body, more, max_steps, step, read = SCRIPTS[name]
    code, result = run(tmp_path, monkeypatch, body, more, max_steps)
    assert (code, result["best"], result["step"]) == (0, "trial-00001", step)
    assert f"read from the logs: {read}" in said(capsys, "status", "app.themis")
    why = said(capsys, "why", "app.themis", "1")
    assert f"is complete at step {step} with" in why
    assert f"is read from its log: {read}" in why
    early = f"ended by itself at step {step} of {max_steps}, with exit code 0: it competes with what it has reached"
    assert (early in why) == (step < max_steps)


def test_a_metric_that_never_appears_is_an_error_that_says_so(tmp_path, monkeypatch, capsys):
    code, result = run(tmp_path, monkeypatch, SILENT)
    assert (code, result["best"], result["failed"]) == (1, None, 2)
    reason = "ended without a report: no loss in its log, which has accuracy; formats read: `loss: 0.5`, `loss=0.5`"
    assert reason in result["reason"]
    assert "failed at step 0: ended without a report" in said(capsys, "why", "app.themis", "0")


def test_a_command_that_never_reports_and_never_ends_fails(tmp_path, monkeypatch, capsys):
    code, result = run(tmp_path, monkeypatch, ENDLESS, "report_timeout_s = 2")
    assert (code, result["best"], result["failed"]) == (1, None, 2)
    assert "reported nothing for 2 s: no loss in its log" in result["reason"]
    why = said(capsys, "why", "app.themis", "0")
    assert "failed at step 0: reported nothing for 2 s" in why
    assert "lost" not in why
