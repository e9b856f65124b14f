"""Random histories of the arbiter's world: lists of actions that `tests.world.World` can do."""

from hypothesis import strategies as st

small = st.integers(0, 7)
actions = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 3.0, 7.0, 20.0])),
    st.tuples(st.just("register"), st.sampled_from([1, 1, 1, 2, 4]), st.sampled_from([0, 0, 0, 2, 8]),
              st.sampled_from([0, 5, 10])),
    st.tuples(st.just("start"), st.sampled_from([1, 1, 2]), st.sampled_from([0, 0, 0, 4]), st.sampled_from([5, 10])),
    st.tuples(st.just("start"), st.just(1), st.just(0), st.just(10)),
    st.tuples(st.just("submit"), small),
    st.tuples(st.just("use"), small, st.integers(0, 16), st.sampled_from([0, 0, 2, 8])),
    st.tuples(st.just("stranger"), small),
    st.tuples(st.just("end"), small),
    st.tuples(st.just("deregister"), small),
    st.tuples(st.just("vacate"), small),
    st.tuples(st.just("revise"), small, st.sampled_from([1, 2, 4]), st.sampled_from([0, 2, 8])),
    st.tuples(st.just("lose_node"), small),
    st.tuples(st.just("return_node"), small),
    st.tuples(st.just("lose_manager")),
    st.tuples(st.just("reach_manager")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("write")),
    st.tuples(st.just("write")),
    st.tuples(st.just("refuse")),
    st.tuples(st.just("read")),
    st.tuples(st.just("read")),
    st.tuples(st.just("read_nothing")),
    st.tuples(st.just("meddle"), small, st.sampled_from([1, 7, 300])),
    st.tuples(st.just("look")),
    st.tuples(st.just("list")),
    st.tuples(st.just("early_timer")),
)  # fmt: skip
histories = st.lists(actions, max_size=45)
