"""Hosts of trials that share a GPU: who runs in which container, through all that may happen to it."""

import os
import socket
import threading

import pytest
import requests

from themis_agent.service import Launched, listening, service, serving
from themis_agent.trial.host import Host
from themis_agent.trial.wire import HostAnswer, HostReport, HostSpec
from themis_agent.yarn.containers import Gone, Launcher
from themis_agent.yarn.hosting import IDLE_S, Hosted, Hosting

A, B, C = (Launcher(f"trial-0000{number}", 1) for number in range(3))


def running(*launchers):
    """A host with its container, and these launchers."""
    hosting = Hosting()
    for number, launcher in enumerate(launchers):
        host, container, is_new = hosting.want(launcher, "n1/0")
        assert (container, is_new) == (None, number == 0)
    hosting.started(host, "c1")
    return hosting, host


def test_launchers_on_parts_of_one_gpu_are_in_one_container():
    hosting, host = running(A, B)
    assert hosting.hosted("c1") == Hosted((A, B))
    assert hosting.want(C, "n1/0") == (host, "c1", False)
    assert hosting.hosted("c1") == Hosted((A, B, C))
    assert hosting.want(Launcher("trial-00003", 1), "n1/1")[2], "another GPU has another one"
    assert hosting.hosted("unknown") is None, "its launchers are left alone"


def test_a_launcher_that_ended_is_gone_and_the_others_run_on():
    hosting, _ = running(A, B)
    assert hosting.ended("c1", {A: 3}) == [Gone(A, 3)]
    assert hosting.ended("c1", {A: 3}) == [], "it is said again and again"
    assert hosting.hosted("c1") == Hosted((B,))


def test_a_host_ends_when_it_has_been_idle_and_a_later_trial_has_a_new_one():
    hosting, host = running(A)
    hosting.ended("c1", {A: 0})
    hosting.due(10.0)
    assert hosting.want(B, "n1/0") == (host, "c1", False), "in time"
    hosting.ended("c1", {B: 0})
    hosting.due(20.0)
    hosting.due(20.0 + IDLE_S)
    assert hosting.hosted("c1") == Hosted((), is_ending=True)
    assert hosting.want(C, "n1/0")[2]


def test_a_killed_launcher_is_not_to_run_and_is_gone_when_its_host_says_so():
    hosting, _ = running(A, B)
    assert hosting.kill(A.trial, 1) == []
    assert hosting.hosted("c1") == Hosted((B,))
    assert hosting.ended("c1", {A: -9}) == [Gone(A, -9)]


def test_a_launcher_whose_host_has_no_container_yet_is_given_up_at_once():
    hosting = Hosting()
    hosting.want(A, "n1/0")
    assert hosting.give_up(A.trial, 1) == [Gone(A)]
    started, _ = running(A)
    assert started.give_up(A.trial, 1) == [], "its launcher is told by the agent"


def test_all_launchers_are_gone_with_their_host():
    hosting, host = running(A, B)
    assert hosting.gone(Gone(host, 137, "lost")) == [Gone(A, 137, "lost"), Gone(B, 137, "lost")]
    assert hosting.hosted("c1") is None


def test_a_later_attempt_takes_hosts_over_with_their_launchers():
    hosting = Hosting()
    hosts = hosting.adopt({A: ("n1/0", "c1"), B: ("n1/0", "c1"), C: ("n1/1", None)})
    assert sorted(filter(None, hosts.values())) == ["c1"]
    assert hosting.hosted("c1") == Hosted((A, B))
    (lost,) = [host for host, container in hosts.items() if container is None]
    assert hosting.gone(Gone(lost)) == [Gone(C)]


def test_a_host_asks_its_agent_with_the_token():
    told = []

    def hosts(name, report):
        told.append((name, report.ended))
        return HostAnswer(run=["a.json"], end=True)

    listener = listening("127.0.0.1")
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/hosts/c1"
    with serving(service(Launched(None, 1, hosts=hosts), "secret"), listener):
        token = {"Authorization": "Bearer secret"}
        body = HostReport(ended={"b.json": 3}).model_dump()
        assert requests.post(url, json=body, timeout=10).status_code == 401
        assert requests.post(url, json=body, headers=token, timeout=10).json() == {"run": ["a.json"], "end": True}
        assert requests.post(url, json={"ended": 1}, headers=token, timeout=10).status_code == 400
    assert told == [("c1", {"b.json": 3})]


class Sleeper:
    """A host whose launchers sleep, and whose agent is this test."""

    def __init__(self, tmp_path, monkeypatch):
        (tmp_path / "token").write_text("secret")
        (tmp_path / "token").chmod(0o600)
        monkeypatch.setattr("themis_agent.trial.host.LAUNCHER", "this")
        monkeypatch.setattr("themis_agent.trial.host.kill_descendants", lambda: None)
        monkeypatch.setattr("signal.signal", lambda number, handler: None)
        spec = HostSpec(
            name="c1", gpu_lock=str(tmp_path), agent_url="http://localhost:1", agent_address=f"file://{tmp_path}/none",
            token_file=str(tmp_path / "token"), heartbeat_s=0.05, orphan_s=0.3,
        )  # fmt: skip
        self.host = Host(spec, os.pipe()[0])


def test_a_host_without_launchers_ends_when_its_agent_stays_away(tmp_path, monkeypatch):
    host = Sleeper(tmp_path, monkeypatch).host
    thread = threading.Thread(target=host.run, daemon=True)
    thread.start()
    thread.join(20.0)
    assert not thread.is_alive()


def test_a_host_goes_on_when_another_user_keeps_the_lock_of_its_gpu(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("themis_agent.trial.gpu_locks.OTHER_USERS_S", 0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.bind(f"\0themis-agent/gpu/{tmp_path}")
        assert Sleeper(tmp_path, monkeypatch).host.run() == 0
    assert f"another user still holds the lock of GPU {tmp_path}" in capfd.readouterr().err


@pytest.mark.parametrize("run", [["gone.json"], []])
def test_a_host_ends_when_it_is_told_to_and_nothing_is_left(tmp_path, monkeypatch, run):
    host = Sleeper(tmp_path, monkeypatch).host
    answers = [HostAnswer(run=run), HostAnswer(run=None), HostAnswer(run=[], end=True)]
    monkeypatch.setattr(host, "_ask", lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    assert host.run() == 0
