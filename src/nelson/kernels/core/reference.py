"""The specification: every method in plain NumPy, one boolean per sample and variable.

Slow and obvious on purpose. Tests compare the fast kernels with it bit for bit. That is possible
because the randomness depends on (seed, context, word, variable, round, bit) and on nothing else.
"""

import numpy as np

from nelson.kernels.core import rng
from nelson.kernels.core.program import Program

LOVASZ, MOSER_TARDOS, PRS = range(3)
#: What the weight of a gate favours (`gate_weights`).
UNWEIGHTED, FAVOURS_ZERO, FAVOURS_ONE = range(3)


def threshold(theta: np.ndarray) -> np.ndarray:
    """round(2^32 / (1 + e^-theta)), clipped to [1, 2^32 - 1]: both values stay possible."""
    half = np.exp(-np.abs(np.asarray(theta, float)))
    minor = half / (1 + half)  # probability of the rarer value, without cancellation
    p = np.where(np.asarray(theta) > 0, 1 - minor, minor)
    return np.clip(np.round(p * 2.0**32), 1, 2**32 - 1).astype(np.uint32)


def gate_weights(
    thr: np.ndarray, theta: np.ndarray, gates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For rejection: thr (contexts, n) with 2^32 exp(-|theta|) for gates, and the favoured values.

    exp(theta x) is largest at the favoured value of x; elsewhere it is exp(-|theta|) times that.
    """
    thr, favoured = thr.copy(), np.full(thr.shape, UNWEIGHTED, np.uint8)
    odds = theta[:, gates]
    thr[:, gates] = np.clip(np.round(np.exp(-np.abs(odds)) * 2.0**32), 1, 2**32 - 1)
    favoured[:, gates] = np.where(odds > 0, FAVOURS_ONE, np.where(odds < 0, FAVOURS_ZERO, 0))
    return thr, favoured


def bernoulli(
    seed: int, context: int, words: np.ndarray, variables: np.ndarray, round: int, thr: np.ndarray
) -> np.ndarray:
    """Draw Bernoulli(thr / 2^32) for 64 samples per word: (words, variables) uint64.

    A lane reads random bits until the first 0. If that is bit k, the value is binary digit k of p,
    so P(1) = sum_k 2^-(k+1) p_k = p. A lane that reads 32 ones gets 0.
    """
    with np.errstate(over="ignore"):
        key0, key1 = rng.keys(
            rng.spread_seed(seed), np.uint64(context), words.astype(np.uint64)[:, None]
        )
        start = key0 + rng.counter(round, variables.astype(np.uint64), 0)
        undecided = np.full(start.shape, ~np.uint64(0))
        value = np.zeros(start.shape, np.uint64)
        for k in range(rng.BITS):
            random = rng.scramble(start + np.uint64(k) * rng.GOLDEN, key1)
            digit = ((thr >> np.uint32(31 - k)) & np.uint32(1)).astype(bool)
            value |= np.where(digit, undecided & ~random, np.uint64(0))
            undecided &= random
    return value


def lanes(words: np.ndarray, count: int) -> np.ndarray:
    """(words, n) uint64 -> (count, n) bool; bit k of word w is sample 64 w + k."""
    bits = (words[:, None, :] >> np.arange(64, dtype=np.uint64)[None, :, None]) & np.uint64(1)
    return bits.reshape(64 * len(words), words.shape[1])[:count].astype(bool)


class Reference:
    """Draws from one program: `Reference(program, thr).draw(...)`, with thr from `threshold`.

    thr and the samples have the order of the formula's variables; inside, variables have the
    numbers of the program.
    """

    def __init__(self, program: Program, thr: np.ndarray) -> None:
        self.program, self.thr = program, thr[program.name]
        pairs = zip(program.clause_ptr[:-1], program.clause_ptr[1:], strict=True)
        codes = [program.lits[a:b] for a, b in pairs]
        self.variables = [code >> 1 for code in codes]
        self.wanted = [(code & 1).astype(bool) for code in codes]

    def violated(self, x: np.ndarray) -> np.ndarray:
        """(m, n) -> (m, L): does sample i violate clause j."""
        false = [(x[:, v] != w).all(1) for v, w in zip(self.variables, self.wanted, strict=True)]
        return np.array(false, bool).reshape(len(false), len(x)).T

    def spread(self, clauses: np.ndarray) -> np.ndarray:
        """(m, L) -> (m, n): the variables of the marked clauses."""
        mask = np.zeros((len(clauses), self.program.n), bool)
        for j, v in enumerate(self.variables):
            mask[:, v] |= clauses[:, j, None]
        return mask

    def grow(self, x: np.ndarray, resampled: np.ndarray) -> np.ndarray:
        """The resample set of partial rejection sampling, (m, L) -> (m, L).

        Add, all at once, each clause that shares a variable with the set and is not satisfied by
        its variables inside the set; repeat until there is none.
        """
        while True:
            inside = self.spread(resampled)
            grown = resampled.copy()
            for j, (v, w) in enumerate(zip(self.variables, self.wanted, strict=True)):
                holds_inside = (inside[:, v] & (x[:, v] == w)).any(1)
                grown[:, j] |= inside[:, v].any(1) & ~inside[:, v].all(1) & ~holds_inside
            if (grown == resampled).all():
                return resampled
            resampled = grown

    def draw(
        self, method: int, seed: int, count: int, max_rounds: int, sweeps: int = 0, context: int = 0
    ) -> tuple[np.ndarray, np.ndarray, int, int]:
        """-> (x (count, n), valid (count,), rounds of the slowest sample, clauses resampled in all
        samples together)
        """
        words = np.arange(-(-count // 64))
        every = np.arange(self.program.n)

        def fresh(round: int, variables: np.ndarray = every) -> np.ndarray:
            names, thr = self.program.name[variables], self.thr[variables]
            drawn = bernoulli(seed, context, words, names, round, thr)
            return lanes(drawn, count)

        x, rounds, resampled = fresh(0), 0, 0
        x[:, self.program.fixed >> 1] = self.program.fixed & 1
        while (bad := self.violated(x)).any() and rounds < max_rounds:
            rounds += 1
            if method == MOSER_TARDOS:
                bad &= np.cumsum(bad, 1) == 1
            elif method == PRS:
                bad = self.grow(x, bad)
            resampled += int(bad.sum())
            x = np.where(self.spread(bad), fresh(rounds), x)
        for round in range(rng.SWEEP_ROUND, rng.SWEEP_ROUND + sweeps):
            for v in self.sweep_order(seed, context):
                x[:, v] = self.heat_bath(x, v, fresh(round, np.array([v]))[:, 0])
        valid = np.logical_not(self.violated(x).any(1))
        return x[:, self.program.place], valid, rounds, resampled

    def couple(
        self, seed: int, count: int, max_sweeps: int, context: int = 0, first: int = 1
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Coupling from the past. -> (x (count, n), valid (count,), sweeps of the last run)

        Sweep t ends at time -t and draws the random numbers of round SWEEP_ROUND + t, in every
        run. A run of length T makes the sweeps T - 1, .., 1, 0 from the set of all states; T is
        `first`, then doubles. The program must sweep every variable that is not fixed.
        """
        length = first
        while True:
            may = self.bounds_after(seed, count, length, context)
            met = not (may[0] & may[1]).any()
            if met or length >= max_sweeps:
                break
            length = min(2 * length, max_sweeps)
        valid = np.logical_not(self.violated(may[1]).any(1)) & met
        return may[1][:, self.program.place], valid, length

    def bounds_after(self, seed: int, count: int, length: int, context: int = 0) -> np.ndarray:
        """A run of that length: may[s], (2, count, n), says where a variable may have value s."""
        words, program = np.arange(-(-count // 64)), self.program
        may = np.ones((2, count, program.n), bool)
        may[1 - (program.fixed & 1), :, program.fixed >> 1] = False
        for t in range(length - 1, -1, -1):
            for v in self.sweep_order(seed, context):
                name, thr, round = program.name[[v]], self.thr[[v]], rng.SWEEP_ROUND + t
                coin = lanes(bernoulli(seed, context, words, name, round, thr), count)[:, 0]
                may[0][:, v], may[1][:, v] = self.bounded_heat_bath(may, v, coin)
        return may

    def bounded_heat_bath(
        self, may: np.ndarray, v: int, coin: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The values that the heat bath may give v, from any state that `may` (2, m, n) allows.

        A clause of v forces v if all its other literals are false; in a valid state v then has that
        value, and keeps it. [0] of `maybe` and `surely`: a clause with the literal -v forces 0;
        [1]: a clause with +v forces 1. -> (may be 0, may be 1)
        """
        maybe, surely = np.zeros((2, len(coin)), bool), np.zeros((2, len(coin)), bool)
        for vs, w in zip(self.variables, self.wanted, strict=True):
            if v in vs:
                own, others = int(w[vs == v][0]), vs != v
                true = w[others].astype(int)  # the values that make the other literals true
                maybe[own] |= may[1 - true, :, vs[others]].all(0)
                surely[own] |= ~may[true, :, vs[others]].any(0)
        zero = ~surely[1] & (~coin | (maybe[0] & may[0][:, v]))
        one = ~surely[0] & (coin | (maybe[1] & may[1][:, v]))
        return zero, one

    def sweep_order(self, seed: int, context: int) -> np.ndarray:
        """The variables in the order of the sweeps: class after class, from a random class on."""
        ptr, classes = self.program.class_ptr, self.program.n_classes
        with np.errstate(over="ignore"):
            spread = rng.spread_seed(seed)
            first, step = rng.class_order(spread, np.uint64(context), classes)
        visited = [(first + i * step) % classes for i in range(classes)]
        parts = [self.program.order[ptr[c] : ptr[c + 1]] for c in visited]
        return np.concatenate([*parts, self.program.order[:0]])

    def heat_bath(self, x: np.ndarray, v: int, fresh: np.ndarray) -> np.ndarray:
        """x_v, redrawn in the samples where every clause of v holds without v."""
        free = np.ones(len(x), bool)
        for vs, w in zip(self.variables, self.wanted, strict=True):
            if v in vs:
                others = vs != v
                free &= (x[:, vs[others]] == w[others]).any(1)
        return np.where(free, fresh, x[:, v])
