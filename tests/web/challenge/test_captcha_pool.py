"""Puzzles made in the background."""

from __future__ import annotations

import itertools
import threading
import time

from hedgerow.web.challenge.captcha_pool import CaptchaPool


def wait_until(there) -> None:
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_it_fills_up_to_its_size_and_again():
    numbers = itertools.count()
    pool = CaptchaPool(lambda: next(numbers), 5, "number")
    assert (len(pool), pool.made) == (0, 0), "nothing is made before it is needed"
    pool.start()
    wait_until(lambda: len(pool) == 5)
    time.sleep(0.02)
    assert pool.made == 5
    taken = []
    for _ in range(20):
        wait_until(lambda: len(pool))
        taken.append(pool.take())
    assert taken == list(range(20)), "each is given to one"
    wait_until(lambda: len(pool) == 5)
    pool.close()


def test_an_empty_one_never_waits():
    gate = threading.Event()
    pool = CaptchaPool(lambda: gate.wait(60), 2, "slow")
    assert pool.take() is None
    gate.set()
    wait_until(lambda: len(pool) == 2)
    pool.close()


def test_it_rests_longer_than_it_works():
    """Who asks for one after the other must not get a whole core."""

    def busy() -> int:
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        return 1

    pool = CaptchaPool(busy, 1000, "busy")
    pool.start()
    began = time.monotonic()
    wait_until(lambda: pool.made)
    time.sleep(0.5)
    pool.close()
    assert pool.made <= 30 * (time.monotonic() - began)


def test_a_failure_is_told_once_in_a_while_and_is_not_the_end(caplog):
    def broken() -> int:
        raise OSError("no font")

    pool = CaptchaPool(broken, 5, "picture")
    assert pool.take() is None
    wait_until(lambda: "no font" in caplog.text)
    assert caplog.text.count("no font") == 1
    pool.close()


def test_a_closed_one_makes_no_more():
    pool = CaptchaPool(lambda: 1, 5, "number")
    pool.close()
    assert pool.take() is None
    assert pool.made == 0
