"""`qoop.join`: what it refuses, how a running session registers, follows its share, and leaves."""

import threading
from types import SimpleNamespace

import pytest

import qoop
from qoop import joined
from qoop.errors import QoopError
from qoop.feedback.arbiter import ShareTooSmallError
from qoop.feedback.followed import follow, following, unfollow
from qoop.options import Options
from qoop.replan.events import ShareChanged
from qoop.submit import application, registration
from yarn_plugin.errors import ReportedError

YARN_APP = "application_1795328526504_0001"


def session(master="yarn", **settings):
    """A session of Spark's that runs, with what is read of it."""
    known = {"spark.executor.memory": "1g", "spark.master": master, "spark.decommission.enabled": "true", **settings}
    conf = SimpleNamespace(get=known.get, getAll=known.items)
    context = SimpleNamespace(
        master=master, applicationId=YARN_APP, appName="notebook", _conf=conf, getConf=lambda: conf, _jsc=object()
    )
    return SimpleNamespace(sparkContext=context)


class Arbiter:
    """An arbiter with a share of so many MiB for each application; what it was asked."""

    memory = 8192

    def __init__(self):
        self.requests, self.ended, self.feeds, self.targets = [], [], [], []
        self.changed = threading.Event()

    def client(self, url, token, verify):
        return self

    def get_cluster(self):
        return SimpleNamespace(least_allocation={"memory-mb": 256})

    def register(self, request):
        self.requests.append(request)
        entitlement = SimpleNamespace(resources={"memory-mb": self.memory, "vcores": 8})
        share = SimpleNamespace(entitlement=entitlement)
        return SimpleNamespace(app="app_8", token="app.app_8.0", pool="sql", queue="root.sql.mine", share=share)

    def deregister(self, app):
        self.ended.append(app)

    def feed(self, *arguments):
        feed = SimpleNamespace(confirm=lambda seq: None, close=lambda: None)
        feed.start = lambda emit: setattr(feed, "emit", emit)
        self.feeds.append(feed)
        return feed

    def executors(self, context):
        return SimpleNamespace(is_adjustable=lambda: True, set_target=self.set_target, count=lambda: 1)

    def set_target(self, target):
        self.targets.append(target)
        self.changed.set()
        return []


@pytest.fixture(autouse=True)
def no_arbiter(monkeypatch):
    for name in ("YARN_ARBITER_URL", "YARN_ARBITER_TOKEN", "PYSPARK_PIN_THREAD"):
        monkeypatch.delenv(name, raising=False)
    yield
    for one in list(joined._joined.values()):
        one.leave()


@pytest.fixture
def arbiter(monkeypatch):
    made = Arbiter()
    monkeypatch.setenv("YARN_ARBITER_TOKEN", "user.ann.0")
    monkeypatch.setattr(registration, "ArbiterClient", made.client)
    monkeypatch.setattr(application, "ArbiterFeed", made.feed)
    monkeypatch.setattr(application, "Executors", made.executors)
    return made


URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("spark", "given", "message"),
    [
        (session(), {}, "arbiter: required, or set YARN_ARBITER_URL; or give profile=FILE"),
        (session(), {"arbiter": URL, "profile": "x"}, "arbiter, profile: give only one; each of them sets the share"),
        (session("local[2]"), {"arbiter": URL}, r"spark: runs on this machine \(local\[2\]\), and an arbiter divides"),
        (session("spark://h:7077"), {"arbiter": URL}, r"spark: runs on spark://h:7077 \(spark://h:7077\), and an"),
        (session(**{"spark.dynamicAllocation.enabled": "true"}), {"arbiter": URL}, "dynamicAllocation.enabled: is tr"),
        (session(), {"arbiter": URL, "max_executors": 0}, "--num-executors '0': must be a whole number, at least 1"),
        (session("local[2]"), {"profile": "/nowhere"}, "--profile '/nowhere': no such file or directory"),
        (session(), {"arbiter": URL, "token_file": "/nowhere"}, "--token-file '/nowhere': no such file or directory"),
    ],
)
def test_what_cannot_join_is_refused_and_nothing_is_registered(arbiter, spark, given, message):
    with pytest.raises(ReportedError, match=message):
        qoop.join(spark, **given)
    assert not arbiter.requests
    assert following(Options(), YARN_APP) == Options()


def test_the_error_names_where_the_arbiters_address_came_from(arbiter, monkeypatch):
    monkeypatch.setenv("YARN_ARBITER_URL", URL)
    with pytest.raises(QoopError, match=r"arbiter \(from YARN_ARBITER_URL\), profile: give only one; unset the vari"):
        qoop.join(session(), profile="x")


def test_a_session_joins_follows_its_share_and_leaves(arbiter):
    told = []
    spark = session(**{"spark.executor.instances": "3"})
    here = qoop.join(spark, URL, tell=told.append)
    (request,) = arbiter.requests
    assert (request.yarn_app, request.name) == (YARN_APP, "notebook")
    assert request.demand == [{"memory-mb": 1024 + 3 * 1536, "vcores": 4}]
    assert qoop.join(spark, URL) is here, "a cell of a notebook may run again"
    (feed,) = arbiter.feeds
    feed.emit(ShareChanged(4.0, 2, "app_17 arrived", 0.0, 5))
    assert here.slots == 4.0
    assert here.share == "share: 4 slots; app_17 arrived"
    assert repr(here) == "<app_8: share: 4 slots; app_17 arrived>"
    assert told == ["share: not known yet", here.share]
    options = following(Options(), YARN_APP)
    assert (options.slots, options.feed is None) == (4.0, False)
    own = Options(slots=2.0)
    assert following(own, YARN_APP) is own
    here.leave()
    here.leave()
    assert arbiter.ended == ["app_8"]
    assert repr(here) == "<app_8: has left>"
    assert following(Options(), YARN_APP) == Options()


def test_executors_are_set_to_the_share(arbiter):
    with qoop.join(session(), URL, tell=lambda line: None):
        (feed,) = arbiter.feeds
        feed.emit(ShareChanged(4.0, 2, "app_17 arrived", 0.0, 5))
        assert arbiter.changed.wait(60)
        assert arbiter.targets == [2]
    assert arbiter.ended == ["app_8"]


def test_a_tell_that_fails_does_not_end_following(arbiter):
    def tell(line):
        raise OSError("the notebook has gone")

    with qoop.join(session(), URL, tell=tell) as here:
        (feed,) = arbiter.feeds
        feed.emit(ShareChanged(4.0, 2, "app_17 arrived", 0.0, 5))
        assert here.slots == 4.0
        assert arbiter.changed.wait(60)


def test_a_share_too_small_is_refused_and_the_session_is_deregistered(arbiter):
    arbiter.memory = 1024
    with pytest.raises(ShareTooSmallError, match="share of app_8 in pool sql: 1024 MiB, 8 vcores is too small"):
        qoop.join(session(), URL)
    assert arbiter.ended == ["app_8"]
    assert not arbiter.feeds


def test_executors_that_are_not_decommissioned_are_told(arbiter):
    told = []
    qoop.join(session(**{"spark.decommission.enabled": "false"}), URL, tell=told.append)
    assert told[0].startswith("spark.decommission.enabled: is not true, so executors that leave take what")


def test_another_session_joins_when_the_first_has_stopped(arbiter):
    first = session()
    before = qoop.join(first, URL, tell=print)
    first.sparkContext._jsc = None
    assert before.is_over
    second = session()
    second.sparkContext.applicationId = "application_1795328526504_0002"
    assert qoop.join(second, URL, tell=print) is not before
    assert arbiter.ended == ["app_8"]


def test_an_application_follows_until_it_does_no_more():
    shares = SimpleNamespace(feed=object(), slots=None)
    follow("x", shares)
    assert following(Options(), "x").feed is shares.feed
    unfollow("x")
    unfollow("x")
    assert following(Options(), "x") == Options()
