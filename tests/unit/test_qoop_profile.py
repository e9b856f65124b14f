"""A share that follows a file."""

import time

import pytest

from qoop.feedback.profile import ProfileError, ProfileFeed, SharePoint, fixed_share, read_profile


def written(tmp_path, text):
    path = tmp_path / "profile.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["0,4\n2.5,1\n", "seconds,slots\n0,4\n2.5,1", "# cores over time\n0, 4\n\n2.5, 1\n"])
def test_a_profile_is_seconds_and_slots(tmp_path, text):
    assert read_profile(written(tmp_path, text)) == [SharePoint(0.0, 4.0), SharePoint(2.5, 1.0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 seconds"),
        ("seconds,slots\n", "0 seconds"),
        ("1,4\n", "0 seconds"),
        ("0,4\n5,2\n5,1\n", "line 3: time '5': "),
        ("0,4\n5,2\n3,1\n", "line 3: time '3': "),
        ("0,0\n", "line 1: slots '0': "),
        ("0,4\n1,-2\n", "line 2: slots '-2': "),
        ("0,4\nlater,2\n", "line 2: 'later,2': "),
        ("0,4,7\n", "line 1: '0,4,7': "),
        ("0\n", "line 1: '0': "),
    ],
)
def test_a_malformed_profile_names_the_line(tmp_path, text, said):
    with pytest.raises(ProfileError) as caught:
        read_profile(written(tmp_path, text))
    assert str(caught.value).startswith("--profile '")
    assert said in str(caught.value)


def test_a_missing_profile(tmp_path):
    with pytest.raises(ProfileError, match=r"--profile '.*none.csv': no such file"):
        read_profile(tmp_path / "none.csv")


def test_shares_are_emitted_in_order():
    told = []
    feed = ProfileFeed([SharePoint(0.0, 4.0), SharePoint(0.01, 2.0), SharePoint(0.02, 8.0)])
    feed.start(told.append)
    assert [share.slots for share in told][:1] == [4.0], "the first at once"
    while len(told) < 3:
        time.sleep(0.01)
    assert [share.slots for share in told] == [4.0, 2.0, 8.0]
    assert all(share.executors is None and share.seq is None for share in told)
    assert "2 slots" in told[1].reason
    feed.close()


def test_nothing_is_emitted_after_closing():
    told = []
    feed = ProfileFeed([SharePoint(0.0, 4.0), SharePoint(3_600.0, 2.0)])
    feed.start(told.append)
    feed.close()
    assert [share.slots for share in told] == [4.0]


def test_a_fixed_share_is_emitted_once():
    told = []
    fixed_share(3.0).start(told.append)
    assert [share.slots for share in told] == [3.0]
