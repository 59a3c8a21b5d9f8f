"""The test bench: cocotb drives, PyVSC declares, nelson draws."""

from collections import Counter

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

import nelson.pyvsc
from examples.burst.stimulus import Burst

nelson.pyvsc.install()


@cocotb.test()
async def bursts_end_where_they_should(dut):
    Clock(dut.clk, 2, unit="ns").start()
    dut.start.value = 1
    burst, sizes = Burst(), Counter()
    for _ in range(200):
        burst.randomize()
        await FallingEdge(dut.clk)
        dut.address.value, dut.beats.value, dut.size.value = burst.address, burst.beats, burst.size
        await FallingEdge(dut.clk)
        assert int(dut.last.value) == burst.address + (burst.beats << burst.size) - 1
        sizes[burst.size] += 1
    by_size = dict(sorted(sizes.items()))
    cocotb.log.info("bursts by size: %s; drawn: %s", by_size, nelson.pyvsc.drawn())
