"""Lists and the event heap against Python's own sorting."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import iosched as io
from iosched.engine import clock, lists
from iosched.engine.codes import NEVER, NONE
from iosched.programs import compile_scenario

KEYS = st.lists(st.integers(-50, 50), min_size=1, max_size=40)


def state():
    """Any state has lists and nodes."""
    return compile_scenario(io.Scenario(io.Machine(filesystem="raw", scheduler="noop"), [io.workloads.dd(count=1)]))


def walk(s, lst):
    """Node numbers from head to tail, checked against the way back and the count."""
    forward, n = [], int(s.lists[lst].head)
    while n != NONE:
        forward.append(n)
        n = int(s.nodes[n].next)
    backward, n = [], int(s.lists[lst].tail)
    while n != NONE:
        backward.append(n)
        n = int(s.nodes[n].prev)
    assert forward == backward[::-1] and len(forward) == s.lists[lst].count
    return forward


@settings(max_examples=60, deadline=None)
@given(keys=KEYS, data=st.data())
def test_a_sorted_list_is_a_stable_sort_and_removal_keeps_the_order(keys, data):
    s = state()
    for n, key in enumerate(keys):
        lists.insert_sorted(s, 0, n, key)
    order = sorted(range(len(keys)), key=lambda n: keys[n])
    assert walk(s, 0) == order
    for key in range(-51, 52):
        expected = next((n for n in order if keys[n] >= key), NONE)
        assert lists.successor_of(s, 0, key) == expected
    for n in data.draw(st.permutations(range(len(keys)))):
        lists.remove(s, n)
        lists.remove(s, n)  # a second removal changes nothing
        order.remove(n)
        assert walk(s, 0) == order
    assert lists.pop_front(s, 0) == NONE


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["back", "front", "pop"]), max_size=40))
def test_a_plain_list_is_a_deque(moves):
    from collections import deque

    s, model, fresh = state(), deque(), 0
    for move in moves:
        if move == "pop":
            assert lists.pop_front(s, 0) == (model.popleft() if model else NONE)
        else:
            (lists.push_back if move == "back" else lists.push_front)(s, 0, fresh)
            (model.append if move == "back" else model.appendleft)(fresh)
            fresh += 1
        assert walk(s, 0) == list(model)


@settings(max_examples=60, deadline=None)
@given(times=st.lists(st.integers(0, 20), min_size=1, max_size=20), data=st.data())
def test_events_come_in_order_of_time_and_then_of_arrival(times, data):
    s = state()
    s.sim[0].heap_n = 0
    waiting = []
    for number, at in enumerate(times):
        clock.schedule(s, at, 1, number)
        waiting.append((at, number))
        if data.draw(st.booleans()):
            first = min(waiting)
            assert (s.heap[0].at, s.heap[0].index) == first
            waiting.remove(first)
            clock.drop_first(s)
    while waiting:
        first = min(waiting)
        assert (s.heap[0].at, s.heap[0].index) == first
        waiting.remove(first)
        clock.drop_first(s)
    assert s.sim[0].heap_n == 0


def test_a_timer_fires_once_can_be_moved_and_cancelled():
    s = state()
    assert clock.first_timer(s) == NONE
    clock.arm(s, 0, 0, 500)
    clock.arm(s, 0, 0, 700)
    assert clock.first_timer(s) == 0 and s.timers[0].at == 700 and clock.armed(s, 0, 0)
    clock.cancel(s, 0, 0)
    assert clock.first_timer(s) == NONE and s.timers[0].at == NEVER
