"""Bursts that a bus may see, as a class of PyVSC. Nothing here knows nelson."""

import vsc


@vsc.randobj
class Burst:
    def __init__(self):
        self.address = vsc.rand_bit_t(16)
        self.beats = vsc.rand_bit_t(4)
        self.size = vsc.rand_bit_t(2)  # of a beat: 1, 2, 4 or 8 bytes

    @vsc.constraint
    def legal(self):
        self.beats > 0
        with vsc.implies(self.size == 3):
            self.beats.inside(vsc.rangelist(2, 4, 8))
        (self.address & ((1 << self.size) - 1)) == 0  # aligned
        (self.address & 0xFFF) + (self.beats << self.size) <= 0x1000  # within a page of 4 KB
