"""Train a network end to end through `LovaszLayer`: demand in, a valid street plan out.

A town of 3 x 4 crossings makes its 17 streets one-way. A plan is valid if at least one street leads
out of each crossing (a sink-free orientation: one clause for each crossing). Each morning the town
learns between which two crossings most people will travel, and a network answers with plans:

    context (origin, destination)  --net-->  theta (17)  --LovaszLayer-->  16 valid plans
    loss = mean travel time from the origin to the destination and back

Travel time is the length of a shortest path, which has no derivative. `layer.expectation` needs
none: the gradient of the expected time is Cov(time, x). Every plan is valid at every step of the
training. At the end the network is evaluated on pairs of crossings that were not in the training.

    python examples/learn_streets.py [--steps 400] [--seed 0]
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

import nelson
from nelson.distribution.layer import LovaszLayer
from nelson.distribution.mrf import ConstrainedMRF

ROWS, COLUMNS = 3, 4
CROSSINGS = ROWS * COLUMNS
#: Minutes from one crossing to another if no path exists: more than any path takes.
NO_PATH = 3.0 * CROSSINGS


def town() -> tuple[list[tuple[int, int]], nelson.Formula]:
    """The streets (u, v), and the formula: at least one street leads out of each crossing.

    Variable e + 1 belongs to streets[e] and is true for the direction u -> v.
    """
    streets = []
    for crossing in range(CROSSINGS):
        row, column = divmod(crossing, COLUMNS)
        if column + 1 < COLUMNS:
            streets.append((crossing, crossing + 1))
        if row + 1 < ROWS:
            streets.append((crossing, crossing + COLUMNS))
    out: list[list[int]] = [[] for _ in range(CROSSINGS)]
    for e, (u, v) in enumerate(streets, start=1):
        out[u].append(e)
        out[v].append(-e)
    return streets, nelson.Formula(out, n_vars=len(streets))


def travel_times(plans: Tensor, streets: list[tuple[int, int]]) -> Tensor:
    """(..., 17) -> (..., 12, 12): minutes between all crossings, by Floyd-Warshall.

    Each street takes one minute.
    """
    distance = torch.full((*plans.shape[:-1], CROSSINGS, CROSSINGS), NO_PATH)
    distance.diagonal(dim1=-2, dim2=-1).zero_()
    for e, (u, v) in enumerate(streets):
        forth = plans[..., e] > 0.5
        distance[..., u, v] = torch.where(forth, 1.0, NO_PATH)
        distance[..., v, u] = torch.where(forth, NO_PATH, 1.0)
    for k in range(CROSSINGS):
        through_k = distance[..., :, k, None] + distance[..., None, k, :]
        distance = torch.minimum(distance, through_k)
    return distance


def there_and_back(plans: Tensor, demand: Tensor, streets: list[tuple[int, int]]) -> Tensor:
    """Minutes of the round trip: plans (b, m, 17), demand (b, 2) -> (b, m)."""
    times = travel_times(plans, streets)
    b = torch.arange(len(demand))
    origin, destination = demand.T
    return times[b, :, origin, destination] + times[b, :, destination, origin]


def context(demand: Tensor) -> Tensor:
    """(b, 2) crossings -> (b, features): both one-hot, and their rows and columns on the map."""
    hot = nn.functional.one_hot(demand, CROSSINGS).float().flatten(1)
    place = torch.stack([demand // COLUMNS, demand % COLUMNS], -1).float().flatten(1)
    return torch.cat([hot, place], 1)


def main(steps: int = 400, seed: int = 0) -> dict[str, float]:
    started = time.monotonic()
    torch.manual_seed(seed)
    streets, formula = town()
    pairs = torch.combinations(torch.arange(CROSSINGS))
    pairs = pairs[torch.randperm(len(pairs))]
    train, unseen = pairs[:50], pairs[50:]
    net = nn.Sequential(nn.Linear(2 * CROSSINGS + 4, 64), nn.Tanh(), nn.Linear(64, len(streets)))
    layer = LovaszLayer(formula, samples=16)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    valid = 0

    def evaluate(demand: Tensor) -> float:
        with torch.no_grad():
            plans = LovaszLayer(formula, samples=256).sample(net(context(demand)))
            return there_and_back(plans, demand, streets).mean().item()

    uniform = LovaszLayer(formula, samples=4096).sample(torch.zeros(1, len(streets)))
    uniform = uniform.expand(len(unseen), -1, -1)
    random = there_and_back(uniform, unseen, streets).mean().item()
    print(f"{len(streets)} streets, {formula.n_clauses} crossings, extremal: {formula.is_extremal}")
    print(f"random valid plans: {random:.2f} minutes per round trip")
    for step in range(steps):
        demand = train[torch.randint(len(train), (32,))]

        def cost(plans: Tensor, demand: Tensor = demand) -> Tensor:
            nonlocal valid
            valid += int(formula.satisfied(plans.numpy()).sum())
            return there_and_back(plans, demand, streets)

        loss = layer.expectation(cost, net(context(demand))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % max(1, steps // 5) == 0:
            print(f"step {step + 1:4}: {loss.item():.2f} minutes in training")
    result = {
        "random": random,
        "train": evaluate(train),
        "unseen": evaluate(unseen),
        "valid": valid / (steps * 32 * 16),
        "bound": shortest_round_trip(unseen),
    }
    print(
        f"after training: {result['train']:.2f} minutes on the demands of the training, "
        f"{result['unseen']:.2f} on new ones\n"
        f"no plan can be faster than {result['bound']:.2f} minutes (all streets two-way)\n"
        f"valid plans during training: {result['valid']:.0%}"
    )
    show(net, formula, streets, unseen[:1])
    print(f"{time.monotonic() - started:.1f} s")
    return result


def shortest_round_trip(demand: Tensor) -> float:
    """Mean minutes of the round trip if all streets were two-way: twice the grid distance."""
    apart = (demand // COLUMNS).diff().abs() + (demand % COLUMNS).diff().abs()
    return 2 * apart.float().mean().item()


def show(
    net: nn.Module, formula: nelson.Formula, streets: list[tuple[int, int]], demand: Tensor
) -> None:
    """Print the most probable plan for one demand, as directed streets."""
    with torch.no_grad():
        theta = net(context(demand))[0]
    plan = ConstrainedMRF(formula, theta).mode
    minutes = int(there_and_back(plan[None, None], demand, streets).item())
    directions = zip(streets, plan.bool().tolist(), strict=True)
    arrows = [f"{u}->{v}" if forth else f"{v}->{u}" for (u, v), forth in directions]
    print(f"most probable plan for {demand[0].tolist()}: {minutes} minutes, {' '.join(arrows)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    main(options.steps, options.seed)
