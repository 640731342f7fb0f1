import asyncio
import time

import pytest

import coterie


def test_async_iteration(fast):
    async def run():
        generations = [fast.generate(f"prompt {i}", temperature=0, max_tokens=10) for i in range(8)]
        return await asyncio.gather(*(g.text_async() for g in generations))

    texts = asyncio.run(run())
    assert texts == [fast.generate(f"prompt {i}", temperature=0, max_tokens=10).text() for i in range(8)]


def test_the_loop_goes_on_meanwhile(fast, endless):
    async def run():
        generation, beats = endless(fast), 0

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.001)

        task = asyncio.create_task(beat())
        count = 0
        async for event in generation:
            assert event.kind == "token"
            count += 1
            if count >= 50 and beats > 3:
                generation.cancel()
        task.cancel()
        return count, beats, generation.finish_reason

    count, beats, reason = asyncio.run(run())
    assert count >= 50 and beats > 3 and reason == "cancelled"


def test_a_cancelled_task_cancels_its_generation(fast, endless):
    generation = endless(fast)

    async def run():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(generation.text_async(), 0.2)

    asyncio.run(run())
    until = time.monotonic() + 20
    while generation.statistics.finish_reason is None and time.monotonic() < until:
        time.sleep(0.01)
    assert generation.statistics.finish_reason == "cancelled"


def test_a_loop_that_is_left(fast, endless):
    generation = endless(fast)

    async def run():
        return await generation.__anext__()

    assert asyncio.run(run()).kind == "token"
    generation.close()


def test_blocking_calls_go_to_threads(fast):
    async def run():
        return await asyncio.gather(*(asyncio.to_thread(fast.embed, f"text {i}") for i in range(4)))

    assert len(asyncio.run(run())) == 4


def test_errors_reach_who_awaits(fast):
    async def run():
        generation = fast.generate("x", max_tokens=3)
        generation.close()
        await generation.text_async()

    with pytest.raises(coterie.InvalidArgument, match="closed"):
        asyncio.run(run())
