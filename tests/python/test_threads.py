"""The GIL is released while a call computes."""

import threading

import numpy as np

import rowmax

Q = np.ones((8, 64, 128), np.float32)
D = np.ones((256, 256, 128), np.float32)


def progress_during(call):
    """How often a Python thread came round while `call` ran in another."""
    done, began = threading.Event(), threading.Event()

    def work():
        began.set()
        call()
        done.set()

    worker = threading.Thread(target=work)
    worker.start()
    began.wait()
    rounds = 0
    while not done.wait(0.001):
        rounds += 1
    worker.join()
    return rounds


def test_python_runs_on_while_scores_are_computed():
    """With the GIL held, the waiting thread would come round once at most in a call."""
    assert progress_during(lambda: rowmax.maxsim(Q, D, threads=1)) > 10


def test_python_runs_on_during_a_search():
    assert progress_during(lambda: rowmax.topk(Q, D, 5, threads=1)) > 10


def test_calls_from_several_threads_agree():
    rng = np.random.default_rng(15)
    q, d = rng.standard_normal((3, 20, 32)).astype("f"), rng.standard_normal((50, 40, 32)).astype("f")
    wanted, results = rowmax.maxsim(q, d), [None] * 8

    def work(i):
        for _ in range(20):
            results[i] = rowmax.maxsim(q, d, threads=1 + i % 3)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        np.testing.assert_array_equal(result, wanted)
