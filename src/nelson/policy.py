"""The tuned numbers that decide which method is taken and when it stops, each with its reason.

`nelson.sample(..., policy=Policy(auto=AutoPolicy(without=("joint",))))` is an ablation. A policy
never changes what a guarantee means: only which method is tried, and how long.

A share is a share of the time that is left; it matters only with `seconds=`.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields, replace
from inspect import Parameter, Signature
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def _numbers(cls: type[T]) -> type[T]:
    """A frozen dataclass whose methods are those of `_Numbers`: `dataclass` compiles them for each
    class, which takes 7 ms of each import.
    """
    return dataclass(init=False, repr=False, eq=False)(cls)


class _Signature:
    """What help() and editors show of the arguments, made when it is asked for."""

    def __get__(self, instance: object, owner: Any) -> Any:
        kind = Parameter.POSITIONAL_OR_KEYWORD
        return Signature([Parameter(f.name, kind, default=f.default) for f in fields(owner)])


@_numbers
class _Numbers:
    """Prints only what differs from the default, so that help() stays short."""

    __signature__ = _Signature()

    def __init__(self, *values: Any, **changes: Any) -> None:
        names = list(self.__dataclass_fields__)
        unknown = ", ".join(sorted(changes.keys() - {*names[len(values) :]}))
        if unknown or len(values) > len(names):
            what = f"no {unknown}" if unknown else f"{len(names)} numbers, not {len(values)}"
            raise TypeError(f"{type(self).__name__} has {what}; it has {', '.join(names)}")
        # The defaults are attributes of the class.
        self.__dict__.update(zip(names, values, strict=False), **changes)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        changed = [
            f"{field.name}={value!r}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        """Computed once: a memo asks for it at each call."""
        value = self.__dict__.get("_hash")
        if value is None:
            value = self.__dict__["_hash"] = hash(self._values())
        return int(value)

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash: that of a string is another one in each process."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


@_numbers
class AutoPolicy(_Numbers):
    """Which steps `method="auto"` takes, in general."""

    #: Steps that are left out, by name: an ablation. The names are those of `STEPS` in
    #: `nelson.sampling.auto.ladder`; "single", "fields" and "joint" (kinds of moves of chains) and
    #: "gates" (rejection over the inputs of gates) can be left out as well.
    without: tuple[str, ...] = ()
    #: Rounds of resampling, or sweeps from the past, after which a sample is given up.
    max_rounds: int = 1000
    #: Take the last trial or diagnosis of a component, whatever theta it was for: for callers that
    #: move theta in small steps.
    reuse: bool = False
    #: An extremal formula is resampled if this share of the first tile becomes valid.
    converged: float = 0.99
    #: Samples of a trial of resampling, of extremal components: as many as one of 64 take long.
    trial_lanes: int = 256
    trial_share: float = 0.3
    #: Components with their own pilot run or search; the smaller ones beyond share one.
    separate_parts: int = 8
    preprocessing_share: float = 0.1
    #: Chains from a solver get this share, starts and all diagnoses included.
    search_share: float = 0.8

    def skips(self, step: str) -> bool:
        return step in self.without


@_numbers
class EnumerationPolicy(_Numbers):
    """When `auto` enumerates the structures of a component."""

    #: Components with at most this many variables are enumerated: at most 65,536 structures.
    always: int = 16
    #: Up to this many variables enumeration is tried before compiling.
    up_to: int = 64
    #: Most structures of such a trial: a circuit is better for more.
    structures: int = 1 << 14
    #: Most structures times contexts: each context weighs all structures.
    weighed: int = 1 << 22
    share: float = 0.05
    #: The share for the values of the inputs of gates, where the formula did not compile.
    input_share: float = 0.2


@_numbers
class CircuitPolicy(_Numbers):
    """How long `auto` compiles. Effort is counted in units of `nelson.exact.circuit.attempts`."""

    #: Effort of a compiler without a limit in seconds: about 3 s of one core.
    effort: float = 16.0
    #: The share in which nothing but the compiler runs; and in which it may go on while other steps
    #: are tried. The rest is for drawing.
    share: float = 0.3
    late_share: float = 0.75
    #: A part of more variables is never compiled if that looks hopeless.
    late_variables: int = 5000
    #: From this share of clauses of two literals on the compiler does not wait for other steps:
    #: models of features and configurations, of which D4 compiles some that are 90 wide.
    implications: float = 0.5
    #: Without a limit in seconds, the effort for such a formula if all other steps ended heuristic:
    #: about 12 s of one core. A configuration of 2,500 symbols takes 75.
    late_effort: float = 96.0
    #: The least seconds of a second attempt, without the largest component.
    second_seconds: float = 0.5
    #: At the end the compiler is waited for in this share of the time left. It gives up before, but
    #: may have to read a large circuit then.
    waiting_share: float = 0.8


@_numbers
class CouplingPolicy(_Numbers):
    """The trial that tells whether coupled chains of all starts meet (`cftp` is then exact)."""

    #: Sweeps before a trial is first looked at; and if the formula has more than `large` literals.
    first: int = 16
    first_if_large: int = 4
    large: int = 1_000_000
    #: Samples of a trial, which takes as long as one of 64; but not if the formula is large: then
    #: 64 follow 64 until a sample is this close to P.
    lanes: int = 256
    lanes_if_large: int = 64
    far_if_large: float = 1e-7
    #: Samples of the second trial, of all contexts together; a context has at least 64.
    tile: int = 1024
    #: Twice as many sweeps must leave at most this share of the variables that may have both
    #: values. Random 5-SAT of 1,000 variables: below 0.7 where chains meet (L <= n), 0.95 where
    #: L = 1.3 n.
    stuck: float = 0.85
    #: The same of fewer sweeps than `first`. Random 5-SAT of 20,000 variables, 8 sweeps after 4:
    #: 0.91 where chains meet late (L = 1.05 n), 0.99 or more where they do not (L = 1.3 n, 4-SAT).
    stuck_at_once: float = 0.98
    share: float = 0.1


@_numbers
class RejectionPolicy(_Numbers):
    """When `auto` proposes random assignments, or random inputs of gates."""

    #: Most work of a sample: words of 64 proposals times literals, 0.3 ns each or less, since tiles
    #: end early. This is at most 0.08 s of one core, as for joint moves.
    work: int = 1 << 28
    #: A trial ends after `enough` valid proposals, or after the work of `few` samples that cost the
    #: most. If fewer than `few` are valid, a sample costs too much.
    enough: int = 16
    few: int = 4
    #: Formulas with more literals are not tried.
    large: int = 1_000_000
    #: Before all else: one of `one_in` must be valid, in a trial of `proposals`. At one in 30
    #: (random 5-SAT, n = L = 100) 100,000 samples take 18 to 21 ms, and with `cftp` 22 to 125 ms.
    one_in: int = 64
    proposals: int = 1024
    #: No such trial if the sum of the clauses' probabilities to be violated is larger: of
    #: independent clauses, one proposal in e^5 = 148 would be valid.
    violated: float = 5.0
    #: Nor for formulas with at most `small` variables, which are enumerated, or with fewer literals
    #: than variables or more than `short`: a draw includes a search for gates.
    small: int = 16
    short: int = 20_000
    #: Rejection is not tried for more contexts than this: each has its own trial.
    contexts: int = 8
    share: float = 0.1


@_numbers
class ChainPolicy(_Numbers):
    """Which chains `auto` tries and diagnoses, and the share of the time left that each gets."""

    #: Formulas with more literals have a trial of 64 samples before the pilot run.
    large: int = 20_000
    #: Above this many literals a pilot run takes about `pilot_trials` times as long as these 64
    #: samples (random 4-SAT, a million clauses: chains forget within 16 sweeps; 300 times 1.4 s of
    #: one core). With a deadline there is none if that is more than its share.
    huge: int = 2_000_000
    pilot_trials: float = 300.0
    pilot_share: float = 0.3
    #: Starts that a solver is asked for, and chains that begin there.
    starts: int = 256
    lanes: int = 1024
    #: Conflicts of this solver, without a deadline: some seconds.
    conflicts: int = 50_000
    #: CPU seconds that end it if it counts no conflicts, as CaDiCaL: and more for each literal, to
    #: read the formula.
    solver_seconds: float = 15.0
    seconds_per_literal: float = 3e-6
    #: Single sweeps get `share`; or `short_share`, if there may be jumps.
    share: float = 0.3
    short_share: float = 0.1
    #: Sweeps of fields are tried if at least this share of the variables is in a group.
    grouped: float = 0.1
    fields_share: float = 0.3
    #: Joint moves that hold a larger share of the variables, or more variables, are not tried: in
    #: no formula that we tried did they mix.
    held: float = 0.6
    most_held: int = 512
    joint_share: float = 0.8
    #: Most work of the joint moves of a sample, in entries of tables: about 0.1 s of one core.
    work: int = 1 << 28
    #: Learning jumps.
    learn_share: float = 0.5
    #: Fields and joint moves are not tried for more contexts than this: each is diagnosed.
    contexts: int = 8


@_numbers
class UniquePolicy(_Numbers):
    """How `unique=True` ends: when rows are counted, enumerated, or given up."""

    #: The rows are counted once less than this share of all draws is new, within `seconds`.
    repeats: float = 0.9
    seconds: float = 3.0
    #: A block is stale if less than this share of it is new; then a solver is asked once whether
    #: more rows exist. Draws from a uniform law of known size end without a limit on stale blocks.
    stale: float = 0.05
    stale_blocks: int = 64
    #: Rows are enumerated if more than this share of them is asked for, once `found` of them are.
    most: float = 0.75
    found: float = 0.5
    #: Most rows times columns that are enumerated: 256 MiB.
    cells: int = 1 << 28


@_numbers
class ReservePolicy(_Numbers):
    """The solver that starts beside `auto`, with `seconds=`, so that nobody leaves empty-handed."""

    #: It starts after this share of the time, or after so many seconds: most calls are done then,
    #: and it is to be done within a quarter of the time.
    share: float = 0.1
    seconds: float = 1.0
    #: More solutions than the first, with random phases, and their part of the time left then.
    solutions: int = 64
    more_share: float = 0.4
    #: Most rows times columns that are returned: 32 MiB.
    cells: int = 1 << 28
    #: The part of the time in which `auto` must have decided.
    decide_share: float = 0.85


@_numbers
class ExactPolicy(_Numbers):
    """Which formulas have an exact law (`nelson.exact.law`), and by which route."""

    #: A formula is enumerated before a compiler is started if structures x variables is at most
    #: this. A search that ends at this limit takes about 20 ms, a compiler 200 ms.
    few_cells: int = 1 << 20
    #: Sums over few structures are taken without a look at a circuit if rows of theta x structures
    #: x variables is at most this: they then take less time than a compiler.
    quick_cells: int = 1 << 26
    #: The most structures of a formula that does not compile, 0.2 s.
    structures: int = 1 << 18
    #: The most inputs whose values are enumerated if all else is a function of them.
    inputs: int = 26
    #: The most values of inputs x literals, about 8 seconds of one core: 64 values at a time.
    input_work: int = 1 << 39
    #: The same before a compiler is tried: about a second.
    first_input_work: int = 1 << 36
    #: Gates are not looked for in formulas with more literals: 2 seconds.
    gate_literals: int = 1_000_000
    #: The most structures x variables of a list, one byte each: 128 MiB.
    row_cells: int = 1 << 27
    #: Effort of the compiler without a deadline, about 3 s (`nelson.exact.circuit.attempts`).
    effort: float = 16.0
    #: With a deadline: the part of the time that preprocessing may take,
    preprocessing_share: float = 0.1
    #: the part that a formula without its evidence may take, so that its circuit serves other
    #: evidence, too,
    unconditioned_share: float = 0.5
    #: and the part of the compiler; the rest is for an external counter.
    compiler_share: float = 0.5
    #: Without a deadline: CPU seconds of an external counter, for each question.
    counter_seconds: float = 5.0
    #: An external counter is not asked beyond these log-odds: a double holds no weight far below
    #: e^-700.
    counter_theta: float = 600.0
    #: Seconds of a call that sets no limit, where a clock ends it.
    seconds: float = 60.0


@_numbers
class MovesPolicy(_Numbers):
    """Which joint moves and jumps chains make (`nelson.chains.moves`), and what they may cost."""

    #: The widest joint moves are made that cost at most this much for each lane (`Moves.work`).
    joint_work: int = 1 << 18
    #: Moves of the smallest width that cost more than this are not made at all.
    narrow_joint_work: int = 1 << 23
    #: Entries of all tables of a move: 64 bytes each, for each thread.
    joint_entries: int = 1 << 21
    #: Steps of the search for held variables, about 2 ns each.
    cutset_steps: int = 1 << 30
    #: Jumps leave a formula of this width if the hubs are held. In a region these widths are tried,
    #: too, if moves in it cost at most one and a half times as much as jumps.
    width: int = 8
    region_widths: tuple[int, ...] = (10, 12)
    #: Formulas with more hubs, or a larger share of them, have no jumps; nor have those whose jumps
    #: cost more for each lane.
    hubs: int = 1024
    hub_share: float = 0.15
    jump_work: int = 1 << 21
    #: Jumps of the population from which the law of the hubs is learned.
    jumps_at_least: int = 12
    jumps_at_most: int = 64
    #: It has settled if the mean of log W has grown by less than this many standard deviations
    #: within the last jumps. It then makes `jumps_settled` more.
    settled: float = 0.25
    jumps_settled: int = 12
    #: Learning has failed if fewer proposals than this share are accepted at its end.
    accepted: float = 0.05


@_numbers
class DiagnosisPolicy(_Numbers):
    """How long a pilot run goes on before chains are called heuristic (`nelson.chains.diagnosis`).

    What chains must pass to be diagnosed is not in here: it is what the word means.
    """

    #: Work of a pilot run: of single sweeps, variables x lanes x sweeps; of all other moves,
    #: entries of tables (`Moves.work`) x lanes x moves. A second of one core is about 2^32.
    single_work: int = 1 << 33
    work: int = 1 << 34
    #: Moves that hold at most this share of the variables are the likelier ones to mix. They get
    #: more work.
    few_held: float = 0.1
    work_if_few_held: int = 1 << 36
    #: Longer lags are tried, up to `more_work` times that work or as long as the caller's time
    #: lasts, if twice as many moves leave at most the share `falling` of the features slow.
    more_work: int = 8
    falling: float = 0.8
    #: If twice as many sweeps leave more than this share of a difference, more are not tried.
    frozen: float = 0.9
    #: Conflicts after which a question to the solver stays open; and all further questions of a
    #: diagnosis, about five seconds. An open question counts against the chains.
    question_conflicts: int = 10_000
    conflicts: int = 200_000
    #: Questions for starts that take a value which is rare in the chains, answers that there is no
    #: such solution included.
    questions: int = 4096
    #: Starts that take many rare values at once, and starts that take a given one: at most.
    covering_starts: int = 256
    flipped_starts: int = 48
    #: The most likely structure is searched for if there are at most this many literals, for this
    #: time if the caller set a limit (else for `question_conflicts`, about the same).
    mode_literals: int = 50_000
    mode_seconds: float = 1.0


@_numbers
class TermsPolicy(_Numbers):
    """How laws with products of variables are drawn (`nelson.sample(..., terms=...)`)."""

    #: Effort for the law of the lifted formula, as a multiple of `ExactPolicy.effort`: about 10 s.
    effort: float = 3.375
    #: With a deadline: the part of the time left for that law; and then for a pilot run of chains.
    exact_share: float = 0.5
    pilot_share: float = 0.5


@_numbers
class LogZPolicy(_Numbers):
    """How log Z is computed where the exact law does not answer (`nelson.log_z`)."""

    #: Without a deadline: seconds for the estimate, or for an exact method chosen by name.
    seconds: float = 300.0
    #: With a deadline: the part of the time left for tables, and again for the exact law; the rest
    #: is for the estimate.
    exact_share: float = 0.4
    #: Parts with more variables are not enumerated: 4 million states.
    enumerate_variables: int = 22
    #: The most states x clauses of all parts that are enumerated, about a second.
    enumerate_work: int = 2_000_000_000
    #: Work of sums over tables within "auto", half a second of one core,
    tables_work: int = 1 << 31
    #: and if they are asked for, about a minute.
    tables_work_if_asked: int = 1 << 38
    #: The most literals of a formula that is summed over tables, or whose held units are sought.
    tables_literals: int = 2_000_000
    #: The most entries of all tables together, 64 bytes each.
    tables_entries: int = 1 << 21
    #: Steps of the search for units to hold, about 2 ns each.
    tables_steps: int = 1 << 27
    #: Work of valid proposals within "auto", about 20 s of one core: words of 64 proposals x
    #: literals, 0.3 ns each.
    rejection_work: int = 1 << 36
    #: The same of the trial that tells how many proposals are valid, about 0.6 s.
    rejection_trial_work: int = 1 << 31
    #: The part of the time left that a bridge gets if bounds may follow: solvers need little.
    bridge_share: float = 0.9
    #: Work of one sum over tables if a bridge needs many: 0.06 ms of one core.
    bridge_work: int = 1 << 18
    #: Values of all held units of a bridge, at most: the fit takes their square, and with more of
    #: them both laws overlap too little (random 5-SAT, n = L = 3000, has 3,470 and needs 200 s for
    #: a half width of 0.05; n = 5000 fails).
    bridge_values: int = 4096
    #: Samples that must lie where both laws of a bridge overlap, or it is not trusted.
    bridge_overlap: float = 50.0
    #: Rounds of a bridge, at most; each makes at most `bridge_growth` times the samples there are.
    bridge_rounds: int = 8
    bridge_growth: float = 8.0
    #: Seconds of a solver for a first valid structure. Others get a fifth, the most likely one a
    #: tenth: one more structure rarely changes a bound.
    solver_seconds: float = 10.0
    #: The most likely structure is not looked for if there are more variables: the MaxSAT solver
    #: then does not keep to its time limit (9 s instead of 1 s for 4,000 variables).
    mode_variables: int = 1000
    #: With terms: points and words of 64 lanes of the longest path, and lanes x points of the last
    #: run without a deadline.
    path_points: int = 4096
    path_words: int = 128
    path_work: int = 1 << 19
    #: The share of the lanes that must carry the weight of a path, or it is not trusted.
    path_effective: float = 0.1
    #: With terms: seconds of a bridge after a path that is not trusted, without a deadline,
    terms_bridge_seconds: float = 60.0
    #: and its part of the time with one; the path has the rest.
    terms_bridge_share: float = 0.4


@_numbers
class FitPolicy(_Numbers):
    """When a fit of theta stops, and how it divides its time: `nelson.learn`, shares, tables.

    Step sizes, samples and penalties are fields of the optimizers (`nelson.learning`).
    """

    #: With a deadline: the part of the time left for an exact law, before samples are tried,
    exact_share: float = 0.5
    #: the part for first samples, and again for a proof that shares are impossible,
    proof_share: float = 0.25
    #: and the part for the loop; the rest is for the last draw.
    loop_share: float = 0.8
    #: Seconds of such a proof, at most.
    proof_seconds: float = 20.0
    #: A proof is looked for if a theta has moved this far, or after this many of Newton's steps.
    far: float = 40.0
    many_steps: int = 50
    #: Shares from samples are fitted as if this many examples had them. The loop draws four times
    #: as many in a step and averages eight steps: a share is then off by 0.0007 (standard error).
    examples: int = 1 << 14
    #: Standard errors by which a share of fresh samples may differ from what was asked for.
    sigmas: float = 6.0
    #: Method and sweeps of the samples are chosen again, for the present theta, at the earliest
    #: after this many iterations: if a weight has moved by more than `moved`, or the iterations
    #: have doubled. While learning converges, theta moves less and less, and a pilot run can cost
    #: as much as 100 steps.
    refresh_every: int = 25
    moved: float = 0.25
    #: A fit of a table ends when the log-likelihood of all rows is this close to its maximum, in
    #: nats, and counts as converged within `converged`: the noise of k numbers is k / 2 nats.
    close: float = 1e-4
    converged: float = 1e-2


@_numbers
class PairPolicy(_Numbers):
    """Which pairs of fields `Space.learn` tries, and when its search ends."""

    #: With fewer rows pairs are not searched for: held-out likelihood would say nothing.
    rows: int = 50
    #: Of the pairs that are tried, at most this share differs from the model by chance alone
    #: (false discovery rate). Rows that were held out judge them; a lower level costs true pairs.
    level: float = 0.5
    #: Nats that a pair must promise to add to the log-likelihood of a row. In wide tables of many
    #: rows this leaves out thousands of pairs that chance made, each of which would cost a fit.
    gain: float = 1e-4
    #: A batch goes if rows that were held out become less likely by this many standard errors.
    sigmas: float = 1.0
    #: Combinations of values of the largest pair that is tried.
    cells: int = 4096
    #: Largest cost of a circuit that is tried (`choose._cost`). At ten fields of five values each,
    #: 34 of the 45 pairs compiled in 9 s; all 45 (cost 12 million) did not in 60 s.
    cost: float = 4e6
    #: The same for tables of few rows, at most, and for each row: each fit takes as long as its
    #: cost, and few rows do not pay for it.
    cost_of_few: float = 3e5
    cost_per_row: float = 150.0
    #: Samples of the model in which pairs are counted: four for each row, up to this many.
    samples: int = 1 << 17
    #: Rows times pairs that are counted to rank pairs: of more, every k-th row is looked at.
    counted: int = 1 << 28
    #: Batches of which not even the best pair helps before the search ends. The pair that differs
    #: most from the model is not always the one that helps.
    misses: int = 3
    #: Models that may fail to compile before the search ends. Each takes the full limit of time.
    failures: int = 4

    def most_cells(self, rows: int) -> float:
        """The largest cost of a search over this many rows."""
        return min(self.cost, max(self.cost_of_few, self.cost_per_row * rows))


@_numbers
class JudgingPolicy(_Numbers):
    """How `nelson.judge` chooses a test and the number of samples."""

    #: Seconds of a call that sets no limit.
    seconds: float = 60.0
    #: The part of the time for the exact law of the formula.
    law_share: float = 0.25
    #: Chi-square needs a cell for each structure,
    structures: int = 50_000
    #: and about this many samples: the rarest cells are merged below 5.
    samples_per_structure: int = 20
    #: Samples that are drawn if the caller says nothing: from so many, where no test asks for more,
    fewest_samples: int = 20_000
    #: to so many.
    most_samples: int = 1_000_000
    #: With fewer samples only validity is tested.
    least_samples: int = 50
    #: Pairs of variables are tested among at most this many: 32,640 tests.
    paired_variables: int = 256
    #: "barbarik" skips pairs of structures that need more draws, and then does not accept.
    pair_draws: int = 4_000_000


@_numbers
class SpacePolicy(_Numbers):
    """How fields and rules of a space become variables and clauses."""

    #: A choice of at most this many values has one variable for each; a larger one is binary.
    one_hot_choice: int = 64
    #: The same of an integer. One-hot suits `distinct` and tables (Sudokus 9, months 12), binary
    #: suits sums: eight transactions with lengths 1..15 compile in 8 s, one-hot not in 40 s.
    one_hot_integer: int = 12
    #: A comparison is tabulated if its fields have at most this many combinations of values.
    tabulated: int = 4096
    #: A sum of rules is counted by a diagram up to this many terms x largest sum.
    counted: int = 20_000
    #: A rule with more clauses is written when it is first needed, as that call may have a limit:
    #: about a tenth of a second.
    clauses_at_once: int = 20_000
    #: With a deadline: the part of the time for writing the rules as clauses,
    writing_share: float = 0.75
    #: and for finding the law; the rest is for drawing.
    law_share: float = 0.5
    #: With a deadline: the part of the time left for a circuit of the whole space.
    compile_share: float = 0.5
    #: Without one: the effort for it (`nelson.exact.circuit.attempts`), about 10 s; and if the
    #: space is of small width, for which more is likely to help.
    compile_effort: float = 54.0
    narrow_effort: float = 107.0
    #: Variables above which the parts of a space are drawn one by one: numbers of a circuit of all
    #: of it are rounded more, and draws of 10,000 fields (67,000 variables) are then just exact.
    one_circuit: int = 60_000
    #: Rows of a trial that says how many obey a rule in `given`,
    trial_rows: int = 4096
    #: and the least share with which rows that obey it are picked out of the others: 64 rows of a
    #: circuit take 2 microseconds. At 64 rows of the trial the share is known within half.
    least_share: float = 1 / 64


@_numbers
class CoverPolicy(_Numbers):
    """How `Space.cover` searches for a small table, and `Space.coverage` for legal tuples."""

    #: Most candidates for a row; fewer, but 4 at least, if a pass over all their columns computes
    #: more places than `candidate_work`.
    candidates: int = 32
    candidate_work: int = 20_000_000
    #: Uncovered tuples among which the starts of candidates are chosen.
    starts: int = 100_000
    #: Passes over all columns after the first.
    passes: int = 2
    #: Candidates that the solver turns into legal rows.
    repaired: int = 4
    #: Most changes that are tried to make up for one row,
    moves: int = 3000
    #: and most places that are computed for them, for all rows together: some seconds.
    move_work: int = 100_000_000
    #: With fewer undecided tuples per cross no rows are drawn: the solver needs about as many
    #: calls.
    undecided: int = 200
    #: A block of drawn rows that shows fewer new tuples is the last one.
    few_new: int = 1000
    #: Rows are drawn only to save calls of the solver: for at most this long.
    draw_seconds: float = 5.0


@_numbers
class Policy(_Numbers):
    """One group of numbers for each decision. Frozen and hashable: it is part of memo keys.

    >>> formula = nelson.Formula([[1, 2], [-1, 3]])
    >>> nelson.sample(formula, policy=nelson.Policy().without("extremal")).info["method"]
    'enumerate'
    """

    auto: AutoPolicy = AutoPolicy()
    exact: ExactPolicy = ExactPolicy()
    terms: TermsPolicy = TermsPolicy()
    moves: MovesPolicy = MovesPolicy()
    diagnosis: DiagnosisPolicy = DiagnosisPolicy()
    log_z: LogZPolicy = LogZPolicy()
    enumeration: EnumerationPolicy = EnumerationPolicy()
    circuit: CircuitPolicy = CircuitPolicy()
    coupling: CouplingPolicy = CouplingPolicy()
    rejection: RejectionPolicy = RejectionPolicy()
    fit: FitPolicy = FitPolicy()
    pairs: PairPolicy = PairPolicy()
    chains: ChainPolicy = ChainPolicy()
    unique: UniquePolicy = UniquePolicy()
    reserve: ReservePolicy = ReservePolicy()
    judging: JudgingPolicy = JudgingPolicy()
    space: SpacePolicy = SpacePolicy()
    cover: CoverPolicy = CoverPolicy()

    def without(self, *steps: str) -> Policy:
        """The same policy with these steps of `auto` left out, too."""
        left_out = tuple(dict.fromkeys((*self.auto.without, *steps)))
        return replace(self, auto=replace(self.auto, without=left_out))


DEFAULT = Policy()
