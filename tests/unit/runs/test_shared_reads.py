import asyncio

import pytest

from web.live.wakeups import SharedReads


class Register:
    """Responds slowly, and counts the lookups."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.fails = False

    async def read(self, name: str) -> str:
        self.reads.append(name)
        await asyncio.sleep(0.01)
        if self.fails:
            raise LookupError(name)
        return f"{name} {len(self.reads)}"


async def test_simultaneous_callers_share_one_read() -> None:
    register = Register()
    shared = SharedReads(register.read, seconds=60)

    together = await asyncio.gather(*(shared.of("ada") for _ in range(200)))
    later = await shared.of("ada")

    assert set(together) == {"ada 1"} == {later}
    assert await shared.of("bob") == "bob 2"


async def test_an_expired_answer_is_not_reused() -> None:
    register = Register()
    shared = SharedReads(register.read, seconds=0.05)

    answer = first = await shared.of("ada")
    async with asyncio.timeout(30):
        while answer == first:
            await asyncio.sleep(0.01)
            answer = await shared.of("ada")

    assert (first, answer) == ("ada 1", "ada 2")


async def test_a_failure_reaches_the_waiting_callers_and_no_later_ones() -> None:
    register = Register()
    shared = SharedReads(register.read, seconds=60)
    register.fails = True

    results = await asyncio.gather(*(shared.of("ada") for _ in range(2)), return_exceptions=True)
    register.fails = False

    assert [type(row) for row in results] == [LookupError, LookupError]
    assert await shared.of("ada") == "ada 2"


async def test_a_cancelled_caller_does_not_cancel_the_read_of_others() -> None:
    register = Register()
    shared = SharedReads(register.read, seconds=60)
    leaves = asyncio.ensure_future(shared.of("ada"))
    stays = asyncio.ensure_future(shared.of("ada"))
    await asyncio.sleep(0)

    leaves.cancel()

    assert await stays == "ada 1"
    with pytest.raises(asyncio.CancelledError):
        await leaves
