# SPDX-License-Identifier: Apache-2.0
"""Thread-local callbacks go where the work goes, and nowhere else."""

import asyncio
import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest

from torchspan import callbacks
from torchspan.callbacks import RecordFunctionCallback, ThreadLocalState, add_thread_local_callback, record_function
from torchspan.engine.subscribers.callback_registry import REGISTRY


@record_function("step")
def step():
    pass


HEARD = ["start step", "end step"]


class Subclass(threading.Thread):
    def run(self):
        step()


def by_thread():
    thread = threading.Thread(target=step)
    thread.start()
    thread.join()


def by_subclass_of_thread():
    thread = Subclass()
    thread.start()
    thread.join()


def by_timer():
    timer = threading.Timer(0, step)
    timer.start()
    timer.join()


def by_pool():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(step).result()


def by_map_of_pool():
    with ThreadPoolExecutor(1) as pool:
        list(pool.map(lambda _: step(), [0]))


def by_task():
    async def work():
        step()

    async def main():
        await asyncio.create_task(work())

    asyncio.run(main())


def by_to_thread():
    asyncio.run(asyncio.to_thread(step))


def by_run_in_executor():
    async def main():
        await asyncio.get_running_loop().run_in_executor(None, step)

    asyncio.run(main())


def by_call_soon():
    async def main():
        asyncio.get_running_loop().call_soon(step)
        await asyncio.sleep(0)

    asyncio.run(main())


def by_thread_in_thread():
    thread = threading.Thread(target=by_thread)
    thread.start()
    thread.join()


ROUTES = [value for name, value in list(globals().items()) if name.startswith("by_")]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
def test_a_thread_local_callback_follows_the_work(route, recorder, seen):
    add_thread_local_callback(recorder())
    route()
    assert seen == HEARD


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
def test_so_does_the_disabling_of_callbacks_where_one_is_thread_local(route, recorder, seen):
    add_thread_local_callback(recorder())
    with callbacks.DisableRecordFunctionGuard():
        route()
    assert seen == []


def test_other_work_hears_nothing(recorder, seen):
    ready, go = threading.Event(), threading.Event()

    def other():
        ready.set()
        assert go.wait(60)
        step()

    thread = threading.Thread(target=other)
    thread.start()
    assert ready.wait(60)
    add_thread_local_callback(recorder())
    go.set()
    thread.join()
    assert seen == []


def test_a_worker_of_a_pool_serves_others_without_it(recorder, seen):
    with ThreadPoolExecutor(1) as pool:
        handle = add_thread_local_callback(recorder())
        pool.submit(step).result()  # starts the worker
        assert seen == HEARD
        with_it = ThreadLocalState()
        callbacks.clear_thread_local_callbacks()
        pool.submit(step).result()
        assert seen == HEARD
        pool.submit(with_it.run, step).result()
        assert seen == HEARD * 2
        callbacks.remove_callback(handle)


def test_removing_by_handle_reaches_work_that_took_it_along(recorder, seen):
    ready, go = threading.Event(), threading.Event()

    def follows():
        ready.set()
        assert go.wait(60)
        step()

    handle = add_thread_local_callback(recorder())
    thread = threading.Thread(target=follows)
    thread.start()
    assert ready.wait(60)
    callbacks.remove_callback(handle)
    go.set()
    thread.join()
    assert seen == []


def test_a_task_that_clears_its_own_leaves_the_others(recorder, seen):
    async def clears():
        callbacks.clear_thread_local_callbacks()
        step()

    async def main():
        await asyncio.create_task(clears())

    add_thread_local_callback(recorder())
    asyncio.run(main())
    assert seen == []
    step()
    assert seen == HEARD


def test_a_thread_local_callback_is_never_sampled(recorder, seen, caplog):
    add_thread_local_callback(recorder(sampling_prob=0.0))
    for _ in range(3):
        step()
    assert seen == HEARD * 3
    assert [record.getMessage() for record in caplog.records] == [
        "A thread-local callback is never sampled: its sampling_prob is not used."
    ]


def test_its_scopes_and_should_run_hold(recorder, seen):
    add_thread_local_callback(recorder(scopes={callbacks.RecordScope.FUNCTION}))
    add_thread_local_callback(recorder(should_run=lambda: False))
    step()
    assert seen == []


def test_what_an_executed_function_raises_passes(recorder):
    add_thread_local_callback(recorder())
    failure = KeyError("the program's")

    def fails():
        raise failure

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(fails).exception() is failure


def test_names_of_the_standard_library_are_replaced_only_while_there_is_one(recorder):
    gc.collect()  # states taken by earlier tests hold callbacks
    REGISTRY.update()
    names = [(threading.Thread, "start"), (ThreadPoolExecutor, "submit")]
    before = [getattr(*name) for name in names]
    handle = add_thread_local_callback(recorder())
    assert [getattr(*name) is original for name, original in zip(names, before, strict=True)] == [False] * 2
    callbacks.remove_callback(handle)
    assert [getattr(*name) for name in names] == before


def test_each_of_many_threads_receives_its_own_work_exactly():
    failures = []

    def work():
        try:
            for _ in range(30):
                counts = [0, 0]

                def start(_record, counts=counts):
                    counts[0] += 1

                def end(_record, _context, counts=counts):
                    counts[1] += 1

                handle = add_thread_local_callback(RecordFunctionCallback(start, end))
                by_pool()
                by_thread()
                step()
                callbacks.remove_callback(handle)
                step()
                assert counts == [3, 3]
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []


def test_what_another_package_put_over_a_replaced_name_stays(recorder, monkeypatch):
    handle = add_thread_local_callback(recorder())
    torchspans = threading.Thread.start
    theirs = lambda self: torchspans(self)
    monkeypatch.setattr(threading.Thread, "start", theirs)
    callbacks.remove_callback(handle)
    assert threading.Thread.start is theirs
    by_thread()
    monkeypatch.undo()


def test_a_state_can_be_taken_and_set(recorder, seen):
    handle = add_thread_local_callback(recorder())
    taken = callbacks.get_record_function_tls()
    assert taken.enabled
    assert [each.handle for each in taken.callbacks] == [handle]
    callbacks.clear_thread_local_callbacks()
    callbacks.set_record_function_tls(taken)
    step()
    assert seen == HEARD


# --- pools of multiprocessing ----------------------------------------------------------------------------------------


def by_apply(pool):
    pool.apply(step)


def by_map(pool):
    pool.map(lambda _: step(), [0])


def by_imap(pool):
    assert list(pool.imap(lambda _: step(), [0])) == [None]


def by_imap_unordered(pool):
    assert list(pool.imap_unordered(lambda _: step(), [0])) == [None]


def by_func_given_by_name(pool):
    pool.apply_async(func=step).get()


POOL_METHODS = pytest.mark.parametrize(
    "submit", [by_apply, by_map, by_imap, by_imap_unordered, by_func_given_by_name], ids=lambda each: each.__name__
)


@POOL_METHODS
def test_an_item_of_a_multiprocessing_thread_pool_made_before_has_its_submitters_callbacks(submit, recorder, seen):
    with ThreadPool(1) as pool:
        add_thread_local_callback(recorder())
        submit(pool)
    assert seen == HEARD


@POOL_METHODS
def test_a_worker_of_a_multiprocessing_pool_does_not_keep_the_first_submitters_callbacks(submit, recorder, seen):
    pools = []

    def first_request():
        add_thread_local_callback(recorder())
        pools.append(ThreadPool(1))
        submit(pools[0])

    ThreadLocalState().run(first_request)
    assert seen == HEARD
    with pools[0]:
        submit(pools[0])
    assert seen == HEARD


def test_a_multiprocessing_thread_pool_has_nothing_of_who_made_it(recorder, seen):
    def first_request():
        add_thread_local_callback(recorder())
        return ThreadPool(1)

    pool = ThreadLocalState().run(first_request)
    with pool:
        pool.apply(step)
    assert seen == []


# --- callbacks that are disabled -------------------------------------------------------------------------------------


def by_multiprocessing_thread_pool():
    with ThreadPool(1) as pool:
        pool.apply(step)


@pytest.mark.parametrize("route", [*ROUTES, by_multiprocessing_thread_pool], ids=lambda route: route.__name__)
def test_disabling_callbacks_follows_the_work_where_none_is_thread_local(route, recorder, seen):
    callbacks.add_global_callback(recorder())
    with callbacks.DisableRecordFunctionGuard():
        route()
    assert seen == []
    route()
    assert seen == HEARD


def test_disabling_callbacks_by_the_function_follows_the_work_too(recorder, seen):
    callbacks.add_global_callback(recorder())
    callbacks.enable_record_function(False)
    by_thread()
    callbacks.enable_record_function(True)
    by_thread()
    assert seen == HEARD


def test_a_thread_that_outlives_the_block_that_disabled_callbacks_stays_without_them(recorder, seen):
    ready, go = threading.Event(), threading.Event()

    def outlives():
        ready.set()
        assert go.wait(60)
        by_thread()

    callbacks.add_global_callback(recorder())
    with callbacks.DisableRecordFunctionGuard():
        thread = threading.Thread(target=outlives)
        thread.start()
        assert ready.wait(60)
    go.set()
    thread.join()
    assert seen == []
    REGISTRY.update()
    assert names_are_restored()


def names_are_restored():
    return "torchspan" not in threading.Thread.start.__code__.co_filename


def test_enabling_callbacks_inside_of_a_block_that_disables_them_follows_the_work(recorder, seen):
    callbacks.add_global_callback(recorder())
    with callbacks.DisableRecordFunctionGuard(), callbacks.RecordFunctionGuard(True):
        by_thread()
    assert seen == HEARD


def test_names_of_the_standard_library_are_restored_after_a_block_that_disables_callbacks():
    gc.collect()
    REGISTRY.update()
    assert names_are_restored()
    with callbacks.DisableRecordFunctionGuard():
        with callbacks.DisableRecordFunctionGuard():
            assert not names_are_restored()
        assert not names_are_restored()
    assert names_are_restored()


def test_names_are_restored_when_the_work_that_was_disabled_is_over():
    async def work():
        callbacks.enable_record_function(False)

    asyncio.run(work())
    gc.collect()
    REGISTRY.update()
    assert names_are_restored()
