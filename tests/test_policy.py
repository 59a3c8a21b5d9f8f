"""How a policy prints: only what differs from the default."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

import nelson
from nelson.policy import DEFAULT, AutoPolicy, Policy


def test_the_default_is_short_in_signatures():
    assert repr(DEFAULT) == "Policy()"
    for function in (nelson.sample, nelson.plan, nelson.count, nelson.log_z, nelson.marginals):
        assert "policy: 'Policy' = Policy()" in str(inspect.signature(function))


def test_changes_are_shown_with_their_group():
    policy = Policy().without("joint")
    assert repr(policy) == "Policy(auto=AutoPolicy(without=('joint',)))"
    assert repr(replace(DEFAULT.rejection, few=8)) == "RejectionPolicy(few=8)"


@pytest.mark.parametrize("group", [field.name for field in fields(Policy)])
def test_every_group_is_hashable_and_prints_short(group):
    """A policy is part of memo keys."""
    assert hash(getattr(DEFAULT, group)) == hash(getattr(Policy(), group))
    assert repr(getattr(DEFAULT, group)).endswith("Policy()")


def test_a_pickle_holds_no_hash_of_this_process():
    policy = Policy().without("extremal")
    hash(policy)
    copied = pickle.loads(pickle.dumps(policy))
    assert copied == policy and "_hash" in vars(policy) and "_hash" not in vars(copied)


def test_numbers_are_given_by_place_or_by_name_and_others_are_refused():
    assert AutoPolicy(("extremal",), 7) == AutoPolicy(without=("extremal",), max_rounds=7)
    for wrong in (lambda: AutoPolicy((), without=()), lambda: AutoPolicy(rounds=3)):
        with pytest.raises(TypeError, match="AutoPolicy has no"):
            wrong()
    with pytest.raises(TypeError, match="not 100"):
        AutoPolicy(*range(100))
    with pytest.raises(FrozenInstanceError):
        AutoPolicy().max_rounds = 3
