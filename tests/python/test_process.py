"""What ends a process, or interrupts it: each in a process of its own."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

PREAMBLE = """
import asyncio, gc, os, sys, threading, time
import coterie
engine = coterie.Engine({path!r}, parallel=4, threads=1)
def endless():
    return engine.generate([1, 2, 3], ignore_end=True, shift_context=True)
"""


def start(golden, program):
    source = PREAMBLE.format(path=str(golden.path)) + textwrap.dedent(program)
    return subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process, seconds=60):
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, out, err


EXITS = {
    "a generation is running": "g = endless(); next(g)",
    "many are running": "gs = [endless() for _ in range(20)]; next(gs[0])",
    "a daemon thread reads": """
        g = endless()
        threading.Thread(target=lambda: [None for _ in g], daemon=True).start()
        time.sleep(0.2)
        """,
    "daemon threads embed": """
        def run():
            while True:
                engine.embed(["a text"] * 20)
        for _ in range(3):
            threading.Thread(target=run, daemon=True).start()
        time.sleep(0.3)
        """,
    "an event loop was left": """
        async def run():
            g = endless()
            async for event in g:
                return g
        kept = asyncio.run(run())
        """,
    "in a reference cycle": """
        class Cycle: pass
        c = Cycle(); c.self = c; c.g = endless(); c.engine = engine; next(c.g)
        del c
        """,
    "with listeners": """
        other = coterie.Engine(engine.model, log=print, events=lambda e: None)
        g = other.generate([1, 2], ignore_end=True, shift_context=True); next(g)
        """,
    "sys.exit in the middle": "g = endless(); next(g); sys.exit(0)",
    "the engine is closed first": "g = endless(); next(g); engine.close()",
}


@pytest.mark.parametrize("program", EXITS.values(), ids=EXITS.keys())
def test_exit(golden, program):
    code, _, err = finish(start(golden, program))
    assert code == 0, err
    assert "Fatal" not in err and "terminate" not in err


def test_an_exception_ends_the_program_as_usual(golden):
    code, _, err = finish(start(golden, "g = endless(); next(g); raise ValueError('mine')"))
    assert code == 1 and "ValueError: mine" in err and "terminate" not in err


INTERRUPTS = {
    "a generation": """
        others = [endless() for _ in range(4)]  # so that it waits in the queue
        g = endless()
        print("token", flush=True)
        try:
            for event in g: pass
        except KeyboardInterrupt:
            while g.next() is not None: pass
            print("interrupted", g.finish_reason, flush=True)
        """,
    "an embedding": """
        print("token", flush=True)
        try:
            while True: engine.embed(["a text of some length"] * 200)
        except KeyboardInterrupt:
            print("interrupted cancelled", flush=True)
        """,
    "asyncio": """
        async def run():
            async for event in g: print("token", flush=True)
        g = endless()
        try:
            asyncio.run(run())
        except KeyboardInterrupt:
            while g.statistics.finish_reason is None: time.sleep(0.01)
            print("interrupted", g.statistics.finish_reason, flush=True)
        """,
}


@pytest.mark.parametrize("program", INTERRUPTS.values(), ids=INTERRUPTS.keys())
def test_control_c(golden, program):
    process = start(golden, program)
    assert process.stdout.readline().strip() == "token"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert "interrupted cancelled" in out, err
    assert code == 0, err


def test_a_child_of_fork_that_leaves_the_engine_alone(golden):
    program = """
        g = endless(); next(g)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        g.cancel()
        while g.next() is not None: pass
        print("done", flush=True)
        """
    code, out, err = finish(start(golden, program))
    assert code == 0 and "done" in out, err


def test_nothing_is_printed(golden):
    code, out, err = finish(start(golden, "engine.generate('x', max_tokens=3).text()"))
    assert (code, out, err) == (0, "", "")


def test_memory_comes_back(golden):
    program = """
        def rss():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        def turn():
            e = coterie.Engine(engine.model, threads=1)
            for _ in range(20): e.generate([1, 2], max_tokens=4).text()
            e.embed(["a", "b"]); e.close()
        for _ in range(3): turn()
        gc.collect(); before = rss()
        for _ in range(15): turn()
        gc.collect(); print((rss() - before) // 1024)
        """
    code, out, err = finish(start(golden, program))
    assert code == 0, err
    assert int(out) < 20 * 1024, f"{out} KiB more"
