"""Sequential circuits, unrolled for some steps: bounded model checking (Biere et al. 1999).

The first variables are the free ones: the initial state where it is free, then the inputs of step
0, 1, .. . All other wires are functions of them, so a formula has one solution for each run that
has the property.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nelson.formula import Formula
from tests.structured.circuits import FALSE, Circuit


def counter_run(bits: int, steps: int, final: int, seed: int = 0) -> Formula:
    """A counter from 0 that is `final` after `steps` steps. Variables: "enable" and "load" of each
    step, then the word that "load" stores, low bit first (bits + 2 for each step, in this order).

    A step stores the word if load is 1, else adds 1 (modulo 2^bits) if enable is 1.
    """
    width = bits + 2
    circuit = Circuit(steps * width)
    state = [FALSE] * bits
    for t in range(steps):
        enable, load, *word = range(t * width + 1, (t + 1) * width + 1)
        carry, after = enable, []
        for bit in state:
            after.append(circuit.differ(bit, carry))
            carry = circuit.both(bit, carry)
        state = [
            circuit.choose(load, w, a) if a != FALSE else circuit.both(load, w)
            for w, a in zip(word, after, strict=True)
        ]
    circuit.force(state, final, "final")
    return circuit.formula()


def shift_register(bits: int, steps: int, taps: int, seed: int = 0) -> Formula:
    """A shift register with free initial state (variables 1..bits) and one input for each step.

    Each step shifts by one place. The bit that enters is the input xor the and of two taps, xor the
    and of the next two, and so on; `taps` is even. Property: in each step the bit that enters is 1
    or one of two fixed places is 0, and the input is 0 or another of three fixed places is 1.
    """
    random = np.random.default_rng([seed, 22])
    places = np.sort(random.choice(bits, taps, replace=False)).tolist()
    a, b, c, d, e = random.choice(bits, 5, replace=False).tolist()
    circuit = Circuit(bits + steps)
    state = list(range(1, bits + 1))
    for t in range(steps):
        fed = given = bits + t + 1
        for p, q in zip(places[::2], places[1::2], strict=True):
            fed = circuit.differ(fed, circuit.both(state[p], state[q]))
        circuit.clauses += [[fed, -state[a], -state[b]], [-given, state[c], state[d], state[e]]]
        state = [fed, *state[:-1]]
    return circuit.formula()


@dataclass(frozen=True)
class Netlist:
    """Gates over numbered wires: first the sources, then one wire for each gate.

    A gate is (kind, (a, b), (flip a, flip b)) with kind "and" or "xor".
    """

    sources: int
    gates: tuple[tuple[str, tuple[int, int], tuple[bool, bool]], ...]

    @classmethod
    def random(cls, sources: int, gates: int, near: float, xors: float, seed: int) -> Netlist:
        """Each wire has a place on a line; a gate takes wires within about `near` of its place.

        Real circuits are narrow in this way: gates that work together lie together.
        """
        random = np.random.default_rng([seed, 23])
        place = np.concatenate([np.linspace(0, 1, sources), random.random(gates)])
        made = []
        for k in range(sources, sources + gates):
            distance = np.abs(place[:k] - place[k]) + near * random.exponential(size=k)
            a, b = np.argsort(distance)[:2].tolist()
            kind = "xor" if random.random() < xors else "and"
            flips = random.integers(0, 2, 2).astype(bool).tolist()
            made.append((kind, (a, b), (flips[0], flips[1])))
        return cls(sources, tuple(made))

    def lay(self, circuit: Circuit, sources: list[int]) -> list[int]:
        """The literals of all wires, given those of the sources."""
        wires = list(sources)
        for kind, (a, b), (p, q) in self.gates:
            first, second = -wires[a] if p else wires[a], -wires[b] if q else wires[b]
            gate = circuit.differ if kind == "xor" else circuit.both
            wires.append(gate(first, second))
        return wires

    def values(self, sources: np.ndarray) -> np.ndarray:
        """The same for bits: (sources,) bool -> (sources + gates,) bool."""
        wires = sources.astype(bool).tolist()
        for kind, (a, b), (p, q) in self.gates:
            first, second = wires[a] ^ p, wires[b] ^ q
            wires.append(first != second if kind == "xor" else first and second)
        return np.array(wires, bool)

    @property
    def outputs(self) -> list[int]:
        """Gates that feed no other gate."""
        read = {wire for _, pair, _ in self.gates for wire in pair}
        return [k for k in range(self.sources, self.sources + len(self.gates)) if k not in read]


def netlist(inputs: int, gates: int, fixed: int, near: float = 0.05, seed: int = 0) -> Formula:
    """A combinational circuit of the kind of the ISCAS-85 benchmarks. Variables 1..inputs are its
    inputs, variable inputs + k is gate k. `fixed` random outputs have the value that a hidden input
    gives them: 2^inputs solutions if none is fixed.
    """
    net = Netlist.random(inputs, gates, near, 0.15, seed)
    random = np.random.default_rng([seed, 24])
    hidden = net.values(random.integers(0, 2, inputs))
    circuit = Circuit(inputs)
    wires = net.lay(circuit, list(range(1, inputs + 1)))
    outputs = net.outputs
    for k in random.choice(outputs, min(fixed, len(outputs)), replace=False).tolist():
        circuit.clauses.append([wires[k] if hidden[k] else -wires[k]])
    return circuit.formula()


def automaton(
    latches: int, inputs: int, gates: int, steps: int, fixed: int, seed: int = 0
) -> Formula:
    """A random automaton, unrolled. It starts with all latches 0; variables 1..inputs are the
    inputs of step 0, the next `inputs` those of step 1, and so on: 2^(inputs steps) runs.

    The next state is the last `latches` gates of a random netlist of the state and the inputs.
    After the last step, `fixed` latches have the values that a hidden run gives them.
    """
    net = Netlist.random(latches + inputs, gates, 0.1, 0.45, seed)
    random = np.random.default_rng([seed, 25])
    order = random.permutation(latches + inputs)  # latches and inputs mixed along the line
    circuit = Circuit(inputs * steps + 1)
    never = circuit.n
    circuit.clauses.append([-never])
    state, hidden = [never] * latches, np.zeros(latches, bool)
    for t in range(steps):
        given = np.array(state + list(range(t * inputs + 1, (t + 1) * inputs + 1)))
        bits = np.concatenate([hidden, random.integers(0, 2, inputs).astype(bool)])
        state = net.lay(circuit, given[order].tolist())[-latches:]
        hidden = net.values(bits[order])[-latches:]
    for k in random.choice(latches, fixed, replace=False).tolist():
        circuit.clauses.append([state[k] if hidden[k] else -state[k]])
    return circuit.formula()
